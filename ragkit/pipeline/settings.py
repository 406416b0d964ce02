"""The configuration of a pipeline, read from a file or created in code."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ragkit.argument_types import check_types
from ragkit.config.yaml_nodes import ConfigProblem, SourceLocation, SourceText, format_problems
from ragkit.errors import PipelineError
from ragkit.masking import HIDDEN, is_secret, mask_passwords
from ragkit.pipeline import discovery
from ragkit.pipeline.components import AccessOptions, AnswerOptions, ComponentConfig, ValueOrigin
from ragkit.pipeline.merge import display_path, unknown_pipeline_message
from ragkit.pipeline.overrides import Override
from ragkit.pipeline.read import ParsedPipeline, ReadOptions, read_path, read_text
from ragkit.pipeline.requirements import missing_requirements
from ragkit.pipeline.runners import LocalOptions
from ragkit.pipeline.sections import SECTIONS, Section
from ragkit.pipeline.serialize import options_to_dict, to_flow_yaml, yaml_equal

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@check_types()
@dataclass(frozen=True)
class Pipeline:
    """The components of a pipeline with their options.

    Two pipelines are equal if their components and options are equal; name, path and origins do not count.
    """

    loaders: tuple[ComponentConfig, ...]
    """Section `load`: the directory walk (`folder`), and loaders with options of their own."""
    splitters: tuple[ComponentConfig, ...]
    """Section `split`: the first component that matches a file splits it."""
    embedder: ComponentConfig
    """Section `embed`."""
    store: ComponentConfig
    """Section `store`."""
    retriever: ComponentConfig
    """Section `retrieve`."""
    answer: AnswerOptions = field(default_factory=AnswerOptions)
    """Section `answer`."""
    runner: ComponentConfig = field(default_factory=lambda: ComponentConfig("local", LocalOptions()))
    """Section `run`: the runner that reads, splits and embeds files."""
    sources: tuple[ComponentConfig, ...] = ()
    """Section `sources`: what `ragkit index` without arguments brings up to date."""
    access: AccessOptions = field(default_factory=AccessOptions)
    """Section `access`: who may read documents that do not say it."""
    name: str = field(default="pipeline", compare=False)
    """The name of a shipped pipeline, or the file name without its suffix."""
    path: Path | None = field(default=None, compare=False)
    """The file that it was read from."""
    origins: Mapping[str, ValueOrigin] = field(default_factory=dict, compare=False, repr=False)
    """`split.chunk_size` (`split.0.chunk_size` in a list) -> origin of the value; defaults have none."""

    @classmethod
    def default(cls) -> Pipeline:
        """The default pipeline. Does not depend on the environment."""
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
            overrides: `section.option=value` each, with a YAML value; they take precedence over the file. Problems
                with an Override have the location that it was read from.
            profile: one of the file's `profiles:`; None: RAGKIT_PROFILE, which is ignored if the file has no profiles.
            environ: the variables; None: the environment of the process.
            thorough: import every component, and check every profile.

        Raises:
            PipelineError: with every problem in the file.
        """
        path = _resolve_path(path_or_name)
        environ = os.environ if environ is None else environ
        parsed = read_path(path, ReadOptions(environ, tuple(overrides), profile, thorough=thorough))
        return _create_pipeline(parsed, path.stem, path)

    @classmethod
    def from_yaml(
        cls,
        text: str,
        environ: Mapping[str, str] | None = None,
        name: str = "pipeline",
        *,
        overrides: Sequence[str] = (),
    ) -> Pipeline:
        """Read a pipeline from text, such as the result of `to_yaml`. Raises PipelineError."""
        request = ReadOptions(os.environ if environ is None else environ, tuple(overrides))
        return _create_pipeline(read_text(text, name, request), name, None)

    @staticmethod
    def find(start: str | Path = ".", environ: Mapping[str, str] | None = None) -> Path | None:
        """The `ragkit.yaml` of a directory, its parents up to the repository root, or the user's configuration."""
        return discovery.find_pipeline_file(Path(start), os.environ if environ is None else environ)

    def validate(self) -> None:
        """Check that every component is registered, accepts its options and can be imported.

        Raises:
            PipelineError: with every problem; a missing extra is named with its `pip install` command.
        """
        try:
            # without excerpts, which could show values of environment variables
            read_text(self._render(templates=False), self.name, ReadOptions({}))
        except PipelineError as error:
            raise PipelineError([problem.partition("\n")[0] for problem in error.problems]) from error
        problems: list[ConfigProblem] = []
        for section, key, component in self.components():
            location = self._find_location(f"{key}.name") or SourceLocation(SourceText(self.name, ()), 1, 1)
            message = _component_error(section, component)
            problems += [ConfigProblem(location, message)] if message else []
            problems += [
                ConfigProblem(self._find_location(f"{key}.{option}") or location, message)
                for option, message in missing_requirements(component.options)
            ]
        if problems:
            raise PipelineError(format_problems(problems))

    def _find_location(self, key: str) -> SourceLocation | None:
        origin = self.origins.get(key)
        return origin.location if origin is not None else None

    def to_yaml(self, *, complete: bool = False, hide: bool = False) -> str:
        """The pipeline as a file: `Pipeline.from_yaml(p.to_yaml()) == p`.

        Values from environment variables are written as `${NAME}`, so that the file contains no secrets.

        Args:
            complete: include options that have their default value.
            hide: write `(hidden)` instead of API keys and passwords; the result cannot be read back.
        """
        return self._render(complete=complete, hide=hide)

    def components(self) -> Iterator[tuple[Section, str, ComponentConfig]]:
        """Every component in the order of the data path: (section, key in `origins`, component)."""
        for section in SECTIONS:
            value = getattr(self, section.attribute)
            if isinstance(value, ComponentConfig):
                yield section, section.key, value
            elif isinstance(value, tuple):
                for number, component in enumerate(value):
                    yield section, section.key if len(value) == 1 else f"{section.key}.{number}", component

    def find_origin(self, key: str, value: object) -> ValueOrigin | None:
        """The origin of a value; None for defaults and for values that were changed in code."""
        origin = self.origins.get(key)
        return origin if origin is not None and yaml_equal(origin.value, value) else None

    @property
    def has_own_store(self) -> bool:
        """Whether the file names a store itself, instead of inheriting it from the default pipeline."""
        default = discovery.pipeline_path(discovery.DEFAULT_PIPELINE)
        if default is None or self.path == default:
            return True
        values: dict[str, object] = {"name": self.store.name, **options_to_dict(self.store.options)}
        origins = [self.find_origin(f"store.{key}", value) for key, value in values.items()]
        return any(origin is None or origin.location.source.name != display_path(default) for origin in origins)

    def with_store_from(self, other: Pipeline) -> Pipeline:
        """A copy with the store of another pipeline, variables included."""
        origins = {key: origin for key, origin in self.origins.items() if not key.startswith("store.")}
        origins |= {key: origin for key, origin in other.origins.items() if key.startswith("store.")}
        return replace(self, store=other.store, origins=origins)

    def _render(self, *, complete: bool = False, templates: bool = True, hide: bool = False) -> str:
        writer = _OptionsWriter(self, complete, templates, hide)
        answer = writer.format_options("answer", self.answer)
        written: dict[str, list[str]] = {section.key: [f"{section.key}:"] for section in SECTIONS}
        written["answer"] = ["answer:", *(f"  {entry}" for entry in answer)] if answer else ["answer: {}"]
        for section, key, component in self.components():
            in_list = key != section.key
            entries = [*writer.format_lines(key, component.head()), *writer.format_options(key, component.options)]
            first, rest = ("  - ", "    ") if in_list else ("  ", "  ")
            written[section.key] += [(rest if index else first) + entry for index, entry in enumerate(entries)]
        if not self.sources:
            del written["sources"]
        if self.access.default:
            written["access"] = ["access:", f"  default: {self.access.default}"]
        return "\n".join(line for lines in written.values() for line in lines) + "\n"


