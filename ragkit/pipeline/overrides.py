"""`--set a.b=value`: settings from the command line, laid over everything that a file says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragkit.pipeline.merge import scalar_text
from ragkit.pipeline.yaml_nodes import (
    SET_OPTION,
    ConfigProblem,
    KeyNode,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    SourceLocation,
    SourceText,
)
from ragkit.pipeline.yaml_parser import ConfigReadError, parse_yaml


@dataclass(frozen=True)
class Override:
    """A value for one place of a pipeline file, with the place that it was read from itself."""

    path: tuple[KeyNode, ...]
    """The section, then the option in it; the section alone to put another one in its place."""
    node: Node

    @classmethod
    def from_key(cls, key: KeyNode, node: Node) -> Override:
        """The setting of a key `section.option` that stands in a file."""
        words = key.text.split(".")
        columns = [key.location.column + sum(len(word) + 1 for word in words[:index]) for index in range(len(words))]
        marks = [replace(key.location, column=column) for column in columns]
        return cls(tuple(KeyNode(word, mark) for word, mark in zip(words, marks, strict=True)), node)


def apply_overrides(
    tree: MappingNode, settings: Sequence[str | Override], problems: list[ConfigProblem]
) -> MappingNode:
    """The tree with every `a.b=value` put in.

    Whole sections come first, then the names of parts, so that the order of settings does not matter.
    """
    parsed: list[tuple[tuple[KeyNode, ...], Node]] = []
    for number, one in enumerate(settings, 1):
        setting = (one.path, one.node) if isinstance(one, Override) else _parse_override(one, number, problems)
        parsed += [setting] if setting else []
    for path, node in sorted(parsed, key=lambda one: (len(one[0]) > 1, one[0][-1].text != "name")):
        try:
            changed = _set_value(tree, path, node)
        except ConfigReadError as error:
            problems.append(error.problem)
            continue
        assert isinstance(changed, MappingNode)  # noqa: S101 - a path of one step or more goes into a table
        tree = changed
    return tree


def _parse_override(text: str, number: int, problems: list[ConfigProblem]) -> tuple[tuple[KeyNode, ...], Node] | None:
    """The path and the value of one `a.b=value`."""
    source = SourceText(SET_OPTION, (text,), number)
    path, equals, value = text.partition("=")
    words = path.split(".")
    if not equals or not all(words):
        problems.append(
            ConfigProblem(
                SourceLocation(source, number, 1), "section.option=value is wanted, as in split.chunk_size=300"
            )
        )
        return None
    if words[0] in ("extends", "profiles"):
        problems.append(
            ConfigProblem(SourceLocation(source, number, 1), f"{words[0]} cannot be set: it belongs to a file")
        )
        return None
    try:
        # the value is parsed in its own columns, so that every place in it is right
        node = parse_yaml(" " * (len(path) + 1) + value, source, problems)
    except ConfigReadError as error:
        problems.append(error.problem)
        return None
    columns = [1 + sum(len(word) + 1 for word in words[:index]) for index in range(len(words))]
    keys = tuple(
        KeyNode(word, SourceLocation(source, number, column)) for word, column in zip(words, columns, strict=True)
    )
    return keys, node or ScalarNode(None, "", plain=True, location=SourceLocation(source, number, len(path) + 2))


def _set_value(below: Node, path: tuple[KeyNode, ...], value: Node) -> Node:
    """`below` with the value at the end of the path changed."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(below, MappingNode):
        if step.text == "0" and rest and below.get("0") is None:  # the only part of a section may be counted too
            return _set_value(below, rest, value)
        inner = below.get(step.text) or MappingNode((), step.location)
        if step.text == "name" and not rest and scalar_text(inner) != scalar_text(value):
            only = below.get("only")
            kept = (
                MappingNode((), step.location).with_pair(KeyNode("only", only.location), only)
                if only
                else MappingNode((), step.location)
            )
            return kept.with_pair(step, value)
        return below.with_pair(step, _set_value(inner, rest, value))
    if isinstance(below, SequenceNode):
        return _set_list_entry(below, path, value)
    raise ConfigReadError(ConfigProblem(step.location, f"{step.text!r} leads into a single value: it has no options"))


def _set_list_entry(below: SequenceNode, path: tuple[KeyNode, ...], value: Node) -> Node:
    step = path[0]
    if not step.text.isdecimal() and len(below.entries) == 1:
        return replace(below, entries=(_set_value(below.entries[0], path, value),))
    if not step.text.isdecimal() or int(step.text) >= len(below.entries):
        last = len(below.entries) - 1
        raise ConfigReadError(
            ConfigProblem(step.location, f"a list stands here: the number of an entry, 0 to {last}, is wanted")
        )
    entries = list(below.entries)
    entries[int(step.text)] = _set_value(entries[int(step.text)], path[1:], value)
    return replace(below, entries=tuple(entries))
