"""Join blocks of text in reading order to one text with headings and places. Independent of file formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ragkit.places import compact_places
from ragkit.records import TABLE_LEVEL, Heading, Place


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
    header: str = ""
    """Of a row below the column names of its table: these names, on one line."""
    place: Place | None = None
    """Where it stands in the file, with a `start` of 0; None: unknown."""
    link_share: float = 0.0
    """Of a block of a web page: characters that are links, as a share of all."""


@dataclass(frozen=True, slots=True)
class TextLayout:
    """A text with the positions of its headings and the places in its file, ascending by start."""

    text: str
    headings: tuple[Heading, ...] = ()
    places: tuple[Place, ...] = ()


NEXT_LINE_KINDS: Mapping[str, tuple[str, ...]] = {"dt": ("dt", "dd"), "li": ("li",), "line": ("line",), "row": ("row",)}
"""Kind -> kinds that follow it without an empty line."""


def join_blocks(blocks: Iterable[LayoutBlock], offset: int = 0) -> TextLayout:
    """The blocks as one text; column names head the rows below them, see `Heading.end`.

    Args:
        blocks: in reading order; empty ones are skipped.
        offset: added to each position, for a text that becomes part of a longer one.
    """
    parts: list[str] = []
    headings: list[Heading] = []
    places: list[Place] = []
    length, before, header = 0, "", ""
    for block in blocks:
        if not block.text:
            continue
        gap = "" if not parts else "\n" if block.kind in NEXT_LINE_KINDS.get(before, ()) else "\n\n"
        length += len(gap)
        start, end = offset + length, offset + length + len(block.text)
        if block.kind == "h":
            headings.append(Heading(start, block.level, block.text))
        elif block.header and block.header == header and before == "row":
            headings[-1] = replace(headings[-1], end=end)
        elif block.header:
            headings.append(Heading(start, TABLE_LEVEL, block.header, end))
        if block.place is not None:
            places.append(block.place.moved(start - offset))
        parts += [gap, block.text]
        length, before, header = length + len(block.text), block.kind, block.header
    text = "".join(parts)
    kept = compact_places(text, places)
    return TextLayout(
        text, tuple(headings), tuple(place.moved(place.start + offset) for place in kept) if offset else kept
    )


def shift_layout(layout: TextLayout, offset: int) -> TextLayout:
    """The layout of a text that starts at `offset` of a longer one."""
    headings = (
        replace(heading, start=heading.start + offset, end=None if heading.end is None else heading.end + offset)
        for heading in layout.headings
    )
    places = (place.moved(place.start + offset) for place in layout.places)
    return TextLayout(layout.text, tuple(headings), tuple(places))


def join_layouts(layouts: Sequence[TextLayout], gap: str = "\n\n") -> TextLayout:
    """Several texts as one, with `gap` between them; empty ones are skipped."""
    shifted: list[TextLayout] = []
    length = 0
    for layout in layouts:
        if layout.text:
            shifted.append(shift_layout(layout, length))
            length += len(layout.text) + len(gap)
    return TextLayout(
        gap.join(layout.text for layout in shifted),
        tuple(heading for layout in shifted for heading in layout.headings),
        tuple(place for layout in shifted for place in layout.places),
    )
