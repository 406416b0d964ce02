"""The tree that a pipeline file becomes before anything in it is believed: values, each with its place.

Also the form of a problem: place, message, the offending line and a caret. Nothing here reads files.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from ragkit.masking import is_secret, without_password

Plain: TypeAlias = "bool | int | float | str | None"
"""A value without parts."""

SET = "--set"
"""The name of a source that is a setting on the command line."""
WIDTH = 100
"""Columns of an offending line that are shown around its caret."""


@dataclass(frozen=True, eq=False)  # compared by identity: equal lines would be compared for every place
class Source:
    """A text that settings were read from."""

    name: str
    """As it stands in messages: the path of a file, or SET."""
    lines: tuple[str, ...]
    first: int = 1
    """The number of the first line."""


@dataclass(frozen=True)
class Mark:
    """A place in a source; line and column are counted from 1."""

    source: Source
    line: int
    column: int
    profile: str = ""
    """The profile that the value at this place belongs to, if any."""

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Scalar:
    """A single value."""

    value: Plain
    """What YAML 1.2 makes of `text`."""
    text: str
    plain: bool
    """Written without quotes."""
    mark: Mark
    variables: tuple[str, ...] = ()
    """The environment variables whose values are in `text`."""
    template: str = ""
    """What stood in the file when variables were put in."""


@dataclass(frozen=True)
class Items:
    """A list."""

    entries: tuple[Node, ...]
    mark: Mark


@dataclass(frozen=True)
class Key:
    """The key of a mapping, with its place."""

    text: str
    mark: Mark


@dataclass(frozen=True)
class Table:
    """A mapping; its keys are distinct and in the order of the file."""

    pairs: tuple[tuple[Key, Node], ...]
    mark: Mark

    def get(self, name: str) -> Node | None:
        """The value of a key, or None."""
        return next((node for key, node in self.pairs if key.text == name), None)

    def key(self, name: str) -> Key | None:
        """The key itself, for its place."""
        return next((key for key, _ in self.pairs if key.text == name), None)

    def names(self) -> list[str]:
        """The keys, in order."""
        return [key.text for key, _ in self.pairs]

    def with_pair(self, key: Key, node: Node) -> Table:
        """A copy in which `key` has this value: in its old place when it was there, else at the end."""
        if self.key(key.text) is None:
            return replace(self, pairs=(*self.pairs, (key, node)))
        return replace(
            self, pairs=tuple((key, node) if old.text == key.text else (old, was) for old, was in self.pairs)
        )

    def without(self, *names: str) -> Table:
        """A copy that lacks these keys."""
        return replace(self, pairs=tuple(pair for pair in self.pairs if pair[0].text not in names))


Node: TypeAlias = Scalar | Items | Table


def in_profile(node: Node, profile: str) -> Node:
    """The same node, every place in it marked as part of a profile."""
    mark = replace(node.mark, profile=profile)
    if isinstance(node, Items):
        return Items(tuple(in_profile(entry, profile) for entry in node.entries), mark)
    if isinstance(node, Table):
        pairs = (
            (replace(key, mark=replace(key.mark, profile=profile)), in_profile(x, profile)) for key, x in node.pairs
        )
        return Table(tuple(pairs), mark)
    return replace(node, mark=mark)


def scalars(node: Node) -> Iterator[Scalar]:
    """Every single value below a node, itself included, in order."""
    if isinstance(node, Scalar):
        yield node
    elif isinstance(node, Items):
        for entry in node.entries:
            yield from scalars(entry)
    else:
        for _, value in node.pairs:
            yield from scalars(value)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a pipeline file."""

    mark: Mark
    message: str
    """What was met, what is wanted, and the nearest right word."""
    root: bool = False
    """The root of everything else that is wrong at this place: only this is worth telling."""

    def __str__(self) -> str:
        """`file:line:column: message`, the offending line and a caret under the place."""
        lines, index = self.mark.source.lines, self.mark.line - self.mark.source.first
        head = f"{self.mark}: {self.message}"
        if not 0 <= index < len(lines) or not lines[index].strip():
            return head
        column = self.mark.column - 1
        start = max(0, column - WIDTH // 2) if len(lines[index]) > WIDTH else 0
        shown = _printable(lines[index][start : start + WIDTH])
        before = _printable(lines[index][start:column])
        return f"{head}\n  {shown.rstrip()}\n  {' ' * _columns(before)}^"


def in_order(problems: Iterable[Problem]) -> list[str]:
    """The problems as text, each once, in the order of their places."""
    found = list(problems)
    roots = {problem.mark for problem in found if problem.root}
    told = [problem for problem in found if problem.root or problem.mark not in roots]
    told.sort(key=lambda problem: (problem.mark.source.name, problem.mark.line, problem.mark.column))
    return list(dict.fromkeys(str(problem) for problem in told))


def met(node: Node) -> str:
    """A value in words, as a message names it; what a secret variable holds is not said."""
    if isinstance(node, Items):
        return "a list"
    if isinstance(node, Table):
        return "a mapping"
    if node.variables and (any(is_secret(name) for name in node.variables) or without_password(node.text) != node.text):
        return f"what {', '.join(node.variables)} holds"
    shown = _short(repr(node.value)) if isinstance(node.value, str) else _short(node.text) or "empty"
    return f"{shown} (from {', '.join(node.variables)})" if node.variables else shown


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _printable(text: str) -> str:
    # an escape sequence in a file must not reach the terminal; a tab would shift the caret
    return "".join(char if char.isprintable() else " " if char == "\t" else "?" for char in text)


def _columns(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)
