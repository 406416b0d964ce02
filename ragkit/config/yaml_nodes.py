"""The tree of a parsed YAML file, and problems with their location in it. Does not read files."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from ragkit.masking import is_secret, mask_passwords

ScalarValue: TypeAlias = "bool | int | float | str | None"
"""The value of a single node."""

SET_OPTION = "--set"
"""The source name of an option on the command line."""
EXCERPT_WIDTH = 100
"""Columns of the offending line that are shown around the caret."""


@dataclass(frozen=True, eq=False)  # identity: comparing lines for every location is slow
class SourceText:
    """A text that settings are read from."""

    name: str
    """The name in messages: the path of a file, or SET_OPTION."""
    lines: tuple[str, ...]
    first_line: int = 1
    """The number of the first line."""


@dataclass(frozen=True)
class SourceLocation:
    """A position in a source; line and column start at 1."""

    source: SourceText
    line: int
    column: int
    profile: str = ""
    """The profile that the value belongs to, if any."""

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"


@dataclass(frozen=True)
class ScalarNode:
    """A single value."""

    value: ScalarValue
    """`text` resolved by YAML 1.2."""
    text: str
    plain: bool
    """Whether it is written without quotes."""
    location: SourceLocation
    variables: tuple[str, ...] = ()
    """The environment variables that were substituted into `text`."""
    template: str = ""
    """The text in the file before substitution; empty without variables."""


@dataclass(frozen=True)
class SequenceNode:
    """A list."""

    entries: tuple[Node, ...]
    location: SourceLocation


@dataclass(frozen=True)
class KeyNode:
    """The key of a mapping."""

    text: str
    location: SourceLocation


@dataclass(frozen=True)
class MappingNode:
    """A mapping; its keys are distinct and in file order."""

    pairs: tuple[tuple[KeyNode, Node], ...]
    location: SourceLocation

    def get(self, name: str) -> Node | None:
        """The value of a key, or None."""
        return next((node for key, node in self.pairs if key.text == name), None)

    def find_key(self, name: str) -> KeyNode | None:
        """The node of a key, or None."""
        return next((key for key, _ in self.pairs if key.text == name), None)

    def key_names(self) -> list[str]:
        """The keys, in order."""
        return [key.text for key, _ in self.pairs]

    def with_pair(self, key: KeyNode, node: Node) -> MappingNode:
        """A copy in which `key` has this value; a new key is appended."""
        if self.find_key(key.text) is None:
            return replace(self, pairs=(*self.pairs, (key, node)))
        pairs = tuple((key, node) if old.text == key.text else (old, was) for old, was in self.pairs)
        return replace(self, pairs=pairs)

    def without(self, *names: str) -> MappingNode:
        """A copy without these keys."""
        return replace(self, pairs=tuple(pair for pair in self.pairs if pair[0].text not in names))


Node: TypeAlias = ScalarNode | SequenceNode | MappingNode


def assign_profile(node: Node, profile: str) -> Node:
    """The same node with every location marked as part of a profile."""
    location = replace(node.location, profile=profile)
    if isinstance(node, SequenceNode):
        return SequenceNode(tuple(assign_profile(entry, profile) for entry in node.entries), location)
    if isinstance(node, MappingNode):
        keys = [replace(key, location=replace(key.location, profile=profile)) for key, _ in node.pairs]
        values = [assign_profile(value, profile) for _, value in node.pairs]
        return MappingNode(tuple(zip(keys, values, strict=True)), location)
    return replace(node, location=location)


def iter_scalars(node: Node) -> Iterator[ScalarNode]:
    """Every scalar of a tree, in order."""
    if isinstance(node, ScalarNode):
        yield node
    elif isinstance(node, SequenceNode):
        for entry in node.entries:
            yield from iter_scalars(entry)
    else:
        for _, value in node.pairs:
            yield from iter_scalars(value)


@dataclass(frozen=True)
class ConfigProblem:
    """A problem with a file of settings."""

    location: SourceLocation
    message: str
    is_root_cause: bool = False
    """Hides the other problems at the same location, which follow from this one."""

    def __str__(self) -> str:
        """`file:line:column: message`, the offending line and a caret under the column."""
        lines, index = self.location.source.lines, self.location.line - self.location.source.first_line
        head = f"{self.location}: {self.message}"
        if not 0 <= index < len(lines) or not lines[index].strip():
            return head
        column = self.location.column - 1
        start = max(0, column - EXCERPT_WIDTH // 2) if len(lines[index]) > EXCERPT_WIDTH else 0
        shown = _replace_unprintable(lines[index][start : start + EXCERPT_WIDTH])
        before = _replace_unprintable(lines[index][start:column])
        return f"{head}\n  {shown.rstrip()}\n  {' ' * _display_width(before)}^"


def format_problems(problems: Iterable[ConfigProblem]) -> list[str]:
    """The problems as text, distinct and sorted by location."""
    problems = list(problems)
    root_causes = {problem.location for problem in problems if problem.is_root_cause}
    shown = [problem for problem in problems if problem.is_root_cause or problem.location not in root_causes]
    shown.sort(key=lambda problem: (problem.location.source.name, problem.location.line, problem.location.column))
    return list(dict.fromkeys(str(problem) for problem in shown))


def describe_node(node: Node) -> str:
    """A value as messages show it. The value of a secret variable is not shown."""
    if isinstance(node, SequenceNode):
        return "a list" if node.entries else "an empty list"
    if isinstance(node, MappingNode):
        return "a mapping"
    if node.variables and (any(is_secret(name) for name in node.variables) or mask_passwords(node.text) != node.text):
        return f"the value of {', '.join(node.variables)}"
    shown = _truncate(repr(node.value)) if isinstance(node.value, str) else _truncate(node.text) or "no value"
    return f"{shown} from {', '.join(node.variables)}" if node.variables else shown


def must_be(name: str, expected: str, node: Node, suggestion: str = "") -> str:
    """The message about an invalid value. `suggestion` is the value that was probably meant, as YAML."""
    hint = f"; did you mean {suggestion}?" if suggestion else ""
    return f"{name} must be {expected} (got {describe_node(node)}{hint})"


def _truncate(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _replace_unprintable(text: str) -> str:
    # an escape sequence in a file must not reach the terminal; a tab would shift the caret
    return "".join(char if char.isprintable() else " " if char == "\t" else "?" for char in text)


def _display_width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)
