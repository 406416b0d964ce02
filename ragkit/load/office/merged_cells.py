"""Merged cells of a sheet: the text of the first cell counts for the rows below and the columns beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

MAX_MERGED_CELLS = 100_000
"""Merged ranges of a sheet that wait for their rows."""
MAX_OPEN = 1_000
"""Merged ranges that cover one row."""


class MergedCells:
    """Fills merged cells while the rows of a sheet are read in order."""

    def __init__(self, ranges: Iterable[tuple[int, int, int, int]] = ()) -> None:
        """`ranges` are (first column, first row, last column, last row), all from 1."""
        self._waiting = deque(sorted(islice(ranges, MAX_MERGED_CELLS), key=lambda item: item[1]))
        self._open: list[tuple[int, int, str]] = []
        """(column from 0, last row, text) of ranges of several rows."""

    def add(self, left: int, top: int, right: int, bottom: int) -> None:
        """A further range, which begins in the row of the last one or below."""
        if len(self._waiting) < MAX_MERGED_CELLS:
            self._waiting.append((left, top, right, bottom))

    def apply(self, number: int, cells: list[str]) -> list[tuple[int, int]]:
        """Fill the cells of row `number` from above, in place; returns the spans of `TableRow`."""
        filled = any(cells)
        self._open = [item for item in self._open if item[1] >= number]
        for column, _, text in self._open:
            if filled and column < len(cells) and not cells[column]:
                cells[column] = text
        spans: list[tuple[int, int]] = []
        while self._waiting and self._waiting[0][1] <= number:
            left, top, right, bottom = self._waiting.popleft()
            if top < number or left > len(cells):
                continue
            if right > left:
                spans.append((left - 1, right - 1))
            if bottom > top and cells[left - 1] and len(self._open) < MAX_OPEN:
                self._open.append((left - 1, bottom, cells[left - 1]))
        return spans
