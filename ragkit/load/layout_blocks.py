"""Join blocks of text in reading order to one text with headings. Independent of file formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ragkit.records import Heading


@dataclass(slots=True)
class LayoutBlock:
    """A paragraph, heading, list item, table row or preformatted text."""

    kind: str
    """One of p, h, li, row, dt, dd, line, pre."""
    text: str
    level: int = 0
    """Of a heading, from 1 (highest); else 0."""
    region: str = "rest"
    """Of a web page: main, article, rest or menu."""


NEXT_LINE_KINDS: Mapping[str, tuple[str, ...]] = {"dt": ("dt", "dd"), "li": ("li",), "line": ("line",), "row": ("row",)}
"""Kind -> kinds that follow it without an empty line."""


def join_blocks(blocks: Iterable[LayoutBlock], offset: int = 0) -> tuple[str, tuple[Heading, ...]]:
    """The text of the blocks, and its headings.

    Args:
        blocks: in reading order; empty ones are skipped.
        offset: added to the offset of each heading, for a text that becomes part of a longer one.
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
            headings.append(Heading(offset + length, block.level, block.text))
        parts += [gap, block.text]
        length, before = length + len(block.text), block.kind
    return "".join(parts), tuple(headings)
