"""Where a quote stands on a page of a PDF: rectangles to mark. Computed when a citation is opened, never stored."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from ragkit.load.pages.pdfium import PdfiumFile
from ragkit.records import JSON, Document

_CELLS = re.compile(r"\n| \| |; ")
_ONE_AT_A_TIME = threading.Lock()
"""PDFium is not safe in several threads."""
MAX_RECTANGLES = 2_000
"""Rectangles of one quote, at most."""


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A part of a page, in PDF points from its bottom left corner."""

    page: int
    """From 1."""
    left: float
    bottom: float
    right: float
    top: float

    def to_json(self) -> dict[str, JSON]:
        """Its fields, to a tenth of a point."""
        return {
            "page": self.page,
            "left": round(self.left, 1),
            "bottom": round(self.bottom, 1),
            "right": round(self.right, 1),
            "top": round(self.top, 1),
        }


@dataclass(frozen=True, slots=True)
class PageMark:
    """A part of the picture of a page, as shares of its width and height from its top left corner."""

    page: int
    """From 1."""
    left: float
    top: float
    width: float
    height: float

    def to_json(self) -> dict[str, JSON]:
        """Its fields."""
        shares = {"left": self.left, "top": self.top, "width": self.width, "height": self.height}
        return {"page": self.page, **{name: round(share, 5) for name, share in shares.items()}}


def page_marks(data: bytes, rectangles: Sequence[Rectangle]) -> list[PageMark]:
    """Where rectangles of pages stand in the pictures of these pages: cropped and turned as they are shown.

    Raises:
        LoadError: as `PdfLoader.load`.
    """
    marks: list[PageMark] = []
    with _ONE_AT_A_TIME, PdfiumFile(data, "") as pdf:
        for number, group in groupby(rectangles, attrgetter("page")):
            found = pdf.page(number - 1)
            if found is None:
                continue
            with found:
                marks += [_mark(rectangle, found.bounds, found.rotation) for rectangle in group]
    return marks


def _mark(rectangle: Rectangle, bounds: tuple[float, float, float, float], rotation: int) -> PageMark:
    left, bottom, right, top = bounds
    width, height = max(right - left, 1.0), max(top - bottom, 1.0)
    x0, x1 = (min(max((x - left) / width, 0.0), 1.0) for x in (rectangle.left, rectangle.right))
    y0, y1 = (min(max((top - y) / height, 0.0), 1.0) for y in (rectangle.top, rectangle.bottom))
    turned = {0: (x0, y0, x1, y1), 90: (1 - y1, x0, 1 - y0, x1), 180: (1 - x1, 1 - y1, 1 - x0, 1 - y0)}
    x0, y0, x1, y1 = turned.get(rotation, (y0, 1 - x1, y1, 1 - x0))
    return PageMark(rectangle.page, x0, y0, x1 - x0, y1 - y0)


def page_rectangles(data: bytes, page: int, quote: str, near: float = 0.0) -> list[Rectangle]:
    """One rectangle per line of the quote on the page; [] when the page does not hold it.

    Only letters and digits are compared, so that joined lines, hyphens and the marks of table cells do not matter. A
    quote that does not stand in one piece, as a row of a table, is looked for cell by cell.

    Args:
        data: the file.
        page: from 1.
        quote: text of the document that the loader read from this file.
        near: where the quote begins on its page, from 0 (top) to 1, for text that occurs several times.

    Raises:
        LoadError: as `PdfLoader.load`.
    """
    with _ONE_AT_A_TIME, PdfiumFile(data, "") as pdf:
        found = pdf.page(page - 1) if 1 <= page <= len(pdf) else None
        if found is None:
            return []
        with found:
            characters = [number for part in _find(found.text, quote, near) for number in part]
            return list(_join(page, found.boxes(characters).tolist()))[:MAX_RECTANGLES]


def document_rectangles(data: bytes, document: Document, start: int, end: int) -> list[Rectangle]:
    """The rectangles of `document.text[start:end]` on its pages, at most `MAX_RECTANGLES`.

    Args:
        data: the file that the document was read from.
        document: what the loader read.
        start: offset of the first character.
        end: offset after the last character.

    Raises:
        LoadError: as `PdfLoader.load`.
    """
    found: list[Rectangle] = []
    first, last = document.page_at(start), document.page_at(max(start, end - 1))
    if first is None or last is None:
        return found
    ends = [*document.page_starts[1:], len(document.text)]
    for page in range(first, last + 1):
        begin, stop = document.page_starts[page - 1], ends[page - 1]
        quote = document.text[max(start, begin) : min(end, stop)]
        near = max(0, start - begin) / max(1, stop - begin)
        found += page_rectangles(data, page, quote, near)
        if len(found) >= MAX_RECTANGLES:
            break
    return found[:MAX_RECTANGLES]


def _find(text: str, quote: str, near: float) -> Iterator[Sequence[int]]:
    """The characters of the quote, or of each of its cells."""
    kept = [number for number, char in enumerate(text) if char.isalnum()]
    key = "".join(_fold(text[number]) for number in kept)
    wanted = near * len(key)
    start = _nearest(key, _key(quote), wanted)
    if start >= 0:
        yield kept[start : start + len(_key(quote))]
        return
    for cell in map(_key, _CELLS.split(quote)):
        start = _nearest(key, cell, wanted)
        if start >= 0:
            yield kept[start : start + len(cell)]
            wanted = start + len(cell)


def _key(text: str) -> str:
    return "".join(_fold(char) for char in text if char.isalnum())


def _fold(char: str) -> str:
    lower = char.lower()
    return lower if len(lower) == 1 else char


def _nearest(key: str, part: str, wanted: float) -> int:
    """Where `part` begins in `key`, nearest to `wanted`; -1 for nowhere."""
    if not part:
        return -1
    behind, before = key.find(part, int(wanted)), key.rfind(part, 0, int(wanted) + len(part))
    found = [start for start in (behind, before) if start >= 0]
    return min(found, key=lambda start: abs(start - wanted), default=-1)


def _join(page: int, boxes: Sequence[Sequence[float]]) -> Iterator[Rectangle]:
    """Boxes of characters that follow each other on a line as one rectangle."""
    rectangle: Rectangle | None = None
    for left, top, right, bottom in boxes:
        height = top - bottom
        if rectangle is not None and (
            abs((rectangle.top + rectangle.bottom) / 2 - (top + bottom) / 2) < 0.5 * height
            and -1.5 * height < left - rectangle.right < 1.5 * height  # letters of a ligature have one box
        ):
            low, high = min(rectangle.bottom, bottom), max(rectangle.top, top)
            rectangle = Rectangle(page, rectangle.left, low, max(rectangle.right, right), high)
            continue
        if rectangle is not None:
            yield rectangle
        rectangle = Rectangle(page, left, bottom, right, top)
    if rectangle is not None:
        yield rectangle
