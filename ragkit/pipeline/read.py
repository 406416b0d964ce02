"""Read a pipeline file into components with their options, and collect every problem in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ragkit.config.convert import OptionsReader, unknown_option
from ragkit.config.variables import substitute_variables
from ragkit.config.yaml_nodes import (
    ConfigProblem,
    KeyNode,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    SourceLocation,
    SourceText,
    describe_node,
    format_problems,
    must_be,
)
from ragkit.config.yaml_parser import ConfigReadError
from ragkit.errors import PipelineError, closest_match, did_you_mean
from ragkit.pipeline import discovery
from ragkit.pipeline.components import AccessOptions, AnswerOptions, ComponentConfig, ValueOrigin
from ragkit.pipeline.merge import ExtendsResolver, apply_profile, parse_mapping
from ragkit.pipeline.overrides import Override, apply_overrides
from ragkit.pipeline.requirements import missing_requirements
from ragkit.pipeline.routing import check_routing, parse_only
from ragkit.pipeline.sections import BUILT_IN_PROVIDERS, SECTIONS, Section, describe_import_error, section_keys
from ragkit.pipeline.serialize import format_template

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PROFILE_VARIABLE = "RAGKIT_PROFILE"
"""The environment variable that selects a profile."""


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read."""

    environ: Mapping[str, str]
    """Environment variables, RAGKIT_PROFILE among them."""
    overrides: Sequence[str | Override] = ()
    """`a.b=value` each; the last one for an option wins."""
    profile: str | None = None
    """The profile to apply; None: the one of RAGKIT_PROFILE."""
    thorough: bool = False
    """Import every named component, and check every profile."""
    sections: Sequence[Section] = SECTIONS


@dataclass(frozen=True)
class ParsedPipeline:
    """The components and options of a file, and the origin of each value."""

    components: Mapping[str, tuple[ComponentConfig, ...]]
    """Section -> its components; several in `sources`, `load` and `split` only. Without `answer`."""
    answer: AnswerOptions
    access: AccessOptions
    origins: Mapping[str, ValueOrigin]
    """`split.chunk_size`, or `split.0.chunk_size` if the section is a list -> its origin."""


KB_KEY = "kb"
"""The key of the knowledge base that commands use; it is no part of the pipeline."""
ACCESS_KEY = "access"
"""The key of `AccessOptions`."""


def read_path(path: Path, request: ReadOptions) -> ParsedPipeline:
    """Read a file and the files that it extends. Raises PipelineError with every problem."""
    problems: list[ConfigProblem] = []
    try:
        tree = ExtendsResolver(path, problems).resolve()
    except ConfigReadError as error:
        raise PipelineError(format_problems([*problems, error.problem])) from error
    return _read_tree(tree, request, problems)


def read_text(text: str, name: str, request: ReadOptions) -> ParsedPipeline:
    """Read a text that messages call `name`. It can extend shipped pipelines only."""
    problems: list[ConfigProblem] = []
    try:
        resolver = ExtendsResolver(Path(name), problems, allow_files=False)
        tree = resolver.apply_extends(parse_mapping(text, name, problems), Path(name), ())
    except ConfigReadError as error:
        raise PipelineError(format_problems([*problems, error.problem])) from error
    return _read_tree(tree, request, problems)


def read_place(path_or_name: str, environ: Mapping[str, str]) -> str | None:
    """The knowledge base that a pipeline file names in `kb:`: an address, or a directory relative to the file.

    None if it names none, if it is a shipped pipeline, or if it cannot be read, which reading the pipeline reports.
    Raises PipelineError if the value is not a text, or needs a variable that is not set.
    """
    if discovery.pipeline_path(path_or_name) is not None:
        return None
    try:
        node = ExtendsResolver(Path(path_or_name), []).resolve().get(KB_KEY)
    except ConfigReadError:
        return None
    if node is None:
        return None
    problems: list[ConfigProblem] = []
    node = substitute_variables(node, environ, problems)
    _check_place(node, problems)
    if problems or not isinstance(node, ScalarNode):
        raise PipelineError(format_problems(problems))
    place = str(node.value)
    return place if "://" in place else str(Path(path_or_name).parent / Path(place).expanduser())


