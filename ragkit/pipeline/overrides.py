"""Apply `--set a.b=value` options to the tree of a pipeline file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragkit.config.yaml_nodes import (
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
from ragkit.config.yaml_parser import ConfigReadError, parse_yaml
from ragkit.pipeline.merge import scalar_text


@dataclass(frozen=True)
class Override:
    """A value for one key of a pipeline file, with the location that it was read from."""

    path: tuple[KeyNode, ...]
    """The section, then the option; the section alone replaces it."""
    node: Node

    @classmethod
    def from_key(cls, key: KeyNode, node: Node) -> Override:
        """The override for a key `section.option` of a file."""
        return cls(_split_path(key), node)


def apply_overrides(
    tree: MappingNode, settings: Sequence[str | Override], problems: list[ConfigProblem]
) -> MappingNode:
    """The tree with every `a.b=value` applied.

    Sections come first, then names of components, so that the order of the overrides does not matter.
    """
    parsed = [
        setting if isinstance(setting, Override) else _parse_override(setting, number, problems)
        for number, setting in enumerate(settings, 1)
    ]
    overrides = [override for override in parsed if override is not None]
    for override in sorted(overrides, key=lambda item: (len(item.path) > 1, item.path[-1].text != "name")):
        try:
            changed = _set_value(tree, override.path, override.node)
        except ConfigReadError as error:
            problems.append(error.problem)
            continue
        assert isinstance(changed, MappingNode)  # noqa: S101 - the path is not empty
        tree = changed
    return tree


def _parse_override(text: str, number: int, problems: list[ConfigProblem]) -> Override | None:
    source = SourceText(SET_OPTION, (text,), number)
    start = SourceLocation(source, number, 1)
    path, equals, value = text.partition("=")
    keys = _split_path(KeyNode(path, start))
    try:
        if not equals or not all(key.text for key in keys):
            raise ConfigReadError(start, "an override must be section.option=value, for example split.chunk_size=300")
        if keys[0].text in ("extends", "profiles"):
            raise ConfigReadError(start, f"{keys[0].text} cannot be overridden: set it in the pipeline file")
        # the value keeps its columns, so that locations in it are right
        node = parse_yaml(" " * (len(path) + 1) + value, source, problems)
    except ConfigReadError as error:
        problems.append(error.problem)
        return None
    return Override(keys, node or ScalarNode(None, "", plain=True, location=replace(start, column=len(path) + 2)))


def _split_path(path: KeyNode) -> tuple[KeyNode, ...]:
    """`section.option` as keys, each at its own column."""
    keys: list[KeyNode] = []
    column = path.location.column
    for name in path.text.split("."):
        keys.append(KeyNode(name, replace(path.location, column=column)))
        column += len(name) + 1
    return tuple(keys)


def _set_value(below: Node, path: tuple[KeyNode, ...], value: Node) -> Node:
    """A copy of `below` with the value at the end of the path changed."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(below, MappingNode):
        if step.text == "0" and rest and below.get("0") is None:  # a single component may be numbered too
            return _set_value(below, rest, value)
        inner = below.get(step.text) or MappingNode((), step.location)
        if step.text == "name" and not rest and scalar_text(inner) != scalar_text(value):
            # another component: its options do not apply any more, the files that it is for do
            kept = tuple(pair for pair in below.pairs if pair[0].text == "only")
            return MappingNode(kept, step.location).with_pair(step, value)
        return below.with_pair(step, _set_value(inner, rest, value))
    if isinstance(below, SequenceNode):
        return _set_list_entry(below, path, value)
    raise ConfigReadError(step.location, f"cannot set {step.text!r}: the value above it has no options")


def _set_list_entry(below: SequenceNode, path: tuple[KeyNode, ...], value: Node) -> Node:
    step = path[0]
    if not step.text.isdecimal() and len(below.entries) == 1:
        return replace(below, entries=(_set_value(below.entries[0], path, value),))
    if not step.text.isdecimal() or int(step.text) >= len(below.entries):
        expected = f"name an entry by its index, 0 to {len(below.entries) - 1}"
        raise ConfigReadError(step.location, f"the section is a list: {expected} (got {step.text!r})")
    entries = list(below.entries)
    entries[int(step.text)] = _set_value(entries[int(step.text)], path[1:], value)
    return replace(below, entries=tuple(entries))
