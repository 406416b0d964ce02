"""Which files an entry of a list is for: its `only`, and whether the entries of one section fit together.

`load` goes by suffix: an entry without `only` sets the options of a loader for the files that are its own by
content. `split` goes by suffix or pattern of the file's name: the first entry that takes a file cuts it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.pipeline.components import ComponentConfig
from ragkit.pipeline.convert import ConversionError, convert_value
from ragkit.pipeline.sections import FOLDER_LOADER, Section
from ragkit.pipeline.yaml_nodes import ConfigProblem, Node, ScalarNode, SequenceNode, describe_node

_GLOB_CHARACTERS = frozenset("*?[")


def parse_only(section: Section, name: str, node: Node, problems: list[ConfigProblem]) -> tuple[str, ...]:
    """The entries of an `only`; those that are no suffix (of `split`: nor a pattern) are added to `problems`."""
    if name == FOLDER_LOADER:
        problems.append(
            ConfigProblem(node.location, f"{FOLDER_LOADER!r} takes no `only`: its `include` says which files are read")
        )
        return ()
    try:
        convert_value(node, tuple[str, ...])
    except ConversionError as misfit:
        problems += misfit.to_problems("only", node)
        return ()
    entries = (
        [entry for entry in node.entries if isinstance(entry, ScalarNode)] if isinstance(node, SequenceNode) else []
    )
    patterns = section.key == "split"
    wanted = "a suffix or a pattern of file names" if patterns else "a suffix"
    for entry in entries:
        is_pattern = bool(_GLOB_CHARACTERS & set(entry.text))
        if (is_pattern and patterns) or (entry.text.startswith(".") and not is_pattern and len(entry.text) > 1):
            continue
        hint = (
            f" (did you mean '.{entry.text.lstrip('*.')}'?)" if entry.text.strip("*.") and not entry.variables else ""
        )
        problems.append(
            ConfigProblem(entry.location, f"an entry of only is {describe_node(entry)}: {wanted} is wanted{hint}")
        )
    return tuple(entry.text for entry in entries)


def check_routing(section: Section, chosen: Sequence[tuple[ComponentConfig, Node]]) -> list[ConfigProblem]:
    """What is wrong with the entries of a section together: a file with two entries or none."""
    return _unreachable_entries(chosen) if section.key == "split" else _duplicate_entries(chosen)


def _unreachable_entries(chosen: Sequence[tuple[ComponentConfig, Node]]) -> list[ConfigProblem]:
    problems: list[ConfigProblem] = []
    for choice, entry in chosen[:-1]:
        if not choice.only:
            message = f"{choice.name!r} takes every file, those below it get none: give it an `only`, or put it last"
            problems.append(ConfigProblem(entry.location, message))
    if chosen[-1][0].only:
        message = "no entry takes the files that are left over: end with one that has no `only`"
        problems.append(ConfigProblem(chosen[-1][1].location, message))
    return problems


def _duplicate_entries(chosen: Sequence[tuple[ComponentConfig, Node]]) -> list[ConfigProblem]:
    problems: list[ConfigProblem] = []
    seen: dict[str, int] = {}
    for choice, entry in chosen:
        for route in [suffix.lower() for suffix in choice.only] or [choice.name]:
            if route in seen:
                message = f"a second entry for {route!r}; the first is in line {seen[route]}"
                problems.append(ConfigProblem(entry.location, message))
            seen.setdefault(route, entry.location.line)
    return problems
