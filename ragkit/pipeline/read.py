"""A pipeline file -> its chosen parts with their options, or every problem in it at once.

Knows the sections and the registries; what a section means to a build is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ragkit.errors import PipelineError, did_you_mean
from ragkit.pipeline import discovery
from ragkit.pipeline.components import AnswerOptions, ComponentConfig, ValueOrigin
from ragkit.pipeline.convert import OptionsReader
from ragkit.pipeline.merge import ExtendsResolver, apply_profile, parse_mapping
from ragkit.pipeline.overrides import Override, apply_overrides
from ragkit.pipeline.requirements import missing_requirements
from ragkit.pipeline.routing import check_routing, parse_only
from ragkit.pipeline.sections import SECTIONS, Section, describe_import_error, section_keys
from ragkit.pipeline.serialize import format_template
from ragkit.pipeline.variables import substitute_variables
from ragkit.pipeline.yaml_nodes import (
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
)
from ragkit.pipeline.yaml_parser import ConfigReadError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PROFILE_VARIABLE = "RAGKIT_PROFILE"
"""The variable that chooses a profile when no argument does."""


@dataclass(frozen=True)
class ReadOptions:
    """How a file is to be read."""

    environ: Mapping[str, str]
    """The environment: variables and RAGKIT_PROFILE."""
    overrides: Sequence[str | Override] = ()
    """`a.b=value` each; the last of two for one option holds."""
    profile: str | None = None
    """The profile to lay over the file; None asks RAGKIT_PROFILE."""
    thorough: bool = False
    """Import every part that is named, and look into every profile."""
    sections: Sequence[Section] = SECTIONS


@dataclass(frozen=True)
class ParsedPipeline:
    """What a file says: every section, and where each value came from."""

    components: Mapping[str, tuple[ComponentConfig, ...]]
    """Section -> its parts; one for all but routed sections. `answer` is not among them."""
    answer: AnswerOptions
    origins: Mapping[str, ValueOrigin]
    """`split.chunk_size`, or `split.0.chunk_size` where a section is a list -> where it came from."""


def read_path(path: Path, request: ReadOptions) -> ParsedPipeline:
    """Read a file and everything that it extends. Raises PipelineError with every problem."""
    problems: list[ConfigProblem] = []
    try:
        tree = ExtendsResolver(path, problems).resolve()
    except ConfigReadError as error:
        raise PipelineError(format_problems([*problems, error.problem])) from error
    return _read_tree(tree, request, problems)


def read_text(text: str, name: str, request: ReadOptions) -> ParsedPipeline:
    """The same for a text; `name` stands for it in messages. It may extend shipped pipelines only."""
    problems: list[ConfigProblem] = []
    try:
        chain = ExtendsResolver(Path(name), problems, allow_files=False)
        tree = chain.apply_extends(parse_mapping(text, name, problems), Path(name), ())
    except ConfigReadError as error:
        raise PipelineError(format_problems([*problems, error.problem])) from error
    return _read_tree(tree, request, problems)


def _read_tree(tree: MappingNode, request: ReadOptions, problems: list[ConfigProblem]) -> ParsedPipeline:
    _check_profiles(tree, request.sections, problems)
    profile, asked = request.profile, None
    profiles = tree.get("profiles")
    if profile is None and request.environ.get(PROFILE_VARIABLE) and profiles is not None:
        profile = request.environ[PROFILE_VARIABLE]
        asked = SourceLocation(SourceText(PROFILE_VARIABLE, (profile,)), 1, 1)
    reading = _read_profile(tree, profile, asked, request, problems)
    if request.thorough and isinstance(profiles, MappingNode):
        for other in profiles.key_names():
            _read_profile(tree, other, None, request, problems)
    if problems or reading is None:
        raise PipelineError(format_problems(problems))
    return reading


def _read_profile(
    tree: MappingNode,
    profile: str | None,
    asked: SourceLocation | None,
    request: ReadOptions,
    problems: list[ConfigProblem],
) -> ParsedPipeline | None:
    """The reading under one profile, or None with problems."""
    if profile is not None:
        tree = apply_profile(tree, profile, asked, problems)
    partial = tree.get("extends") is not None
    if not partial:
        tree = _add_default_sections(tree, request.sections, problems)
    tree = apply_overrides(tree.without("profiles"), request.overrides, problems)
    _check_keys(tree, section_keys(request.sections), ("extends", "profiles"), problems)
    missing = [section.key for section in request.sections if tree.get(section.key) is None]
    if missing and not partial:
        what = "section" if len(missing) == 1 else "sections"
        message = f"no {what} {', '.join(missing)}: write what is missing, or `extends: default`"
        problems.append(ConfigProblem(tree.location, message))
    reader = _SectionReader(request, problems, partial)
    for section in request.sections:
        node, key = tree.get(section.key), tree.find_key(section.key)
        if node is not None and key is not None:
            reader.read_section(section, key, substitute_variables(node, request.environ, problems))
    if reader.answer is None or len(reader.components) < len(request.sections) - 1:
        return None
    return ParsedPipeline(reader.components, reader.answer, reader.origins)


def _add_default_sections(tree: MappingNode, sections: Sequence[Section], problems: list[ConfigProblem]) -> MappingNode:
    """The tree with the sections of the default pipeline where it has none of its own."""
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
    """Every profile is a mapping of sections, chosen or not."""
    profiles = tree.get("profiles")
    if profiles is None:
        return
    if not isinstance(profiles, MappingNode):
        problems.append(
            ConfigProblem(
                profiles.location, f"profiles is {describe_node(profiles)}: a mapping of names to sections is wanted"
            )
        )
        return
    for key, profile in profiles.pairs:
        if isinstance(profile, MappingNode):
            _check_keys(profile, section_keys(sections), (), problems)
        else:
            message = f"the profile {key.text!r} is {describe_node(profile)}: a mapping of sections is wanted"
            problems.append(ConfigProblem(profile.location, message))


def _check_keys(tree: MappingNode, known: Sequence[str], beside: Sequence[str], problems: list[ConfigProblem]) -> None:
    """Every key is a section, or one of those that may stand `beside` them."""
    for key, _ in tree.pairs:
        if key.text not in (*known, *beside):
            hint = did_you_mean(key.text, [*known, *beside])
            problems.append(ConfigProblem(key.location, f"{key.text!r} is no section{hint}; known: {', '.join(known)}"))


@dataclass
class _SectionReader:
    """Reads sections one by one and gathers what they choose."""

    request: ReadOptions
    problems: list[ConfigProblem]
    is_partial: bool
    """What the file extends could not be read: a part without a name may have had one there."""
    components: dict[str, tuple[ComponentConfig, ...]] = field(default_factory=dict)
    answer: AnswerOptions | None = None
    origins: dict[str, ValueOrigin] = field(default_factory=dict)

    def read_section(self, section: Section, key: KeyNode, node: Node) -> None:
        """Read one section; it is left out when something is wrong with it."""
        if isinstance(node, SequenceNode) and section.allows_list:
            self._read_list(section, key, node)
            return
        if not isinstance(node, MappingNode):
            self._report_not_mapping(section, node, section.key)
            return
        if section.registry is None:
            self._read_answer(section, key, node)
            return
        choice = self._read_component(section, section.key, key, node)
        if choice is not None:
            self.problems += check_routing(section, [(choice, node)]) if section.allows_list else []
            self.components[section.key] = (choice,)

    def _read_answer(self, section: Section, key: KeyNode, node: MappingNode) -> None:
        options = OptionsReader(AnswerOptions, section.key, self.problems).read(node, key)
        self._record_origins(section.key, node, options)
        if not isinstance(options, AnswerOptions):
            return
        self.answer = options
        provider, names = options.provider.partition(":")[0], section.provider_names()
        said = node.get("provider") or node
        if provider not in names:
            wanted = f"a provider or provider:model is wanted{did_you_mean(provider, names)}"
            message = f"provider is {describe_node(said)}: {wanted}; known: {', '.join(names)}"
            self.problems.append(ConfigProblem(said.location, message))
        elif (
            self.request.thorough
            and section.provider_registry is not None
            and provider in section.provider_registry.names()
        ):
            message = describe_import_error(section.provider_registry, provider, section.provider_registry.find)
            self.problems += [ConfigProblem(said.location, message)] if message else []

    def _read_list(self, section: Section, key: KeyNode, node: SequenceNode) -> None:
        chosen: list[ComponentConfig] = []
        for number, entry in enumerate(node.entries):
            at = KeyNode(str(number), entry.location)
            if not isinstance(entry, MappingNode):
                self._report_not_mapping(section, entry, f"an entry of {section.key}")
            elif (choice := self._read_component(section, f"{section.key}.{number}", at, entry)) is not None:
                chosen.append(choice)
        if not node.entries:
            self.problems.append(
                ConfigProblem(node.location, f"{section.key} is an empty list: one part or more is wanted")
            )
        elif len(chosen) == len(node.entries):
            self.problems += check_routing(section, list(zip(chosen, node.entries, strict=True)))
            self.components[section.key] = tuple(chosen)

    def _read_component(
        self, section: Section, prefix: str, key: KeyNode, table: MappingNode
    ) -> ComponentConfig | None:
        before = len(self.problems)
        name = self._read_name(section, key, table)
        if name is None:
            return None
        asked = table.get("only") if section.allows_list else None
        only = parse_only(section, name, asked, self.problems) if asked is not None else ()
        rest = table.without("name", "only") if section.allows_list else table.without("name")
        part = self._options_reader(section, name, (table.get("name") or table).location)
        options = part.read(rest, key) if part is not None else None
        if self.request.thorough:
            found = [(rest.get(option) or table, message) for option, message in missing_requirements(options)]
            self.problems += [ConfigProblem(node.location, message) for node, message in found]
        if part is None and len(self.problems) == before:
            self._reject_options(section, name, rest)
        self._record_origins(prefix, rest, options)
        for word, value in (("name", name), ("only", only)):
            node = table.get(word)
            if node is not None:
                self.origins[f"{prefix}.{word}"] = _create_origin(node, value)
        return ComponentConfig(name, options, only) if len(self.problems) == before else None

    def _read_name(self, section: Section, key: KeyNode, table: MappingNode) -> str | None:
        """The registered name that a section gives, or None with a problem."""
        names, node = section.registry, table.get("name")
        assert names is not None  # noqa: S101 - `answer` was read before
        if node is None and self.is_partial:
            return None
        if node is None:
            listed = ", ".join(names.names())
            self.problems.append(
                ConfigProblem(
                    key.location, f"{section.key} has no name: the name of a {names.kind} is wanted; known: {listed}"
                )
            )
            return None
        if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
            message = f"name is {describe_node(node)}: the name of a {names.kind} is wanted; known: {', '.join(names.names())}"
            self.problems.append(ConfigProblem(node.location, message))
            return None
        if node.value in names.names():
            return node.value
        hint, known = did_you_mean(node.value, names.names()), ", ".join(names.names())
        message = f"{describe_node(node)} is not the name of {_with_article(names.kind)}{hint}; known: {known}"
        self.problems.append(ConfigProblem(node.location, message))
        return None

    def _options_reader(self, section: Section, name: str, mark: SourceLocation) -> OptionsReader | None:
        """What reads the options of a part; None when it takes none, or with a problem when it cannot be had."""
        assert section.registry is not None  # noqa: S101 - `answer` was read before
        loads = [section.options_class, *([section.registry.find] if self.request.thorough else [])]
        message = describe_import_error(section.registry, name, *loads)
        if message:
            self.problems.append(ConfigProblem(mark, message))
            return None
        what, options = f"the {section.registry.kind} {name!r}", section.options_class(name)
        if options is None:
            return None
        return OptionsReader(options, what, self.problems, section.deferred_options, section.address_options)

    def _reject_options(self, section: Section, name: str, table: MappingNode) -> None:
        kind = section.registry.kind if section.registry is not None else section.key
        for key, _ in table.pairs:
            self.problems.append(
                ConfigProblem(key.location, f"the {kind} {name!r} has no option {key.text!r}: it takes none")
            )

    def _report_not_mapping(self, section: Section, node: Node, what: str) -> None:
        shape = "{provider: auto}" if section.registry is None else "{name: ..., option: ...}"
        known = section.registry.names() if section.registry else []
        if isinstance(node, ScalarNode) and node.text in known:
            shape = f"{{name: {node.text}}}"
        wanted = f"a mapping {shape}" + (" or a list of such" if section.allows_list and what == section.key else "")
        self.problems.append(ConfigProblem(node.location, f"{what} is {describe_node(node)}: {wanted} is wanted"))

    def _record_origins(self, prefix: str, table: MappingNode, options: DataclassInstance | None) -> None:
        for key, node in table.pairs:
            self.origins[f"{prefix}.{key.text}"] = _create_origin(node, getattr(options, key.text, None))


def _create_origin(node: Node, value: object) -> ValueOrigin:
    template, variables = format_template(node)
    return ValueOrigin(node.location, variables, template, value)


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"
