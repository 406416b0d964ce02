"""Blocks of text in reading order, and how they become one text with headings. Knows no format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ragkit.records import Heading


@dataclass(slots=True)
class LayoutBlock:
    """A paragraph, heading, list item, table row or verbatim piece."""

    kind: str
    """p, h, li, row, dt, dd, line or pre."""
    text: str
    level: int = 0
    """Of a heading: 1 is the highest; else 0."""
    region: str = "rest"
    """Of a web page: main, article, rest or menu."""


NEXT_LINE_KINDS: Mapping[str, tuple[str, ...]] = {
    "dt": ("dt", "dd"),
    "li": ("li",),
    "line": ("line",),
    "row": ("row",),
}
"""Kind -> the kinds that stand on the very next line; all others have an empty line between."""


def join_blocks(blocks: Iterable[LayoutBlock], begin: int = 0) -> tuple[str, tuple[Heading, ...]]:
    """The text of the blocks, and its headings.

    Args:
        blocks: in reading order; empty ones leave no trace.
        begin: where the text will stand in a longer one: added to each heading's offset.
    """
    parts: list[str] = []
    headings: list[Heading] = []
    length, before = 0, ""
    for block in blocks:
        if not block.text:
            continue
        gap = "" if not parts else "\n" if block.kind in NEXT_LINE_KINDS.get(before, ()) else "\n\n"
        length += len(gap)
        if block.kind == "h":
            headings.append(Heading(begin + length, block.level, block.text))
        parts += [gap, block.text]
        length, before = length + len(block.text), block.kind
    return "".join(parts), tuple(headings)
