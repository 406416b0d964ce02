"""Tables of a PDF page: cells, their spans and the rows of column names. Independent of the PDF library."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from ragkit.load.pages.page import Piece
from ragkit.load.shared.table_text import is_number

_DATA = re.compile(r"[\s$€£¥%().,:;+*~<>≤≥±/–—−-]*(?:n\.?/?a\.?|\d[\d\s.,%()/:$€£*†‡–—−+-]*[a-zA-Z%)]{0,3})?[\s*†‡%)]*")
MAX_DATA_CHARS = 40
"""A longer cell holds no value."""
MAX_HEADER_ROWS = 6
"""Rows of titles and column names, at most."""
MAX_ROWS_AHEAD = 10
"""Rows below a row that tell whether its years or dates are names."""
_LABEL = re.compile(
    r"(?:FY ?|CY ?)?(?:19|20)\d\d(?: ?[-–/] ?\d{2,4})?(?: ?[a-z*†‡]| ?\(\w{1,2}\))?|Q[1-4](?: ?\d{4})?"
    r"|\d{1,4}([-./])\d{1,2}\1\d{1,4}|\d{1,3} ?[-–] ?\d{1,3}|\d{1,3}\+|[<>≤≥] ?\d{1,3}"
    r"|\(?[A-Z]{0,3}[$€£¥₹] ?['’]?000s?\)?"
)
_SHARE_OF = re.compile(r"% ?[a-zA-Z]{2}")
"""`95% CI` names values, and is none."""
_UNIT = re.compile(r"[(\[](?:in|en)\s", re.IGNORECASE)
"""How the unit of a whole table begins: `(In billions of dollars)`, `[in Tsd. Euro]`, `(en milliers)`."""
_SIGNS = re.compile(r"[$€£¥₹%*†‡#]")
_DIGITS = re.compile(r"\d")


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
    x0: float = 0
    x1: float = 0
    """From the left to the right edge of its text, in points; 0 for none."""


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
    return (_DATA.fullmatch(text) is not None and not _SHARE_OF.search(text)) or is_number(text)


def count_header_rows(table: PdfTable) -> int:
    """How many rows of titles and column names a table starts with; 0 for none.

    In a table of numbers, all rows above the first one with a value name columns; labels alone head the rows below
    them. In a table of texts, the first row does, and what stands below a name of several columns.
    """
    grid = table.filled_grid()
    height = len(grid)
    if height < 2 or table.column_count < 2:
        return 0
    first = _count_titles(grid)
    found = 0
    for row in range(first, min(first + MAX_HEADER_ROWS, height - 1)):
        if set(grid[row]) <= {"", grid[row][0]}:  # a label, or a name of the first column that stands higher
            continue
        if found == row and row and _goes_on(grid[row - 1], grid[row]):
            found = row + 1
            continue
        has_values = any(map(is_value, grid[row][1:])) and not _counts_up(grid[row])
        if not _names_columns(grid, row) or (found and has_values):
            break
        found = row + 1
        if not is_numeric(table, row + 1):
            return _count_text_header(table, grid, row)
    return found if found > first else 0


def is_numeric(table: PdfTable, first: int = 0) -> bool:
    """Whether most cells beside the labels hold values, in the rows from `first`."""
    texts = [cell.text for cell in table.cells if cell.row >= first and cell.column]
    return 2 * sum(map(is_data, texts)) >= len(texts)


def _count_text_header(table: PdfTable, grid: Sequence[Sequence[str]], row: int) -> int:
    """The end of the column names of a table of texts, whose first row of names is `row`."""
    height = len(grid)
    while True:
        end = max([row + 1, *(cell.row + cell.rows for cell in table.cells if cell.row <= row)])
        end = next((below for below in range(row + 1, end) if not _names_columns(grid, below)), end)
        spans = any(cell.row == row and 1 < cell.columns < table.column_count for cell in table.cells)
        goes_on = end > row + 1 or spans or (not grid[row][0] and not grid[min(row + 1, height - 1)][0])
        if row + 1 >= min(MAX_HEADER_ROWS, height - 1) or not goes_on or not _names_columns(grid, row + 1):
            return min(end, MAX_HEADER_ROWS, height - 1)
        row += 1


def _goes_on(above: Sequence[str], line: Sequence[str]) -> bool:
    """Whether several names of columns go on in the next row: `Average` / `amount`, also beside a value, `14,999`."""
    names = {
        text
        for before, text in zip(above[1:], line[1:], strict=True)
        if before and text[:3].islower() and len(text) > 2
    }
    return len({name for name in names if not is_data(name)}) > 1


def _count_titles(grid: Sequence[Sequence[str]]) -> int:
    """Rows above the column names that hold one text, which stands alone or over all columns."""
    for row, line in enumerate(grid[:MAX_HEADER_ROWS]):
        if len({text for text in line if text}) > 1:
            return row if row + 1 < len(grid) and _names_columns(grid, row) else 0
    return 0


def _names_columns(grid: Sequence[Sequence[str]], row: int) -> bool:
    """Whether a row holds names: few values, though values stand below."""
    line, below = grid[row], grid[row + 1 : row + 1 + MAX_ROWS_AHEAD]
    names = {column: text for column, text in enumerate(line) if column and text and text != line[0]}
    if not names or any(len(text) > 200 for text in line):
        return False
    if _counts_up(line):
        return True
    values = 0
    for column, text in names.items():
        if is_data(text):
            others = [other[column] for other in below if other[column]]
            values += not _is_label(text) or 2 * sum(map(_is_label, others)) > len(others)
    return values <= 0.34 * len(names)


def _counts_up(line: Sequence[str]) -> bool:
    """Whether the names behind the first are the numbers of columns: `1 | 2 | 3 | Total`, `(1) | (2) | (3)`."""
    names = [text for text in line[1:] if text and text != line[0]]
    numbers = [int(text.strip("()")) for text in names if re.fullmatch(r"\(?\d{1,3}\)?", text)]
    has_values = sum(map(is_value, names)) > len(numbers)
    return (
        len(numbers) > 2
        and 2 * len(numbers) > len(names)
        and not has_values
        and all(b == a + 1 for a, b in pairwise(numbers))
    )


def is_value(text: str) -> bool:
    """Whether a text is a value, and can be no name of a column."""
    return is_data(text) and not _is_label(text)


def _is_label(text: str) -> bool:
    """Whether a text with digits is a name: a year, a period, a date, a range of ages, a unit."""
    return _LABEL.fullmatch(text) is not None or (_SIGNS.search(text) is not None and not _DIGITS.search(text))


def column_names(table: PdfTable, rows: int) -> list[str]:
    """One name per column: `2024 / Q1` for a name below another one; '' for a column without."""
    names: list[list[str]] = [[] for _ in range(table.column_count)]
    for line in table.filled_grid()[:rows]:
        texts = sorted(set(line))
        is_title = len(line) > 1 and (len(texts) == 1 or (len(texts) == 2 and _UNIT.match(texts[1])))
        for column, text in enumerate(texts[-1:] if is_title else line):  # a title is of all columns
            if text and text not in names[column]:
                names[column].append(text)
    return [" / ".join(parts) for parts in names]


def split_at_names(table: PdfTable) -> list[PdfTable]:
    """The parts of a table of numbers, each of which begins with its own column names."""
    grid = table.filled_grid()
    first = count_header_rows(table)
    known = {text for line in grid[:first] for text in line[1:]}
    starts = [0]
    for row in range(first + 1, len(grid) - 1):
        names = [text for text in grid[row][1:] if text]
        is_new = len(names) > 0.75 * (len(grid[row]) - 1) and not any(
            _DIGITS.search(name) and not _is_label(name) for name in names
        )
        is_whole = len(set(names)) > 1 and (is_new or not known.isdisjoint(names))
        if not is_whole or not _names_columns(grid, row) or not is_numeric(table, row + 1):
            continue
        start = row
        while start - 1 > starts[-1] + first and _holds_names(grid[start - 1]):
            start -= 1
        if start > starts[-1] + first:
            starts.append(start)
    spans = [(cell.row, cell.row + cell.rows) for cell in table.cells]
    starts = [start for start in starts if not any(top < start < bottom for top, bottom in spans)]
    parts = []
    for start, end in pairwise([*starts, len(grid)]):
        cells = [replace(cell, row=cell.row - start) for cell in table.cells if start <= cell.row < end]
        parts.append(replace(table, cells=cells))
    return parts


def _holds_names(row: Sequence[str]) -> bool:
    return any(row[1:]) and not any(map(is_data, row[1:]))


def drop_empty_columns(table: PdfTable) -> None:
    """Take out the columns without a cell of their own: the space between two lines, or beside values below a name."""
    for column in reversed(range(table.column_count)):
        if any(cell.column == column and cell.columns == 1 for cell in table.cells):
            continue
        for cell in table.cells:
            if cell.column > column:
                cell.column -= 1
            elif cell.column + cell.columns > column:
                cell.columns -= 1


def names_from(before: PdfTable, names: Sequence[str], table: PdfTable) -> list[str]:
    """The names of the columns of the table before that stand above those of a table; [] if they do not."""
    above, found = column_extents(before), column_extents(table)
    taken = [
        max(range(len(above)), key=lambda column: min(x1, above[column][1]) - max(x0, above[column][0]))
        for x0, x1 in found
    ]
    fits = all(above[column][0] < x1 and x0 < above[column][1] for column, (x0, x1) in zip(taken, found, strict=True))
    return [names[column] for column in taken] if fits and taken == sorted(set(taken)) else []


def column_extents(table: PdfTable) -> list[tuple[float, float]]:
    """From the left to the right edge of the texts of each column."""
    extents = [(math.inf, -math.inf)] * table.column_count
    for cell in table.cells:
        if cell.columns == 1:
            x0, x1 = extents[cell.column]
            extents[cell.column] = min(x0, cell.x0), max(x1, cell.x1)
    return extents