@dataclass(frozen=True)
class _OptionsWriter:
    """Formats options as lines of `name: value`."""

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
        """The options that differ from their defaults, or that come from a variable."""
        changed = options_to_dict(options)
        values = {
            name: value
            for name, value in options_to_dict(options, complete=True).items()
            if self.complete or name in changed or self._find_template(f"{key}.{name}", value)
        }
        return self.format_lines(key, values)

    def _find_template(self, key: str, value: object) -> str:
        origin = self.pipeline.find_origin(key, value) if self.templates else None
        return origin.template if origin is not None else ""


def _resolve_path(path_or_name: str | os.PathLike[str]) -> Path:
    if not isinstance(path_or_name, str):
        return Path(path_or_name)
    shipped = discovery.pipeline_path(path_or_name)
    if shipped is not None:
        return shipped
    if "/" not in path_or_name and not path_or_name.endswith((".yaml", ".yml")) and not Path(path_or_name).is_file():
        raise PipelineError([unknown_pipeline_message(path_or_name) + ", or the path of a file"])
    return Path(path_or_name)


def _create_pipeline(parsed: ParsedPipeline, name: str, path: Path | None) -> Pipeline:
    components = parsed.components
    embedder, store, retriever, runner = (components[key][0] for key in ("embed", "store", "retrieve", "run"))
    stages = components["load"], components["split"], embedder, store, retriever, parsed.answer, runner
    return Pipeline(*stages, components.get("sources", ()), parsed.access, name, path, parsed.origins)


def _component_error(section: Section, component: ComponentConfig) -> str:
    """Why a component cannot be used, or ''."""
    message = section.component_error(component.name)
    if message:
        return message
    expected = section.options_class(component.name)
    if type(component.options) is (expected or type(None)):
        return ""
    name = expected.__name__ if expected else "None"
    return f"options of {component.name!r} must be {name} (got {type(component.options).__name__})"
