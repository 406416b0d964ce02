"""Tables of a PDF page: cells, their spans and the rows of column names. Independent of the PDF library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ragkit.load.pages.page import Piece
from ragkit.load.shared.table_text import is_number

_DATA = re.compile(r"[\s$€£¥%().,:;+*~<>≤≥±/–—−-]*(?:n\.?/?a\.?|\d[\d\s.,%()/:$€£*†‡–—−+-]*[a-zA-Z%)]{0,3})?[\s*†‡%)]*")
MAX_DATA_CHARS = 40
"""A longer cell holds no value."""
MAX_HEADER_ROWS = 5
"""Rows of column names, at most."""


@dataclass(slots=True)
class PdfCell:
    """A cell of a table."""

    row: int
    """From 0."""
    column: int
    """From 0."""
    text: str
    """On one line."""
    rows: int = 1
    columns: int = 1


@dataclass(slots=True)
class PdfTable:
    """A table on one page."""

    x0: float
    top: float
    x1: float
    bottom: float
    cells: list[PdfCell]
    """By row, then column; empty cells are left out."""
    pieces: Sequence[Piece] = ()
    """Of all cells."""
    starts: frozenset[int] | None = None
    """Where the pieces of the page begin that it was read from; None: all in its box."""

    @property
    def row_count(self) -> int:
        """Rows of the grid."""
        return max((cell.row + cell.rows for cell in self.cells), default=0)

    @property
    def column_count(self) -> int:
        """Columns of the grid."""
        return max((cell.column + cell.columns for cell in self.cells), default=0)

    def grid(self) -> list[list[str]]:
        """The texts by row and column; a text stands in the first field of its cell."""
        width = self.column_count
        rows = [[""] * width for _ in range(self.row_count)]
        for cell in self.cells:
            rows[cell.row][cell.column] = cell.text
        return rows

    def filled_grid(self) -> list[list[str]]:
        """The texts by row and column; a text stands in every field of its cell."""
        rows = self.grid()
        for cell in self.cells:
            for row in range(cell.row, cell.row + cell.rows):
                for column in range(cell.column, cell.column + cell.columns):
                    rows[row][column] = rows[row][column] or cell.text
        return rows


def join_text(pieces: Sequence[Piece]) -> str:
    """The text of the pieces of a cell, line by line, on one line."""
    if len(pieces) == 1:
        return " ".join(pieces[0].text.split())
    lines: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda item: item.middle):
        if lines and abs(lines[-1][0].middle - piece.middle) < 0.5 * min(lines[-1][0].height, piece.height):
            lines[-1].append(piece)
        else:
            lines.append([piece])
    texts = [" ".join(piece.text for piece in sorted(line, key=lambda item: item.x0)) for line in lines]
    return " ".join(" ".join(texts).split())


def is_data(text: str) -> bool:
    """Whether a cell holds a value, not a name: a number, an amount, a share, a dash."""
    return bool(text) and len(text) <= MAX_DATA_CHARS and _is_value(text)


@lru_cache(maxsize=8192)
def _is_value(text: str) -> bool:
    return _DATA.fullmatch(text) is not None or is_number(text)


def count_header_rows(table: PdfTable) -> int:
    """How many rows of column names a table starts with; 0 for none."""
    grid = table.filled_grid()
    height = len(grid)
    if height < 2 or table.column_count < 2:
        return 0
    deepest = 0
    for row in range(min(MAX_HEADER_ROWS, height - 1)):
        if row and row >= deepest and not _names_columns(grid, row):
            break
        if not row and not _names_columns(grid, row):
            return 0
        reach = max([row + 1, *(cell.row + cell.rows for cell in table.cells if cell.row <= row)])
        deepest = next((below for below in range(row + 1, reach) if not _names_columns(grid, below)), reach)
        spans = any(cell.row == row and cell.columns > 1 and cell.columns < table.column_count for cell in table.cells)
        first_empty = not grid[row][0]
        if not spans and not (first_empty and row + 1 < height and not grid[row + 1][0]):
            nxt = row + 1
            if nxt >= deepest and not (nxt < height and _only_units(grid[nxt])):
                break
    return min(deepest, MAX_HEADER_ROWS, height - 1)


def _names_columns(grid: Sequence[Sequence[str]], row: int) -> bool:
    """Whether a row holds names: few values, though values stand below."""
    names = [text for text in grid[row][1:] if text]
    if not names:
        return False
    if any(len(text) > 200 for text in grid[row]):
        return False
    values = sum(1 for text in names if is_data(text) and not _is_period(text))
    if values > 0.34 * len(names):
        return False
    below = [text for line in grid[row + 1 :] for text in line[1:] if text]
    years = sum(1 for text in names if _is_period(text))
    return not (years == len(names) and all(map(_is_period, below)))


def _only_units(row: Sequence[str]) -> bool:
    """Whether a row below column names holds only their units."""
    filled = [text for text in row if text]
    return (
        bool(filled)
        and not row[0]
        and all((len(text) <= 12 and not is_data(text)) or text.startswith("(") for text in filled)
    )


def _is_period(text: str) -> bool:
    return re.fullmatch(r"(?:FY\s?)?(?:19|20)\d\d(?:\s?[-–/]\s?\d{2,4})?[a-z*†]?|Q[1-4](?: ?\d{4})?", text) is not None


def column_names(table: PdfTable, rows: int) -> list[str]:
    """One name per column: `2024 / Q1` for a name below another one; '' for a column without."""
    names: list[list[str]] = [[] for _ in range(table.column_count)]
    for line in table.filled_grid()[:rows]:
        for column, text in enumerate(line):
            if text and text not in names[column]:
                names[column].append(text)
    return [" / ".join(parts) for parts in names]
