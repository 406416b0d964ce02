"""A pipeline: what every station of the data path is made of, from a file or from code."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragkit.errors import PipelineError
from ragkit.masking import HIDDEN, is_secret, mask_passwords
from ragkit.pipeline import discovery
from ragkit.pipeline.components import AnswerOptions, ComponentConfig, ValueOrigin
from ragkit.pipeline.merge import display_path, unknown_pipeline_message
from ragkit.pipeline.overrides import Override
from ragkit.pipeline.read import ParsedPipeline, ReadOptions, read_path, read_text
from ragkit.pipeline.requirements import missing_requirements
from ragkit.pipeline.runners import LocalOptions
from ragkit.pipeline.sections import SECTIONS, Section, describe_import_error
from ragkit.pipeline.serialize import options_to_dict, to_flow_yaml, yaml_equal
from ragkit.pipeline.yaml_nodes import ConfigProblem, SourceLocation, SourceText, format_problems

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Pipeline:
    """The parts of one system and their options.

    Two pipelines are equal when they choose the same parts with the same options, wherever they came from.
    """

    loaders: tuple[ComponentConfig, ...]
    """Section `load`: the walk over folders (`folder`), and loaders for some of the files."""
    splitters: tuple[ComponentConfig, ...]
    """Section `split`: the first one that takes a file cuts it."""
    embedder: ComponentConfig
    """Section `embed`."""
    store: ComponentConfig
    """Section `store`."""
    retriever: ComponentConfig
    """Section `retrieve`."""
    answer: AnswerOptions = field(default_factory=AnswerOptions)
    """Section `answer`."""
    runner: ComponentConfig = field(default_factory=lambda: ComponentConfig("local", LocalOptions()))
    """Section `run`: who reads, splits and embeds when files are indexed."""
    name: str = field(default="pipeline", compare=False)
    """The name of a shipped pipeline, or of the file without its suffix."""
    path: Path | None = field(default=None, compare=False)
    """The file that it was read from."""
    origins: Mapping[str, ValueOrigin] = field(default_factory=dict, compare=False, repr=False)
    """`split.chunk_size` (`split.0.chunk_size` in a list) -> where its value came from; defaults are not here."""

    @classmethod
    def default(cls) -> Pipeline:
        """What a folder is indexed with when nobody says otherwise. Takes no notice of the environment."""
        return cls.load("default", environ={})

    @classmethod
    def load(
        cls,
        path_or_name: str | os.PathLike[str],
        overrides: Sequence[str | Override] = (),
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
        path = _resolve_path(path_or_name)
        environ = os.environ if environ is None else environ
        reading = read_path(path, ReadOptions(environ, tuple(overrides), profile, thorough=thorough))
        return _create_pipeline(reading, path.stem, path)

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
        request = ReadOptions(os.environ if environ is None else environ, tuple(overrides))
        return _create_pipeline(read_text(text, name, request), name, None)

    @staticmethod
    def find(start: str | Path = ".", environ: Mapping[str, str] | None = None) -> Path | None:
        """The `ragkit.yaml` that holds in a folder: there, in a parent up to the repository root, or the user's own."""
        return discovery.find_pipeline_file(Path(start), os.environ if environ is None else environ)

    def validate(self) -> None:
        """Check that every part exists, takes these options and can be imported.

        Raises:
            PipelineError: with every problem; one that is missing an extra names its `pip install` line.
        """
        try:
            # without its lines, so that no message shows a value that came out of the environment
            read_text(self._render(templates=False), self.name, ReadOptions({}))
        except PipelineError as error:
            raise PipelineError([problem.partition("\n")[0] for problem in error.problems]) from error
        problems: list[ConfigProblem] = []
        for section, key, choice in self.components():
            origin = self.origins.get(f"{key}.name")
            mark = origin.location if origin is not None else SourceLocation(SourceText(self.name, ()), 1, 1)
            message = _component_error(section, choice)
            problems += [ConfigProblem(mark, message)] if message else []
            problems += [
                ConfigProblem(self._find_location(f"{key}.{option}") or mark, what)
                for option, what in missing_requirements(choice.options)
            ]
        if problems:
            raise PipelineError(format_problems(problems))

    def _find_location(self, key: str) -> SourceLocation | None:
        origin = self.origins.get(key)
        return origin.location if origin is not None else None

    def to_yaml(self, *, complete: bool = False, hide: bool = False) -> str:
        """The pipeline as a file: `Pipeline.from_yaml(p.to_yaml()) == p`.

        A value that came through a variable is written as `${NAME}`, so that no secret gets into a file.

        Args:
            complete: write options that have their default, too.
            hide: write `(hidden)` for keys and passwords that the file itself holds: for people, not to be read back.
        """
        return self._render(complete=complete, hide=hide)

    def components(self) -> Iterator[tuple[Section, str, ComponentConfig]]:
        """Every chosen part in the order of the data path, with its section and the key that origins use."""
        for section in SECTIONS:
            chosen = getattr(self, section.attribute)
            if isinstance(chosen, ComponentConfig):
                yield section, section.key, chosen
            elif isinstance(chosen, tuple):
                for number, choice in enumerate(chosen):
                    yield section, section.key if len(chosen) == 1 else f"{section.key}.{number}", choice

    def find_origin(self, key: str, value: object) -> ValueOrigin | None:
        """Where the value at a key came from; None for a default and for what was changed in code since."""
        origin = self.origins.get(key)
        return origin if origin is not None and yaml_equal(origin.value, value) else None

    @property
    def has_own_store(self) -> bool:
        """Whether it says itself which store is used: a file that leaves `store` to the default pipeline does not."""
        default = discovery.pipeline_path(discovery.DEFAULT_PIPELINE)
        if default is None or self.path == default:
            return True
        told: dict[str, object] = {"name": self.store.name, **options_to_dict(self.store.options)}
        origins = [self.find_origin(f"store.{key}", value) for key, value in told.items()]
        return any(origin is None or origin.location.source.name != display_path(default) for origin in origins)

    def with_store_from(self, other: Pipeline) -> Pipeline:
        """This pipeline with the store of another one; variables stay variables."""
        origins = {key: origin for key, origin in self.origins.items() if not key.startswith("store.")}
        origins |= {key: origin for key, origin in other.origins.items() if key.startswith("store.")}
        return replace(self, store=other.store, origins=origins)

    def _render(self, *, complete: bool = False, templates: bool = True, hide: bool = False) -> str:
        writer = _OptionsWriter(self, complete, templates, hide)
        answer = writer.format_options("answer", self.answer)
        written: dict[str, list[str]] = {section.key: [f"{section.key}:"] for section in SECTIONS}
        written["answer"] = ["answer:", *(f"  {entry}" for entry in answer)] if answer else ["answer: {}"]
        for section, key, choice in self.components():
            in_list = key != section.key
            head: dict[str, object] = {"name": choice.name, **({"only": choice.only} if choice.only else {})}
            entries = [*writer.format_lines(key, head), *writer.format_options(key, choice.options)]
            first, rest = ("  - ", "    ") if in_list else ("  ", "  ")
            written[section.key] += [(rest if place else first) + entry for place, entry in enumerate(entries)]
        return "\n".join(line for lines in written.values() for line in lines) + "\n"