def _check_place(node: Node, problems: list[ConfigProblem]) -> None:
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str) or not node.value:
        message = must_be(KB_KEY, "a directory, or an address like postgresql://host/database", node)
        problems.append(ConfigProblem(node.location, message))


def _read_tree(tree: MappingNode, request: ReadOptions, problems: list[ConfigProblem]) -> ParsedPipeline:
    place = tree.get(KB_KEY)
    if place is not None:
        _check_place(place, problems)
        tree = tree.without(KB_KEY)
    _check_profiles(tree, request.sections, problems)
    profile, requested_at = request.profile, None
    profiles = tree.get("profiles")
    if profile is None and request.environ.get(PROFILE_VARIABLE) and profiles is not None:
        profile = request.environ[PROFILE_VARIABLE]
        requested_at = SourceLocation(SourceText(PROFILE_VARIABLE, (profile,)), 1, 1)
    parsed = _read_profile(tree, profile, requested_at, request, problems)
    if request.thorough and isinstance(profiles, MappingNode):
        for other in profiles.key_names():
            _read_profile(tree, other, None, request, problems)
    if problems or parsed is None:
        raise PipelineError(format_problems(problems))
    return parsed


def _read_profile(
    tree: MappingNode,
    profile: str | None,
    requested_at: SourceLocation | None,
    request: ReadOptions,
    problems: list[ConfigProblem],
) -> ParsedPipeline | None:
    """The pipeline with one profile, or None after adding to `problems`."""
    if profile is not None:
        tree = apply_profile(tree, profile, requested_at, problems)
    partial = tree.get("extends") is not None
    if not partial:
        tree = _add_default_sections(tree, request.sections, problems)
    tree = apply_overrides(tree.without("profiles"), request.overrides, problems)
    _check_keys(tree, section_keys(request.sections), ("extends", "profiles", ACCESS_KEY), problems)
    access = _read_access(tree, request, problems)
    required = [section.key for section in request.sections if not section.is_optional]
    missing = [key for key in required if tree.get(key) is None]
    if missing and not partial:
        noun = "section" if len(missing) == 1 else "sections"
        message = f"missing {noun} {', '.join(missing)}: add what is missing, or `extends: default`"
        problems.append(ConfigProblem(tree.location, message))
    reader = _SectionReader(request, problems, partial)
    for section in request.sections:
        node, key = tree.get(section.key), tree.find_key(section.key)
        if node is not None and key is not None:
            reader.read_section(section, key, substitute_variables(node, request.environ, problems))
    with_components = [section.key for section in request.sections if section.registry is not None]
    if reader.answer is None or not reader.components.keys() >= set(required) & set(with_components):
        return None
    return ParsedPipeline(reader.components, reader.answer, access, reader.origins)


def _read_access(tree: MappingNode, request: ReadOptions, problems: list[ConfigProblem]) -> AccessOptions:
    node, key = tree.get(ACCESS_KEY), tree.find_key(ACCESS_KEY)
    if node is None or key is None:
        return AccessOptions()
    node = substitute_variables(node, request.environ, problems)
    if not isinstance(node, MappingNode):
        message = must_be(ACCESS_KEY, "a mapping such as {default: closed}", node)
        problems.append(ConfigProblem(node.location, message))
        return AccessOptions()
    options = OptionsReader(AccessOptions, f"the section {ACCESS_KEY!r}", problems).read(node, key)
    return options if isinstance(options, AccessOptions) else AccessOptions()


def _add_default_sections(tree: MappingNode, sections: Sequence[Section], problems: list[ConfigProblem]) -> MappingNode:
    """The tree with missing sections taken from the default pipeline."""
    path = discovery.pipeline_path(discovery.DEFAULT_PIPELINE)
    if path is None or all(tree.get(section.key) is not None for section in sections):
        return tree
    base = ExtendsResolver(path, problems).resolve()
    for section in sections:
        node, key = base.get(section.key), base.find_key(section.key)
        if tree.get(section.key) is None and node is not None and key is not None:
            tree = tree.with_pair(key, node)
    return tree


