"""Which files an entry of a list is for: its `only`, and whether the entries of one section fit together.

`load` goes by suffix: an entry without `only` sets the options of a loader for the files that are its own by
content. `split` goes by suffix or pattern of the file's name: the first entry that takes a file cuts it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.pipeline.choice import Choice
from ragkit.pipeline.convert import Misfit, convert
from ragkit.pipeline.nodes import Items, Node, Problem, Scalar, met
from ragkit.pipeline.parts import FOLDER, Section

_GLOB = frozenset("*?[")


def read_only(section: Section, name: str, node: Node, problems: list[Problem]) -> tuple[str, ...]:
    """The entries of an `only`; those that are no suffix (of `split`: nor a pattern) are added to `problems`."""
    if name == FOLDER:
        problems.append(Problem(node.mark, f"{FOLDER!r} takes no `only`: its `include` says which files are read"))
        return ()
    try:
        convert(node, tuple[str, ...])
    except Misfit as misfit:
        problems += misfit.under("only", node)
        return ()
    entries = [entry for entry in node.entries if isinstance(entry, Scalar)] if isinstance(node, Items) else []
    patterns = section.key == "split"
    wanted = "a suffix or a pattern of file names" if patterns else "a suffix"
    for entry in entries:
        is_pattern = bool(_GLOB & set(entry.text))
        if (is_pattern and patterns) or (entry.text.startswith(".") and not is_pattern and len(entry.text) > 1):
            continue
        hint = (
            f" (did you mean '.{entry.text.lstrip('*.')}'?)" if entry.text.strip("*.") and not entry.variables else ""
        )
        problems.append(Problem(entry.mark, f"an entry of only is {met(entry)}: {wanted} is wanted{hint}"))
    return tuple(entry.text for entry in entries)


def misrouted(section: Section, chosen: Sequence[tuple[Choice, Node]]) -> list[Problem]:
    """What is wrong with the entries of a section together: a file with two entries or none."""
    return _unreached(chosen) if section.key == "split" else _doubled(chosen)


def _unreached(chosen: Sequence[tuple[Choice, Node]]) -> list[Problem]:
    problems: list[Problem] = []
    for choice, entry in chosen[:-1]:
        if not choice.only:
            message = f"{choice.name!r} takes every file, those below it get none: give it an `only`, or put it last"
            problems.append(Problem(entry.mark, message))
    if chosen[-1][0].only:
        message = "no entry takes the files that are left over: end with one that has no `only`"
        problems.append(Problem(chosen[-1][1].mark, message))
    return problems


def _doubled(chosen: Sequence[tuple[Choice, Node]]) -> list[Problem]:
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    for choice, entry in chosen:
        for route in [suffix.lower() for suffix in choice.only] or [choice.name]:
            if route in seen:
                message = f"a second entry for {route!r}; the first is in line {seen[route]}"
                problems.append(Problem(entry.mark, message))
            seen.setdefault(route, entry.mark.line)
    return problems