@dataclass(frozen=True)
class _OptionsWriter:
    """Writes options as `name: value`, one a line."""

    pipeline: Pipeline
    complete: bool
    templates: bool
    hide_secrets: bool

    def format_lines(self, key: str, values: Mapping[str, object]) -> list[str]:
        return [f"{name}: {self._format_value(f'{key}.{name}', name, value)}" for name, value in values.items()]

    def _format_value(self, key: str, name: str, value: object) -> str:
        template = self._find_template(key, value)
        if self.hide_secrets and not template and is_secret(name) and value not in (None, ""):
            return HIDDEN
        text = template or to_flow_yaml(value)
        return mask_passwords(text) if self.hide_secrets else text

    def format_options(self, key: str, options: DataclassInstance | None) -> list[str]:
        """The options that are not at their default, and those that a variable brought there."""
        every = options_to_dict(options, complete=True)
        told = every if self.complete else options_to_dict(options)
        kept = {
            name: value for name, value in every.items() if name in told or self._find_template(f"{key}.{name}", value)
        }
        return self.format_lines(key, kept)

    def _find_template(self, key: str, value: object) -> str:
        origin = self.pipeline.find_origin(key, value) if self.templates else None
        return origin.template if origin is not None else ""


def _resolve_path(path_or_name: str | os.PathLike[str]) -> Path:
    if not isinstance(path_or_name, str):
        return Path(path_or_name)
    named = discovery.pipeline_path(path_or_name)
    if named is not None:
        return named
    if "/" not in path_or_name and not path_or_name.endswith((".yaml", ".yml")) and not Path(path_or_name).is_file():
        raise PipelineError([unknown_pipeline_message(path_or_name) + ", or the path of a file"])
    return Path(path_or_name)


def _create_pipeline(reading: ParsedPipeline, name: str, path: Path | None) -> Pipeline:
    choices = reading.components
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


def _component_error(section: Section, choice: ComponentConfig) -> str:
    """What keeps a chosen part from being imported, or options that are not its own; '' when all is well."""
    assert section.registry is not None  # noqa: S101 - `answer` is no choice
    message = describe_import_error(section.registry, choice.name, section.options_class, section.registry.find)
    if message:
        return message
    wanted = section.options_class(choice.name)
    if type(choice.options) is (wanted or type(None)):
        return ""
    name = wanted.__name__ if wanted else "None"
    return f"the options of {choice.name!r} are {type(choice.options).__name__}: {name} is wanted"
