"""A pipeline file -> its chosen parts with their options, or every problem in it at once.

Knows the sections and the registries; what a section means to a build is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ragkit.errors import PipelineError, did_you_mean
from ragkit.pipeline import shipped
from ragkit.pipeline.choice import AnswerOptions, Choice, Origin
from ragkit.pipeline.convert import Options
from ragkit.pipeline.dump import template_of
from ragkit.pipeline.layers import Chain, tree_of, with_profile
from ragkit.pipeline.nodes import Items, Key, Mark, Node, Problem, Scalar, Source, Table, in_order, met
from ragkit.pipeline.overrides import Setting, with_settings
from ragkit.pipeline.parts import SECTIONS, Section, section_keys, trouble
from ragkit.pipeline.routes import misrouted, read_only
from ragkit.pipeline.syntax import Unreadable
from ragkit.pipeline.unmet import unmet
from ragkit.pipeline.variables import expand

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PROFILE = "RAGKIT_PROFILE"
"""The variable that chooses a profile when no argument does."""


@dataclass(frozen=True)
class Request:
    """How a file is to be read."""

    environ: Mapping[str, str]
    """The environment: variables and RAGKIT_PROFILE."""
    overrides: Sequence[str | Setting] = ()
    """`a.b=value` each; the last of two for one option holds."""
    profile: str | None = None
    """The profile to lay over the file; None asks RAGKIT_PROFILE."""
    thorough: bool = False
    """Import every part that is named, and look into every profile."""
    sections: Sequence[Section] = SECTIONS


@dataclass(frozen=True)
class Reading:
    """What a file says: every section, and where each value came from."""

    choices: Mapping[str, tuple[Choice, ...]]
    """Section -> its parts; one for all but routed sections. `answer` is not among them."""
    answer: AnswerOptions
    origins: Mapping[str, Origin]
    """`split.chunk_size`, or `split.0.chunk_size` where a section is a list -> where it came from."""


def read_path(path: Path, request: Request) -> Reading:
    """Read a file and everything that it extends. Raises PipelineError with every problem."""
    problems: list[Problem] = []
    try:
        tree = Chain(path, problems).read()
    except Unreadable as error:
        raise PipelineError(in_order([*problems, error.problem])) from error
    return _finished(tree, request, problems)


def read_text(text: str, name: str, request: Request) -> Reading:
    """The same for a text; `name` stands for it in messages. It may extend shipped pipelines only."""
    problems: list[Problem] = []
    try:
        chain = Chain(Path(name), problems, files=False)
        tree = chain.over(tree_of(text, name, problems), Path(name), ())
    except Unreadable as error:
        raise PipelineError(in_order([*problems, error.problem])) from error
    return _finished(tree, request, problems)


def _finished(tree: Table, request: Request, problems: list[Problem]) -> Reading:
    _check_shape(tree, request.sections, problems)
    profile, asked = request.profile, None
    profiles = tree.get("profiles")
    if profile is None and request.environ.get(PROFILE) and profiles is not None:
        profile = request.environ[PROFILE]
        asked = Mark(Source(PROFILE, (profile,)), 1, 1)
    reading = _one(tree, profile, asked, request, problems)
    if request.thorough and isinstance(profiles, Table):
        for other in profiles.names():
            _one(tree, other, None, request, problems)
    if problems or reading is None:
        raise PipelineError(in_order(problems))
    return reading


def _one(
    tree: Table, profile: str | None, asked: Mark | None, request: Request, problems: list[Problem]
) -> Reading | None:
    """The reading under one profile, or None with problems."""
    if profile is not None:
        tree = with_profile(tree, profile, asked, problems)
    partial = tree.get("extends") is not None
    if not partial:
        tree = _with_defaults(tree, request.sections, problems)
    tree = with_settings(tree.without("profiles"), request.overrides, problems)
    _check_keys(tree, section_keys(request.sections), ("extends", "profiles"), problems)
    missing = [section.key for section in request.sections if tree.get(section.key) is None]
    if missing and not partial:
        what = "section" if len(missing) == 1 else "sections"
        message = f"no {what} {', '.join(missing)}: write what is missing, or `extends: default`"
        problems.append(Problem(tree.mark, message))
    reader = _Reader(request, problems, partial)
    for section in request.sections:
        node, key = tree.get(section.key), tree.key(section.key)
        if node is not None and key is not None:
            reader.section(section, key, expand(node, request.environ, problems))
    if reader.answer is None or len(reader.choices) < len(request.sections) - 1:
        return None
    return Reading(reader.choices, reader.answer, reader.origins)


def _with_defaults(tree: Table, sections: Sequence[Section], problems: list[Problem]) -> Table:
    """The tree with the sections of the default pipeline where it has none of its own."""
    path = shipped.path_of(shipped.DEFAULT)
    if path is None or all(tree.get(section.key) is not None for section in sections):
        return tree
    base = Chain(path, problems).read()
    for section in sections:
        node, key = base.get(section.key), base.key(section.key)
        if tree.get(section.key) is None and node is not None and key is not None:
            tree = tree.with_pair(key, node)
    return tree


def _check_shape(tree: Table, sections: Sequence[Section], problems: list[Problem]) -> None:
    """Every profile is a mapping of sections, chosen or not."""
    profiles = tree.get("profiles")
    if profiles is None:
        return
    if not isinstance(profiles, Table):
        problems.append(
            Problem(profiles.mark, f"profiles is {met(profiles)}: a mapping of names to sections is wanted")
        )
        return
    for key, profile in profiles.pairs:
        if isinstance(profile, Table):
            _check_keys(profile, section_keys(sections), (), problems)
        else:
            message = f"the profile {key.text!r} is {met(profile)}: a mapping of sections is wanted"
            problems.append(Problem(profile.mark, message))


def _check_keys(tree: Table, known: Sequence[str], beside: Sequence[str], problems: list[Problem]) -> None:
    """Every key is a section, or one of those that may stand `beside` them."""
    for key, _ in tree.pairs:
        if key.text not in (*known, *beside):
            hint = did_you_mean(key.text, [*known, *beside])
            problems.append(Problem(key.mark, f"{key.text!r} is no section{hint}; known: {', '.join(known)}"))


@dataclass
class _Reader:
    """Reads sections one by one and gathers what they choose."""

    request: Request
    problems: list[Problem]
    partial: bool
    """What the file extends could not be read: a part without a name may have had one there."""
    choices: dict[str, tuple[Choice, ...]] = field(default_factory=dict)
    answer: AnswerOptions | None = None
    origins: dict[str, Origin] = field(default_factory=dict)

    def section(self, section: Section, key: Key, node: Node) -> None:
        """Read one section; it is left out when something is wrong with it."""
        if isinstance(node, Items) and section.routed:
            self._route(section, key, node)
            return
        if not isinstance(node, Table):
            self._no_table(section, node, section.key)
            return
        if section.names is None:
            self._answer(section, key, node)
            return
        choice = self._choice(section, section.key, key, node)
        if choice is not None:
            self.problems += misrouted(section, [(choice, node)]) if section.routed else []
            self.choices[section.key] = (choice,)

    def _answer(self, section: Section, key: Key, node: Table) -> None:
        options = Options(AnswerOptions, section.key, self.problems).read(node, key)
        self._remember(section.key, node, options)
        if not isinstance(options, AnswerOptions):
            return
        self.answer = options
        provider, names = options.provider.partition(":")[0], section.provider_names()
        said = node.get("provider") or node
        if provider not in names:
            wanted = f"a provider or provider:model is wanted{did_you_mean(provider, names)}"
            message = f"provider is {met(said)}: {wanted}; known: {', '.join(names)}"
            self.problems.append(Problem(said.mark, message))
        elif self.request.thorough and section.providers is not None and provider in section.providers.names():
            message = trouble(section.providers, provider, section.providers.find)
            self.problems += [Problem(said.mark, message)] if message else []

    def _route(self, section: Section, key: Key, node: Items) -> None:
        chosen: list[Choice] = []
        for number, entry in enumerate(node.entries):
            at = Key(str(number), entry.mark)
            if not isinstance(entry, Table):
                self._no_table(section, entry, f"an entry of {section.key}")
            elif (choice := self._choice(section, f"{section.key}.{number}", at, entry)) is not None:
                chosen.append(choice)
        if not node.entries:
            self.problems.append(Problem(node.mark, f"{section.key} is an empty list: one part or more is wanted"))
        elif len(chosen) == len(node.entries):
            self.problems += misrouted(section, list(zip(chosen, node.entries, strict=True)))
            self.choices[section.key] = tuple(chosen)

    def _choice(self, section: Section, prefix: str, key: Key, table: Table) -> Choice | None:
        before = len(self.problems)
        name = self._name(section, key, table)
        if name is None:
            return None
        asked = table.get("only") if section.routed else None
        only = read_only(section, name, asked, self.problems) if asked is not None else ()
        rest = table.without("name", "only") if section.routed else table.without("name")
        part = self._part(section, name, (table.get("name") or table).mark)
        options = part.read(rest, key) if part is not None else None
        if self.request.thorough:
            found = [(rest.get(option) or table, message) for option, message in unmet(options)]
            self.problems += [Problem(node.mark, message) for node, message in found]
        if part is None and len(self.problems) == before:
            self._takes_none(section, name, rest)
        self._remember(prefix, rest, options)
        for word, value in (("name", name), ("only", only)):
            node = table.get(word)
            if node is not None:
                self.origins[f"{prefix}.{word}"] = _origin(node, value)
        return Choice(name, options, only) if len(self.problems) == before else None

    def _name(self, section: Section, key: Key, table: Table) -> str | None:
        """The registered name that a section gives, or None with a problem."""
        names, node = section.names, table.get("name")
        assert names is not None  # noqa: S101 - `answer` was read before
        if node is None and self.partial:
            return None
        if node is None:
            listed = ", ".join(names.names())
            self.problems.append(
                Problem(key.mark, f"{section.key} has no name: the name of a {names.kind} is wanted; known: {listed}")
            )
            return None
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            message = f"name is {met(node)}: the name of a {names.kind} is wanted; known: {', '.join(names.names())}"
            self.problems.append(Problem(node.mark, message))
            return None
        if node.value in names.names():
            return node.value
        hint, known = did_you_mean(node.value, names.names()), ", ".join(names.names())
        message = f"{met(node)} is not the name of {_a(names.kind)}{hint}; known: {known}"
        self.problems.append(Problem(node.mark, message))
        return None

    def _part(self, section: Section, name: str, mark: Mark) -> Options | None:
        """What reads the options of a part; None when it takes none, or with a problem when it cannot be had."""
        assert section.names is not None  # noqa: S101 - `answer` was read before
        loads = [section.options_of, *([section.names.find] if self.request.thorough else [])]
        message = trouble(section.names, name, *loads)
        if message:
            self.problems.append(Problem(mark, message))
            return None
        what, options = f"the {section.names.kind} {name!r}", section.options_of(name)
        if options is None:
            return None
        return Options(options, what, self.problems, section.supplied, section.instead)

    def _takes_none(self, section: Section, name: str, table: Table) -> None:
        kind = section.names.kind if section.names is not None else section.key
        for key, _ in table.pairs:
            self.problems.append(Problem(key.mark, f"the {kind} {name!r} has no option {key.text!r}: it takes none"))

    def _no_table(self, section: Section, node: Node, what: str) -> None:
        shape = "{provider: auto}" if section.names is None else "{name: ..., option: ...}"
        known = section.names.names() if section.names else []
        if isinstance(node, Scalar) and node.text in known:
            shape = f"{{name: {node.text}}}"
        wanted = f"a mapping {shape}" + (" or a list of such" if section.routed and what == section.key else "")
        self.problems.append(Problem(node.mark, f"{what} is {met(node)}: {wanted} is wanted"))

    def _remember(self, prefix: str, table: Table, options: DataclassInstance | None) -> None:
        for key, node in table.pairs:
            self.origins[f"{prefix}.{key.text}"] = _origin(node, getattr(options, key.text, None))


def _origin(node: Node, value: object) -> Origin:
    template, variables = template_of(node)
    return Origin(node.mark, variables, template, value)


def _a(kind: str) -> str:
    return f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"
