"""What the layout of a PDF page is read from: pieces of lines with their boxes, and ruled lines.

Independent of the PDF library. Coordinates are PDF points from the top left corner of the page as it is read: the text
of a turned page is turned upright.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

Word: TypeAlias = tuple[int, int, float, float]
"""(start, end, x0, x1): offsets into the text of its piece, and its edges."""
Boxes: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"
Numbers: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"

CAPTION = re.compile(
    r"(?:table|figure|fig\.|tab\.|listing|abbildung|abb\.|tabelle|tableau)\s*(?:\d+(?:[.-]\d+)*|[A-Z](?:\.\d+)*\b)",
    re.IGNORECASE,
)
"""How the caption of a figure or table begins."""
MAX_ROWS_BETWEEN = 5
"""Rows with several pieces that are further apart are no table."""


@dataclass(frozen=True, slots=True, eq=False)
class PageWords:
    """The words of a page."""

    starts: Numbers
    """The number of the first character of each word."""
    ends: Numbers
    boxes: Boxes
    """x0, top, x1, bottom of each word."""


@dataclass(slots=True)
class Piece:
    """Words of one line without a wide gap between them."""

    text: str
    x0: float
    top: float
    x1: float
    bottom: float
    fonts: tuple[str, str] = ("", "")
    """The fonts of its first and last word; '' when unknown."""
    size: float = 0
    """The font size of its middle word."""
    made: Sequence[Word] = ()
    """Its words, if it is made of other pieces."""
    start: int = 0
    """The number of its first character on the page."""
    source: tuple[PageWords, int, int] | None = None
    """Words of the page, and which are its own; None on pages without pieces beside each other."""

    @property
    def words(self) -> Sequence[Word]:
        """Its words; computed when asked for, since few pieces stand in tables."""
        if not self.made and self.source is not None:
            page, first, last = self.source
            edges = page.boxes[first:last, ::2].tolist()
            starts = (page.starts[first:last] - self.start).tolist()
            ends = (page.ends[first:last] - self.start).tolist()
            self.made = [(a, b, x0, x1) for a, b, (x0, x1) in zip(starts, ends, edges, strict=True)]
        return self.made

    @property
    def height(self) -> float:
        """From the lowest descent to the highest ascent."""
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        """Half its height below its top."""
        return (self.top + self.bottom) / 2


@dataclass(frozen=True, slots=True)
class Rule:
    """A ruled line, or an edge of a rectangle with a line around it."""

    x0: float
    top: float
    x1: float
    bottom: float

    @property
    def is_horizontal(self) -> bool:
        """Wider than high."""
        return self.x1 - self.x0 >= self.bottom - self.top


@dataclass(slots=True)
class PdfPage:
    """A page, as read by a PDF library."""

    width: float
    height: float
    pieces: list[Piece]
    """In the order of the file."""
    boxes: Boxes = field(default_factory=lambda: np.zeros((0, 4), np.float32))
    """x0, top, x1, bottom of each piece."""
    rules: Sequence[Rule] = ()
    is_beside: bool = False
    """Pieces stand beside each other, in columns or in a table."""
    is_garbled: bool = False
    """Its fonts do not say which characters they show."""
    is_scan: bool = False
    """Its words were read from an image: their order says less than their places."""
    turned: Sequence[Piece] = ()
    """Lines that are turned against the others: stamps in the margin, upright names of columns."""


def stand_beside(boxes: Boxes) -> bool:
    """Whether rows with several pieces stand near each other: columns or a table; x0, top, x1, bottom of each piece."""
    middles = boxes[:, 1] + boxes[:, 3]
    order = np.argsort(middles)
    height = (boxes[:, 3] - boxes[:, 1])[order]
    is_same = np.diff(middles[order]) < 0.9 * np.minimum(height[:-1], height[1:])
    rows = np.cumsum(~is_same)[is_same]  # the number of each row, for each further piece in it
    return bool((np.diff(rows) <= MAX_ROWS_BETWEEN).any())
