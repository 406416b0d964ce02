"""Format table rows as lines of text, for CSV and spreadsheets. Independent of file formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice

MAX_HEADER_CHARS = 200
"""A longer cell is not a column name."""

MAX_EMPTY_CELLS = 16
"""Consecutive empty cells that are kept; longer gaps are shortened to this."""


def format_table(rows: Iterator[Sequence[str]]) -> tuple[Sequence[str], Iterator[str]]:
    """The column names, and one line per row with a value.

    With a header, a line is `name: value; name: value` without empty values; cells beyond the header are
    `column 7: value`. Without a header, it is `value | value`.
    """
    first = list(islice(rows, 2))
    if len(first) == 2 and is_header(first[0], first[1]):
        header = [name or f"column {column}" for column, name in enumerate(_strip_empty_cells(first[0]), 1)]
        return header, (line for row in chain(first[1:], rows) if (line := _format_named_row(header, row)))
    return [], (line for row in chain(first, rows) if (line := _format_plain_row(row)))


def is_header(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the first row is a header: short, distinct texts that are not numbers, above a non-empty row."""
    names = [name for name in first if name]
    if not names or len(set(names)) < len(names) or not any(second):
        return False
    if len(names) < max(1, len(_strip_empty_cells(first)) - 1):
        return False
    return not any(len(name) > MAX_HEADER_CHARS or is_number(name) for name in names)


def is_number(text: str) -> bool:
    """Whether a cell is a number, an amount or a numeric date: `7`, `1e5`, `5 %`, `2024-05-06`."""
    if not any(char.isdigit() for char in text):
        return False
    try:
        float(text)
    except ValueError:
        return not any(char.isalpha() for char in text)
    return True


def _strip_empty_cells(row: Sequence[str]) -> Sequence[str]:
    """A row without trailing empty cells."""
    end = len(row)
    while end and not row[end - 1]:
        end -= 1
    return row[:end]


def _format_named_row(header: Sequence[str], row: Sequence[str]) -> str:
    cells = (
        f"{header[column] if column < len(header) else f'column {column + 1}'}: {value}"
        for column, value in enumerate(row)
        if value
    )
    return "; ".join(cells)


def _format_plain_row(row: Sequence[str]) -> str:
    cells: list[str] = []
    empty = 0
    for cell in _strip_empty_cells(row):
        empty = 0 if cell else empty + 1
        if empty <= MAX_EMPTY_CELLS:
            cells.append(cell)
    return " | ".join(cells)
