"""The numbers of list items of OpenDocument texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lxml import etree

from ragkit.load.shared.list_numbers import format_number
from ragkit.load.shared.ooxml import get_attribute, get_integer, iter_elements, local_name

BULLET = "-"


@dataclass(slots=True)
class _Level:
    """One level of a list style; no `style` for bullets."""

    style: str = ""
    prefix: str = ""
    suffix: str = ""
    shown: int = 1
    """How many levels a number shows."""
    start: int = 1


class ListStyles:
    """Counts the items of lists in the order of the document."""

    def __init__(self, roots: Sequence[etree._Element] = ()) -> None:
        """`roots` are those of `styles.xml` and `content.xml`."""
        self._styles = {
            get_attribute(style, "name"): {get_integer(level, "level", 1) - 1: _read_level(level) for level in style}
            for root in roots
            for style in iter_elements(root, "list-style")
        }
        self._style = ""
        self._counts: dict[int, int] = {}
        self._kept: dict[str, int] = {}
        """Style -> the last number of its lists, for one that goes on."""
        self._mark = ""

    def open(self, node: etree._Element, depth: int) -> None:
        """A list begins at this depth, from 0."""
        name = get_attribute(node, "style-name")
        if not depth:
            self._style = name
            self._counts.clear()
        if not depth and get_attribute(node, "continue-numbering") == "true" and name in self._kept:
            self._counts[0] = self._kept[name]
        else:
            self._counts[depth] = self._level(depth).start - 1

    def next_item(self, node: etree._Element, depth: int) -> None:
        """An item begins."""
        start = get_integer(node, "start-value", self._counts.get(depth, 0) + 1)
        self._counts = {other: count for other, count in self._counts.items() if other < depth} | {depth: start}
        if not depth:
            self._kept[self._style] = start
        level = self._level(depth)
        first = max(0, depth + 1 - level.shown)
        shown = [
            format_number(self._counts.get(other, 1), self._level(other).style) for other in range(first, depth + 1)
        ]
        self._mark = f"{level.prefix}{'.'.join(shown)}{level.suffix}" if level.style else BULLET

    def take_mark(self, depth: int) -> str:
        """The mark of the item for its first paragraph, spaces for the others."""
        mark, self._mark = self._mark, ""
        return mark or (BULLET if depth not in self._counts else " ")

    def _level(self, depth: int) -> _Level:
        return self._styles.get(self._style, {}).get(depth, _Level())


def _read_level(node: etree._Element) -> _Level:
    if local_name(node) != "list-level-style-number":
        return _Level()
    style, prefix, suffix = (get_attribute(node, name)[:20] for name in ("num-format", "num-prefix", "num-suffix"))
    shown, start = (get_integer(node, name, 1) for name in ("display-levels", "start-value"))
    return _Level(style, prefix, suffix, shown, start)
