"""Check the file patterns (`only`) of the components in `load` and `split`.

`load` matches suffixes: an entry without `only` sets the options of a loader for the files that it detects by content.
`split` matches suffixes or patterns of file names: the first entry that matches a file splits it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.config.convert import ConversionError, convert_value
from ragkit.config.yaml_nodes import ConfigProblem, Node, ScalarNode, SequenceNode, must_be
from ragkit.pipeline.components import ComponentConfig
from ragkit.pipeline.sections import FOLDER_LOADER, Section

_GLOB_CHARACTERS = frozenset("*?[")


def parse_only(section: Section, name: str, node: Node, problems: list[ConfigProblem]) -> tuple[str, ...]:
    """The entries of an `only`; invalid ones are added to `problems`."""
    if name == FOLDER_LOADER:
        message = f"unknown option 'only' of the loader {FOLDER_LOADER!r}: select files with `include`"
        problems.append(ConfigProblem(node.location, message))
        return ()
    try:
        convert_value(node, tuple[str, ...])
    except ConversionError as error:
        problems += error.to_problems("only", node)
        return ()
    listed = node.entries if isinstance(node, SequenceNode) else ()
    entries = [entry for entry in listed if isinstance(entry, ScalarNode)]
    patterns = section.key == "split"
    expected = "a suffix such as .md, or a pattern of file names" if patterns else "a suffix such as .md"
    for entry in entries:
        is_pattern = bool(_GLOB_CHARACTERS & set(entry.text))
        if (is_pattern and patterns) or (entry.text.startswith(".") and not is_pattern and len(entry.text) > 1):
            continue
        hint = f"'.{entry.text.lstrip('*.')}'" if entry.text.strip("*.") and not entry.variables else ""
        problems.append(ConfigProblem(entry.location, must_be("each entry of only", expected, entry, hint)))
    return tuple(entry.text for entry in entries)


def check_routing(section: Section, components: Sequence[tuple[ComponentConfig, Node]]) -> list[ConfigProblem]:
    """Problems between the entries of a section: files that several or no entries match."""
    return _unreachable_entries(components) if section.key == "split" else _duplicate_entries(components)


def _unreachable_entries(components: Sequence[tuple[ComponentConfig, Node]]) -> list[ConfigProblem]:
    problems: list[ConfigProblem] = []
    for component, entry in components[:-1]:
        if not component.only:
            message = "matches every file, which hides the entries below: add `only`, or move it last"
            problems.append(ConfigProblem(entry.location, f"{component.name!r} {message}"))
    if components[-1][0].only:
        message = "the last entry must match every remaining file: remove its `only`, or add an entry without one"
        problems.append(ConfigProblem(components[-1][1].location, message))
    return problems


def _duplicate_entries(components: Sequence[tuple[ComponentConfig, Node]]) -> list[ConfigProblem]:
    problems: list[ConfigProblem] = []
    seen: dict[str, int] = {}
    for component, entry in components:
        for route in [suffix.lower() for suffix in component.only] or [component.name]:
            if route in seen:
                message = f"duplicate entry for {route!r} (first defined in line {seen[route]})"
                problems.append(ConfigProblem(entry.location, message))
            seen.setdefault(route, entry.location.line)
    return problems
