"""A pipeline: what every station of the data path is made of, from a file or from code."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragkit.errors import PipelineError
from ragkit.masking import HIDDEN, is_secret, without_password
from ragkit.pipeline import shipped
from ragkit.pipeline.choice import AnswerOptions, Choice, Origin
from ragkit.pipeline.dump import flow, same, settings_of
from ragkit.pipeline.layers import display, unknown_pipeline
from ragkit.pipeline.nodes import Mark, Problem, Source, in_order
from ragkit.pipeline.overrides import Setting
from ragkit.pipeline.parts import SECTIONS, Section, trouble
from ragkit.pipeline.read import Reading, Request, read_path, read_text
from ragkit.pipeline.runners import LocalOptions
from ragkit.pipeline.unmet import unmet

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Pipeline:
    """The parts of one system and their options.

    Two pipelines are equal when they choose the same parts with the same options, wherever they came from.
    """

    loaders: tuple[Choice, ...]
    """Section `load`: the walk over folders (`folder`), and loaders for some of the files."""
    splitters: tuple[Choice, ...]
    """Section `split`: the first one that takes a file cuts it."""
    embedder: Choice
    """Section `embed`."""
    store: Choice
    """Section `store`."""
    retriever: Choice
    """Section `retrieve`."""
    answer: AnswerOptions = field(default_factory=AnswerOptions)
    """Section `answer`."""
    runner: Choice = field(default_factory=lambda: Choice("local", LocalOptions()))
    """Section `run`: who reads, splits and embeds when files are indexed."""
    name: str = field(default="pipeline", compare=False)
    """The name of a shipped pipeline, or of the file without its suffix."""
    path: Path | None = field(default=None, compare=False)
    """The file that it was read from."""
    origins: Mapping[str, Origin] = field(default_factory=dict, compare=False, repr=False)
    """`split.chunk_size` (`split.0.chunk_size` in a list) -> where its value came from; defaults are not here."""

    @classmethod
    def default(cls) -> Pipeline:
        """What a folder is indexed with when nobody says otherwise. Takes no notice of the environment."""
        return cls.load("default", environ={})

    @classmethod
    def load(
        cls,
        path_or_name: str | os.PathLike[str],
        overrides: Sequence[str | Setting] = (),
        profile: str | None = None,
        environ: Mapping[str, str] | None = None,
        *,
        thorough: bool = False,
    ) -> Pipeline:
        """Read a pipeline file.

        Args:
            path_or_name: a file, or the name of a shipped pipeline.
            overrides: `section.option=value` each, laid over the file; values are read as YAML. A Setting has been read
                from a file already, and problems name its place there.
            profile: one of the file's `profiles:`; None asks RAGKIT_PROFILE, which a file without profiles ignores.
            environ: where variables are looked up; None: the environment of the process.
            thorough: import every part that is named, and look into every profile.

        Raises:
            PipelineError: with every problem that was found.
        """
        path = _path(path_or_name)
        environ = os.environ if environ is None else environ
        reading = read_path(path, Request(environ, tuple(overrides), profile, thorough=thorough))
        return _made(reading, path.stem, path)

    @classmethod
    def from_yaml(
        cls,
        text: str,
        environ: Mapping[str, str] | None = None,
        name: str = "pipeline",
        *,
        overrides: Sequence[str] = (),
    ) -> Pipeline:
        """Read a text that is no file, such as `to_yaml` gave. Raises PipelineError."""
        request = Request(os.environ if environ is None else environ, tuple(overrides))
        return _made(read_text(text, name, request), name, None)

    @staticmethod
    def find(start: str | Path = ".", environ: Mapping[str, str] | None = None) -> Path | None:
        """The `ragkit.yaml` that holds in a folder: there, in a parent up to the repository root, or the user's own."""
        return shipped.find(Path(start), os.environ if environ is None else environ)

    def validate(self) -> None:
        """Check that every part exists, takes these options and can be imported.

        Raises:
            PipelineError: with every problem; one that is missing an extra names its `pip install` line.
        """
        try:
            # without its lines, so that no message shows a value that came out of the environment
            read_text(self._text(templates=False), self.name, Request({}))
        except PipelineError as error:
            raise PipelineError([problem.partition("\n")[0] for problem in error.problems]) from error
        problems: list[Problem] = []
        for section, key, choice in self.choices():
            origin = self.origins.get(f"{key}.name")
            mark = origin.mark if origin is not None else Mark(Source(self.name, ()), 1, 1)
            message = _missing(section, choice)
            problems += [Problem(mark, message)] if message else []
            problems += [Problem(self._mark(f"{key}.{option}") or mark, what) for option, what in unmet(choice.options)]
        if problems:
            raise PipelineError(in_order(problems))

    def _mark(self, key: str) -> Mark | None:
        origin = self.origins.get(key)
        return origin.mark if origin is not None else None

    def to_yaml(self, *, complete: bool = False, hide: bool = False) -> str:
        """The pipeline as a file: `Pipeline.from_yaml(p.to_yaml()) == p`.

        A value that came through a variable is written as `${NAME}`, so that no secret gets into a file.

        Args:
            complete: write options that have their default, too.
            hide: write `(hidden)` for keys and passwords that the file itself holds: for people, not to be read back.
        """
        return self._text(complete=complete, hide=hide)

    def choices(self) -> Iterator[tuple[Section, str, Choice]]:
        """Every chosen part in the order of the data path, with its section and the key that origins use."""
        for section in SECTIONS:
            chosen = getattr(self, section.attribute)
            if isinstance(chosen, Choice):
                yield section, section.key, chosen
            elif isinstance(chosen, tuple):
                for number, choice in enumerate(chosen):
                    yield section, section.key if len(chosen) == 1 else f"{section.key}.{number}", choice

    def origin_of(self, key: str, value: object) -> Origin | None:
        """Where the value at a key came from; None for a default and for what was changed in code since."""
        origin = self.origins.get(key)
        return origin if origin is not None and same(origin.value, value) else None

    @property
    def names_store(self) -> bool:
        """Whether it says itself which store is used: a file that leaves `store` to the default pipeline does not."""
        default = shipped.path_of(shipped.DEFAULT)
        if default is None or self.path == default:
            return True
        told: dict[str, object] = {"name": self.store.name, **settings_of(self.store.options)}
        origins = [self.origin_of(f"store.{key}", value) for key, value in told.items()]
        return any(origin is None or origin.mark.source.name != display(default) for origin in origins)

    def with_store_of(self, other: Pipeline) -> Pipeline:
        """This pipeline with the store of another one; variables stay variables."""
        origins = {key: origin for key, origin in self.origins.items() if not key.startswith("store.")}
        origins |= {key: origin for key, origin in other.origins.items() if key.startswith("store.")}
        return replace(self, store=other.store, origins=origins)

    def _text(self, *, complete: bool = False, templates: bool = True, hide: bool = False) -> str:
        writer = _Writer(self, complete, templates, hide)
        answer = writer.options("answer", self.answer)
        written: dict[str, list[str]] = {section.key: [f"{section.key}:"] for section in SECTIONS}
        written["answer"] = ["answer:", *(f"  {entry}" for entry in answer)] if answer else ["answer: {}"]
        for section, key, choice in self.choices():
            in_list = key != section.key
            head: dict[str, object] = {"name": choice.name, **({"only": choice.only} if choice.only else {})}
            entries = [*writer.lines(key, head), *writer.options(key, choice.options)]
            first, rest = ("  - ", "    ") if in_list else ("  ", "  ")
            written[section.key] += [(rest if place else first) + entry for place, entry in enumerate(entries)]
        return "\n".join(line for lines in written.values() for line in lines) + "\n"


