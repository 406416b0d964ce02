"""The numbers of paragraphs of Word files: `1.`, `3.1`, `(a)`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from lxml import etree

from ragkit.load.shared.list_numbers import format_number
from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.load.shared.ooxml import find_child, get_attribute, get_integer, iter_elements, local_name

BULLET = "-"

_PLACEHOLDER = re.compile(r"%([1-9])")


@dataclass(frozen=True, slots=True)
class _Level:
    """One level of a numbering."""

    start: int = 1
    style: str = "decimal"
    text: str = ""
    is_legal: bool = False
    """The numbers of higher levels are digits."""


class Numbering:
    """Counts the paragraphs of lists in the order of the document."""

    def __init__(self, root: etree._Element | None = None) -> None:
        """`root` is that of `numbering.xml`; None: bullets only."""
        self._levels: dict[str, Mapping[int, _Level]] = {}
        self._lists: dict[str, str] = {}
        """Number of a list -> its abstract numbering, which counts on for all lists of it."""
        self._starts: dict[tuple[str, int], int] = {}
        """(list, level) -> the number it starts at again."""
        self._counts: dict[str, dict[int, int]] = defaultdict(dict)
        for node in root if root is not None else ():
            if local_name(node) == "abstractNum":
                levels = {get_integer(level, "ilvl"): _read_level(level) for level in iter_elements(node, "lvl")}
                self._levels[get_attribute(node, "abstractNumId")] = levels
            elif local_name(node) == "num":
                key = get_attribute(node, "numId")
                self._lists[key] = get_attribute(find_child(node, "abstractNumId"), "val")
                for override in iter_elements(node, "lvlOverride"):
                    if (start := find_child(override, "startOverride")) is not None:
                        self._starts[key, get_integer(override, "ilvl")] = get_integer(start, "val")

    def next_label(self, list_id: str, depth: int) -> str:
        """The mark of the next paragraph of a list: its number, `-` for a bullet, or '' for none."""
        abstract = self._lists.get(list_id, "")
        level = self._levels.get(abstract, {}).get(depth)
        if level is None or level.style == "bullet":
            return BULLET
        counts = self._counts[abstract]
        start = self._starts.pop((list_id, depth), None)
        counts[depth] = (
            counts[depth] + 1 if depth in counts and start is None else (level.start if start is None else start)
        )
        for deeper in [other for other in counts if other > depth]:
            del counts[deeper]
        if level.style == "none":
            return ""

        def shown(found: re.Match[str]) -> str:
            other = int(found[1]) - 1
            known = self._levels[abstract].get(other, _Level())
            style = "decimal" if level.is_legal else known.style
            return format_number(counts.setdefault(other, known.start), style)

        return collapse_whitespace(_PLACEHOLDER.sub(shown, level.text[:100]))


def _read_level(node: etree._Element) -> _Level:
    style = get_attribute(find_child(node, "numFmt"), "val") or "decimal"
    text = get_attribute(find_child(node, "lvlText"), "val")
    start = find_child(node, "start")
    first = get_integer(start, "val") if start is not None else 1
    return _Level(first, style, text, find_child(node, "isLgl") is not None)
