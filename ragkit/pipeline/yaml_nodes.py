"""The tree that a pipeline file becomes before anything in it is believed: values, each with its place.

Also the form of a problem: place, message, the offending line and a caret. Nothing here reads files.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from ragkit.masking import is_secret, mask_passwords

ScalarValue: TypeAlias = "bool | int | float | str | None"
"""A value without parts."""

SET_OPTION = "--set"
"""The name of a source that is a setting on the command line."""
EXCERPT_WIDTH = 100
"""Columns of an offending line that are shown around its caret."""


@dataclass(frozen=True, eq=False)  # compared by identity: equal lines would be compared for every place
class SourceText:
    """A text that settings were read from."""

    name: str
    """As it stands in messages: the path of a file, or SET."""
    lines: tuple[str, ...]
    first_line: int = 1
    """The number of the first line."""


@dataclass(frozen=True)
class SourceLocation:
    """A place in a source; line and column are counted from 1."""

    source: SourceText
    line: int
    column: int
    profile: str = ""
    """The profile that the value at this place belongs to, if any."""

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"


@dataclass(frozen=True)
class ScalarNode:
    """A single value."""

    value: ScalarValue
    """What YAML 1.2 makes of `text`."""
    text: str
    plain: bool
    """Written without quotes."""
    location: SourceLocation
    variables: tuple[str, ...] = ()
    """The environment variables whose values are in `text`."""
    template: str = ""
    """What stood in the file when variables were put in."""


@dataclass(frozen=True)
class SequenceNode:
    """A list."""

    entries: tuple[Node, ...]
    location: SourceLocation


@dataclass(frozen=True)
class KeyNode:
    """The key of a mapping, with its place."""

    text: str
    location: SourceLocation


@dataclass(frozen=True)
class MappingNode:
    """A mapping; its keys are distinct and in the order of the file."""

    pairs: tuple[tuple[KeyNode, Node], ...]
    location: SourceLocation

    def get(self, name: str) -> Node | None:
        """The value of a key, or None."""
        return next((node for key, node in self.pairs if key.text == name), None)

    def find_key(self, name: str) -> KeyNode | None:
        """The key itself, for its place."""
        return next((key for key, _ in self.pairs if key.text == name), None)

    def key_names(self) -> list[str]:
        """The keys, in order."""
        return [key.text for key, _ in self.pairs]

    def with_pair(self, key: KeyNode, node: Node) -> MappingNode:
        """A copy in which `key` has this value: in its old place when it was there, else at the end."""
        if self.find_key(key.text) is None:
            return replace(self, pairs=(*self.pairs, (key, node)))
        return replace(
            self, pairs=tuple((key, node) if old.text == key.text else (old, was) for old, was in self.pairs)
        )

    def without(self, *names: str) -> MappingNode:
        """A copy that lacks these keys."""
        return replace(self, pairs=tuple(pair for pair in self.pairs if pair[0].text not in names))


Node: TypeAlias = ScalarNode | SequenceNode | MappingNode


def assign_profile(node: Node, profile: str) -> Node:
    """The same node, every place in it marked as part of a profile."""
    mark = replace(node.location, profile=profile)
    if isinstance(node, SequenceNode):
        return SequenceNode(tuple(assign_profile(entry, profile) for entry in node.entries), mark)
    if isinstance(node, MappingNode):
        pairs = (
            (replace(key, location=replace(key.location, profile=profile)), assign_profile(x, profile))
            for key, x in node.pairs
        )
        return MappingNode(tuple(pairs), mark)
    return replace(node, location=mark)


def iter_scalars(node: Node) -> Iterator[ScalarNode]:
    """Every single value below a node, itself included, in order."""
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
    """One thing that is wrong with a pipeline file."""

    location: SourceLocation
    message: str
    """What was met, what is wanted, and the nearest right word."""
    is_root_cause: bool = False
    """The root of everything else that is wrong at this place: only this is worth telling."""

    def __str__(self) -> str:
        """`file:line:column: message`, the offending line and a caret under the place."""
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
    """The problems as text, each once, in the order of their places."""
    found = list(problems)
    roots = {problem.location for problem in found if problem.is_root_cause}
    told = [problem for problem in found if problem.is_root_cause or problem.location not in roots]
    told.sort(key=lambda problem: (problem.location.source.name, problem.location.line, problem.location.column))
    return list(dict.fromkeys(str(problem) for problem in told))


def describe_node(node: Node) -> str:
    """A value in words, as a message names it; what a secret variable holds is not said."""
    if isinstance(node, SequenceNode):
        return "a list"
    if isinstance(node, MappingNode):
        return "a mapping"
    if node.variables and (any(is_secret(name) for name in node.variables) or mask_passwords(node.text) != node.text):
        return f"what {', '.join(node.variables)} holds"
    shown = _truncate(repr(node.value)) if isinstance(node.value, str) else _truncate(node.text) or "empty"
    return f"{shown} (from {', '.join(node.variables)})" if node.variables else shown


def _truncate(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _replace_unprintable(text: str) -> str:
    # an escape sequence in a file must not reach the terminal; a tab would shift the caret
    return "".join(char if char.isprintable() else " " if char == "\t" else "?" for char in text)


def _display_width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)