@dataclass(frozen=True)
class _Writer:
    """Writes options as `name: value`, one a line."""

    pipeline: Pipeline
    complete: bool
    templates: bool
    hide: bool

    def lines(self, key: str, values: Mapping[str, object]) -> list[str]:
        return [f"{name}: {self._written(f'{key}.{name}', name, value)}" for name, value in values.items()]

    def _written(self, key: str, name: str, value: object) -> str:
        template = self._template(key, value)
        if self.hide and not template and is_secret(name) and value not in (None, ""):
            return HIDDEN
        text = template or flow(value)
        return without_password(text) if self.hide else text

    def options(self, key: str, options: DataclassInstance | None) -> list[str]:
        """The options that are not at their default, and those that a variable brought there."""
        every = settings_of(options, complete=True)
        told = every if self.complete else settings_of(options)
        kept = {name: value for name, value in every.items() if name in told or self._template(f"{key}.{name}", value)}
        return self.lines(key, kept)

    def _template(self, key: str, value: object) -> str:
        origin = self.pipeline.origin_of(key, value) if self.templates else None
        return origin.template if origin is not None else ""


def _path(path_or_name: str | os.PathLike[str]) -> Path:
    if not isinstance(path_or_name, str):
        return Path(path_or_name)
    named = shipped.path_of(path_or_name)
    if named is not None:
        return named
    if "/" not in path_or_name and not path_or_name.endswith((".yaml", ".yml")) and not Path(path_or_name).is_file():
        raise PipelineError([unknown_pipeline(path_or_name) + ", or the path of a file"])
    return Path(path_or_name)


def _made(reading: Reading, name: str, path: Path | None) -> Pipeline:
    choices = reading.choices
    return Pipeline(
        choices["load"],
        choices["split"],
        choices["embed"][0],
        choices["store"][0],
        choices["retrieve"][0],
        reading.answer,
        choices["run"][0],
        name,
        path,
        reading.origins,
    )


def _missing(section: Section, choice: Choice) -> str:
    """What keeps a chosen part from being imported, or options that are not its own; '' when all is well."""
    assert section.names is not None  # noqa: S101 - `answer` is no choice
    message = trouble(section.names, choice.name, section.options_of, section.names.find)
    if message:
        return message
    wanted = section.options_of(choice.name)
    if type(choice.options) is (wanted or type(None)):
        return ""
    name = wanted.__name__ if wanted else "None"
    return f"the options of {choice.name!r} are {type(choice.options).__name__}: {name} is wanted"