def _check_profiles(tree: MappingNode, sections: Sequence[Section], problems: list[ConfigProblem]) -> None:
    """Check that every profile is a mapping of sections."""
    profiles = tree.get("profiles")
    if profiles is None:
        return
    if not isinstance(profiles, MappingNode):
        message = must_be("profiles", "a mapping of names to sections", profiles)
        problems.append(ConfigProblem(profiles.location, message))
        return
    for key, profile in profiles.pairs:
        if isinstance(profile, MappingNode):
            _check_keys(profile, section_keys(sections), (ACCESS_KEY,), problems)
        else:
            message = must_be(f"the profile {key.text!r}", "a mapping of sections", profile)
            problems.append(ConfigProblem(profile.location, message))


def _check_keys(
    tree: MappingNode, known: Sequence[str], extra_keys: Sequence[str], problems: list[ConfigProblem]
) -> None:
    """Check that every key is a section or one of `extra_keys`."""
    for key, _ in tree.pairs:
        if key.text not in (*known, *extra_keys):
            hint = did_you_mean(key.text, [*known, *extra_keys])
            message = f"unknown section {key.text!r}{hint}; available: {', '.join(known)}"
            problems.append(ConfigProblem(key.location, message))


@dataclass
class _SectionReader:
    """Reads sections and collects their components."""

    request: ReadOptions
    problems: list[ConfigProblem]
    is_partial: bool
    """Whether the extended file is unreadable: names of components may be missing."""
    components: dict[str, tuple[ComponentConfig, ...]] = field(default_factory=dict)
    answer: AnswerOptions | None = None
    origins: dict[str, ValueOrigin] = field(default_factory=dict)

    def read_section(self, section: Section, key: KeyNode, node: Node) -> None:
        """Read one section; skip it after adding to `problems` if it is invalid."""
        if isinstance(node, SequenceNode) and section.allows_list:
            self._read_list(section, key, node)
            return
        if not isinstance(node, MappingNode):
            self._report_not_mapping(section, node, section.key)
            return
        if section.registry is None:
            self._read_answer(section, key, node)
            return
        component = self._read_component(section, section.key, key, node)
        if component is not None:
            self.problems += check_routing(section, [(component, node)]) if section.routes_files else []
            self.components[section.key] = (component,)

    def _read_answer(self, section: Section, key: KeyNode, node: MappingNode) -> None:
        options = OptionsReader(AnswerOptions, f"the section {section.key!r}", self.problems).read(node, key)
        self._record_origins(section.key, node, options)
        if not isinstance(options, AnswerOptions):
            return
        self.answer = options
        provider = options.provider.partition(":")[0]
        registry, message = section.provider_registry, ""
        value = node.get("provider") or node
        if provider not in BUILT_IN_PROVIDERS and (registry is None or provider not in registry):
            names = section.provider_names()
            near = closest_match(provider, names)
            expected = f"one of {', '.join(names)}, or provider:model"
            message = must_be("provider", expected, value, repr(near) if near else "")
        elif self.request.thorough and registry is not None and provider not in BUILT_IN_PROVIDERS:
            message = describe_import_error(registry, provider, registry.find)
        self.problems += [ConfigProblem(value.location, message)] if message else []

    def _read_list(self, section: Section, key: KeyNode, node: SequenceNode) -> None:
        chosen: list[ComponentConfig] = []
        for number, entry in enumerate(node.entries):
            at = KeyNode(str(number), entry.location)
            if not isinstance(entry, MappingNode):
                self._report_not_mapping(section, entry, f"each entry of {section.key}")
            elif (component := self._read_component(section, f"{section.key}.{number}", at, entry)) is not None:
                chosen.append(component)
        if not node.entries:
            message = must_be(section.key, "a mapping or a list of one or more components", node)
            self.problems.append(ConfigProblem(node.location, message))
        elif len(chosen) == len(node.entries):
            if section.routes_files:
                self.problems += check_routing(section, list(zip(chosen, node.entries, strict=True)))
            self.components[section.key] = tuple(chosen)

    def _read_component(
        self, section: Section, prefix: str, key: KeyNode, table: MappingNode
    ) -> ComponentConfig | None:
        before = len(self.problems)
        name = self._read_name(section, key, table)
        if name is None:
            return None
        only_node = table.get("only") if section.routes_files else None
        only = parse_only(section, name, only_node, self.problems) if only_node is not None else ()
        rest = table.without("name", "only") if section.routes_files else table.without("name")
        reader = self._options_reader(section, name, (table.get("name") or table).location)
        options = reader.read(rest, key) if reader is not None else None
        if self.request.thorough:
            self.problems += [
                ConfigProblem((rest.get(option) or table).location, message)
                for option, message in missing_requirements(options)
            ]
        if reader is None and len(self.problems) == before:
            owner = f" of the {section.registry.kind if section.registry else section.key} {name!r}"
            self.problems += [unknown_option(option, owner, []) for option, _ in rest.pairs]
        self._record_origins(prefix, rest, options)
        for option, value in (("name", name), ("only", only)):
            node = table.get(option)
            if node is not None:
                self.origins[f"{prefix}.{option}"] = _create_origin(node, value)
        return ComponentConfig(name, options, only) if len(self.problems) == before else None

    def _read_name(self, section: Section, key: KeyNode, table: MappingNode) -> str | None:
        """The registered name of a component, or None after adding to `problems`."""
        registry, node = section.registry, table.get("name")
        assert registry is not None  # noqa: S101 - `answer` is read by another method
        if node is None and self.is_partial:
            return None
        if isinstance(node, ScalarNode) and isinstance(node.value, str) and node.value in registry:
            return node.value
        known = registry.names()
        if node is None:
            message = f"{section.key} needs the name of {_with_article(registry.kind)}; available: {', '.join(known)}"
        elif not isinstance(node, ScalarNode) or not isinstance(node.value, str):
            message = must_be("name", f"one of {', '.join(known)}", node)
        else:
            hint = did_you_mean(node.value, known)
            message = f"unknown {registry.kind} {describe_node(node)}{hint}; available: {', '.join(known)}"
            if not hint:
                message += f'; for one of yours, register("{registry.kind}", ...) or install its package'
        self.problems.append(ConfigProblem((node or key).location, message))
        return None

    def _options_reader(self, section: Section, name: str, location: SourceLocation) -> OptionsReader | None:
        """The reader of a component's options; None if it has no options, or after adding to `problems`."""
        assert section.registry is not None  # noqa: S101 - `answer` is read by another method
        if self.request.thorough:
            message = section.component_error(name)
        else:
            message = describe_import_error(section.registry, name, section.options_class)
        if message:
            self.problems.append(ConfigProblem(location, message))
            return None
        owner, options = f"the {section.registry.kind} {name!r}", section.options_class(name)
        if options is None:
            return None
        return OptionsReader(options, owner, self.problems, section.deferred_options, section.address_options)

    def _report_not_mapping(self, section: Section, node: Node, name: str) -> None:
        shape = "{provider: auto}" if section.registry is None else "{name: ..., option: ...}"
        known = section.registry.names() if section.registry else []
        if isinstance(node, ScalarNode) and node.text in known:
            shape = f"{{name: {node.text}}}"
        expected = f"a mapping {shape}" + (" or a list of them" if section.allows_list and name == section.key else "")
        self.problems.append(ConfigProblem(node.location, must_be(name, expected, node)))

    def _record_origins(self, prefix: str, table: MappingNode, options: DataclassInstance | None) -> None:
        for key, node in table.pairs:
            self.origins[f"{prefix}.{key.text}"] = _create_origin(node, getattr(options, key.text, None))


def _create_origin(node: Node, value: object) -> ValueOrigin:
    template, variables = format_template(node)
    return ValueOrigin(node.location, variables, template, value)


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"
