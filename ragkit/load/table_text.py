"""Rows of cells -> lines of text, for CSV and spreadsheets. Knows no file format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice

MAX_HEADER_CHARS = 200
"""Characters of a cell that may still be the name of a column."""

MAX_EMPTY_CELLS = 16
"""Empty cells in a row that are written one by one; a longer gap is no wider."""


def format_table(rows: Iterator[Sequence[str]]) -> tuple[Sequence[str], Iterator[str]]:
    """The names of the columns, and one line for each row that has a value.

    With a header a line reads `name: value; name: value`, empty values left out; cells beyond the header are
    `column 7: value`. Without one it reads `value | value`.
    """
    first = list(islice(rows, 2))
    if len(first) == 2 and is_header(first[0], first[1]):
        header = [name or f"column {place}" for place, name in enumerate(_strip_empty_cells(first[0]), 1)]
        return header, (line for row in chain(first[1:], rows) if (line := _format_named_row(header, row)))
    return [], (line for row in chain(first, rows) if (line := _format_plain_row(row)))


def is_header(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the first row names the columns: short, distinct words that are no numbers, over a filled row."""
    names = [name for name in first if name]
    if not names or len(set(names)) < len(names) or not any(second):
        return False
    if len(names) < max(1, len(_strip_empty_cells(first)) - 1):
        return False
    return not any(len(name) > MAX_HEADER_CHARS or is_number(name) for name in names)


def is_number(text: str) -> bool:
    """Whether a cell is a number, an amount or a date written in digits: `7`, `1e5`, `5 %`, `2024-05-06`."""
    if not any(sign.isdigit() for sign in text):
        return False
    try:
        float(text)
    except ValueError:
        return not any(sign.isalpha() for sign in text)
    return True


def _strip_empty_cells(row: Sequence[str]) -> Sequence[str]:
    """A row without the empty cells at its end."""
    end = len(row)
    while end and not row[end - 1]:
        end -= 1
    return row[:end]


def _format_named_row(header: Sequence[str], row: Sequence[str]) -> str:
    named = (
        f"{header[place] if place < len(header) else f'column {place + 1}'}: {value}"
        for place, value in enumerate(row)
        if value
    )
    return "; ".join(named)


def _format_plain_row(row: Sequence[str]) -> str:
    kept: list[str] = []
    empty = 0
    for cell in _strip_empty_cells(row):
        empty = 0 if cell else empty + 1
        if empty <= MAX_EMPTY_CELLS:
            kept.append(cell)
    return " | ".join(kept)
