"""Merged cells of a sheet: the text of the first cell counts for the rows below and the columns beside it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

from ragkit.load.shared.zip_archive import ZipArchive

MAX_MERGED_CELLS = 100_000
"""Merged ranges that are read per sheet."""
MAX_OPEN = 1_000
"""Merged ranges that cover one row."""

_MERGED_RANGE = re.compile(
    rb"<(?:\w{1,40}:)?mergeCell\s[^<>]{0,200}?\bref=[\"']([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})[\"']"
)


class MergedCells:
    """Fills merged cells while the rows of a sheet are read in order."""

    def __init__(self, ranges: Sequence[tuple[int, int, int, int]]) -> None:
        """`ranges` are (first column, first row, last column, last row), all from 1."""
        self._waiting = deque(sorted(ranges, key=lambda item: item[1]))
        self._open: list[tuple[int, int, str]] = []
        """(column from 0, last row, text) of ranges of several rows."""

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


def read_merged_cells(archive: ZipArchive, part: str) -> MergedCells:
    """The merged cells of a sheet; none when its part is unknown."""
    found = _MERGED_RANGE.findall(archive.read(part)) if part in archive else []
    ranges = [
        (_column_number(left), int(top), _column_number(right), int(bottom))
        for left, top, right, bottom in found[:MAX_MERGED_CELLS]
    ]
    return MergedCells(ranges)


def _column_number(letters: bytes) -> int:
    """The number of a column, from 1."""
    number = 0
    for letter in letters:
        number = 26 * number + letter - ord("A") + 1
    return number
