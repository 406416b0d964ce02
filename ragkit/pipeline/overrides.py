"""`--set a.b=value`: settings from the command line, laid over everything that a file says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragkit.pipeline.layers import text_of
from ragkit.pipeline.nodes import SET, Items, Key, Mark, Node, Problem, Scalar, Source, Table
from ragkit.pipeline.syntax import Unreadable, parse


@dataclass(frozen=True)
class Setting:
    """A value for one place of a pipeline file, with the place that it was read from itself."""

    path: tuple[Key, ...]
    """The section, then the option in it; the section alone to put another one in its place."""
    node: Node

    @classmethod
    def of(cls, key: Key, node: Node) -> Setting:
        """The setting of a key `section.option` that stands in a file."""
        words = key.text.split(".")
        columns = [key.mark.column + sum(len(word) + 1 for word in words[:index]) for index in range(len(words))]
        marks = [replace(key.mark, column=column) for column in columns]
        return cls(tuple(Key(word, mark) for word, mark in zip(words, marks, strict=True)), node)


def with_settings(tree: Table, settings: Sequence[str | Setting], problems: list[Problem]) -> Table:
    """The tree with every `a.b=value` put in.

    Whole sections come first, then the names of parts, so that the order of settings does not matter.
    """
    parsed: list[tuple[tuple[Key, ...], Node]] = []
    for number, one in enumerate(settings, 1):
        setting = (one.path, one.node) if isinstance(one, Setting) else _setting(one, number, problems)
        parsed += [setting] if setting else []
    for path, node in sorted(parsed, key=lambda one: (len(one[0]) > 1, one[0][-1].text != "name")):
        try:
            changed = _put(tree, path, node)
        except Unreadable as error:
            problems.append(error.problem)
            continue
        assert isinstance(changed, Table)  # noqa: S101 - a path of one step or more goes into a table
        tree = changed
    return tree


def _setting(text: str, number: int, problems: list[Problem]) -> tuple[tuple[Key, ...], Node] | None:
    """The path and the value of one `a.b=value`."""
    source = Source(SET, (text,), number)
    path, equals, value = text.partition("=")
    words = path.split(".")
    if not equals or not all(words):
        problems.append(Problem(Mark(source, number, 1), "section.option=value is wanted, as in split.chunk_size=300"))
        return None
    if words[0] in ("extends", "profiles"):
        problems.append(Problem(Mark(source, number, 1), f"{words[0]} cannot be set: it belongs to a file"))
        return None
    try:
        # the value is parsed in its own columns, so that every place in it is right
        node = parse(" " * (len(path) + 1) + value, source, problems)
    except Unreadable as error:
        problems.append(error.problem)
        return None
    columns = [1 + sum(len(word) + 1 for word in words[:index]) for index in range(len(words))]
    keys = tuple(Key(word, Mark(source, number, column)) for word, column in zip(words, columns, strict=True))
    return keys, node or Scalar(None, "", plain=True, mark=Mark(source, number, len(path) + 2))


def _put(below: Node, path: tuple[Key, ...], value: Node) -> Node:
    """`below` with the value at the end of the path changed."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(below, Table):
        if step.text == "0" and rest and below.get("0") is None:  # the only part of a section may be counted too
            return _put(below, rest, value)
        inner = below.get(step.text) or Table((), step.mark)
        if step.text == "name" and not rest and text_of(inner) != text_of(value):
            only = below.get("only")
            kept = Table((), step.mark).with_pair(Key("only", only.mark), only) if only else Table((), step.mark)
            return kept.with_pair(step, value)
        return below.with_pair(step, _put(inner, rest, value))
    if isinstance(below, Items):
        return _put_entry(below, path, value)
    raise Unreadable(Problem(step.mark, f"{step.text!r} leads into a single value: it has no options"))


def _put_entry(below: Items, path: tuple[Key, ...], value: Node) -> Node:
    step = path[0]
    if not step.text.isdecimal() and len(below.entries) == 1:
        return replace(below, entries=(_put(below.entries[0], path, value),))
    if not step.text.isdecimal() or int(step.text) >= len(below.entries):
        last = len(below.entries) - 1
        raise Unreadable(Problem(step.mark, f"a list stands here: the number of an entry, 0 to {last}, is wanted"))
    entries = list(below.entries)
    entries[int(step.text)] = _put(entries[int(step.text)], path[1:], value)
    return replace(below, entries=tuple(entries))
