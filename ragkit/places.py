"""Say where a passage stands in its file: a line, a page, a slide, cells of a sheet, a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from ragkit.records import Document, Place

PAGE_NAMES = {"pptx": "slide", "odp": "slide", "ppt": "slide"}
"""Format -> what its pages are called, where it is not `page`."""

OCR_PAGES = "ocr_pages"
"""The metadata with the numbers of the pages, from 1, that were read from their images."""
MAX_GAP_CHARS = 16_384
"""Places stand at most this far apart, so that few line breaks are counted between them."""


def describe_place(document: Document, start: int, end: int, lines: tuple[int, int]) -> str:
    """Where [start:end] of a document's text stands in its file.

    `page 3` or `slide 3` for a document with pages, with `read by OCR` behind it for a page that is an image; the
    lines, rows or times of its places; else `lines`, the numbers of the first and last line in the text.
    """
    first_page, last_page = document.page_at(start), document.page_at(max(start, end - 1))
    if first_page is not None:
        pages = range(first_page, (last_page or first_page) + 1)
        place = _format_range(PAGE_NAMES.get(document.format, "page"), first_page, pages[-1])
        return f"{place}, read by OCR" if _are_scanned(document, pages) else place
    if not document.places:
        return format_lines(*lines)
    first = place_at(document.text, document.places, start)
    return format_places(first, place_at(document.text, document.places, max(start, end - 1)))


def _are_scanned(document: Document, pages: range) -> bool:
    """Whether one of the pages, from 1, was read from its image."""
    scanned = document.metadata.get(OCR_PAGES)
    return isinstance(scanned, list) and any(page in scanned for page in pages)


def format_lines(first: int, last: int) -> str:
    """`line 4`, or `lines 4-9`."""
    return _format_range("line", first, last)


def place_at(text: str, places: Sequence[Place], offset: int) -> Place:
    """The place of one character; `places` is not empty."""
    place = places[max(0, bisect_right(places, offset, key=_start_of) - 1)]
    if place.unit not in ("line", "row"):
        return place
    number = place.number + text.count("\n", place.start, offset)
    return Place(offset, place.unit, number, place.last, place.section, place.columns)


_start_of = attrgetter("start")


def format_places(first: Place, last: Place) -> str:
    """The range between two places of a document, as text."""
    if first.unit == "time":
        return f"{format_time(first.number)}-{format_time(last.last or last.number)}"
    if first.section != last.section or first.unit != last.unit:
        return f"{format_places(first, first)} to {format_places(last, last)}"
    if first.columns:
        return f"{first.section}!{_format_cells(first, last)}"
    return (f"{first.section}, " if first.section else "") + _format_range(first.unit, first.number, last.number)


def format_time(milliseconds: int) -> str:
    """A time of a recording: `01:02:03`."""
    seconds = milliseconds // 1000
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def compact_places(text: str, places: Sequence[Place]) -> tuple[Place, ...]:
    """The places without those that follow from the previous one by counting line breaks."""
    kept: list[Place] = []
    for place in places:
        if not kept or place.start - kept[-1].start > MAX_GAP_CHARS or not _follows(text, kept[-1], place):
            kept.append(place)
    return tuple(kept)


def _follows(text: str, before: Place, place: Place) -> bool:
    """Whether `place_at` finds the place if only the one before it is known."""
    if before.unit not in ("line", "row"):
        return place == place_at(text, (before,), place.start)
    return (
        place.number - before.number == text.count("\n", before.start, place.start)
        and place.unit == before.unit
        and (place.last, place.section, place.columns) == (before.last, before.section, before.columns)
    )


def _format_cells(first: Place, last: Place) -> str:
    left, _, right = first.columns.partition(":")
    one_cell = first.number == last.number and left == (right or left)
    return f"{left}{first.number}" if one_cell else f"{left}{first.number}:{right or left}{last.number}"


def _format_range(unit: str, first: int, last: int) -> str:
    return f"{unit} {first}" if last <= first else f"{unit}s {first}-{last}"
