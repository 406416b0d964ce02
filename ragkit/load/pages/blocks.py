"""Blocks of a PDF: its lines and tables as text with headings and column names. Independent of the PDF library."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from ragkit.load.pages.layout import PageLayout, PdfLine
from ragkit.load.pages.tables.table import (
    PdfTable,
    column_names,
    count_header_rows,
    is_numeric,
    is_value,
    names_from,
    split_at_names,
)
from ragkit.load.pages.text import clean_page_text
from ragkit.load.shared.layout_blocks import LayoutBlock

MAX_REPEATED = 40
"""Characters of a cell of several rows that each of them repeats; a longer text stands in the first."""

MAX_NAME = 120
"""Characters of a column name of several rows; a longer one is not certain."""
INDENT = 2.0
"""Points that a row is indented against the label that heads it, at least."""
MAX_LINES_BETWEEN = 4
"""Lines of text below a table behind which its column names still hold for rows that stand below them."""


def page_blocks(pages: Sequence[PageLayout | None]) -> Iterator[list[LayoutBlock]]:
    """The blocks of each page; the column names of a table hold on for the rows below it, also on the next pages."""
    before: _Names | None = None
    for page in pages:
        blocks: list[LayoutBlock] = []
        lines: list[PdfLine] = []
        for number, line in enumerate(page.lines if page else ()):
            if lines and (line.new_block or line.level or line.table):
                blocks.append(_paragraph(lines))
                lines = []
            if line.table is not None:
                for part in split_at_names(line.table):
                    before = _find_names(part, before, is_first=number == 0)
                    blocks += _rows(before)
                continue
            if before is not None:
                before.lines_below += 1
            if line.level:
                blocks.append(
                    LayoutBlock("h", re.sub(r"\s+", " ", clean_page_text(line.text, join_hyphens=True)), line.level)
                )
            else:
                lines.append(line)
        if lines:
            blocks.append(_paragraph(lines))
        blocks += [LayoutBlock("p", line.text) for line in (page.turned if page else ())]
        before = before if page else None
        yield blocks


@dataclass(slots=True)
class _Names:
    """A table and its column names."""

    table: PdfTable
    names: list[str]
    """One per column; [] for none."""
    count: int
    """Rows of names that the table starts with."""
    is_repeated: bool = False
    """They are those of the table before, which goes on."""
    lines_below: int = 0
    """Lines of text between the table and the next."""


@dataclass(slots=True)
class _Group:
    """A label that stands alone in its row and heads the rows below it."""

    text: str
    x0: float
    has_rows: bool = False
    is_indented: bool = False
    """Its rows are."""


def _paragraph(lines: Sequence[PdfLine]) -> LayoutBlock:
    return LayoutBlock("p" if lines[0].is_note else "line", "\n".join(line.text for line in lines))


def _find_names(table: PdfTable, before: _Names | None, *, is_first: bool) -> _Names:
    """The column names of a table: its own, or those of the table before, which it continues.

    The first one of a page may repeat the names of the last one of the page before.
    """
    count = count_header_rows(table)
    names = column_names(table, count) if count else []
    if before is not None and before.names and before.lines_below <= MAX_LINES_BETWEEN:
        if names and names == before.names:
            return _Names(table, names, count, is_repeated=is_first and before.lines_below == 0)
        is_next = is_first and before.lines_below == 0 and before.table.column_count == table.column_count
        if not count or (is_next and not is_numeric(table)):
            goes_on = names_from(before.table, before.names, table)
            names, count = (goes_on, 0) if goes_on else (names, count)
    if count and count == table.row_count - 1 and not any(map(is_value, table.grid()[-1])):
        names = column_names(table, table.row_count)  # of the rows of the next table
    return _Names(table, names, count)


def _rows(head: _Names) -> Iterator[LayoutBlock]:
    rows = head.table.grid()
    for cell in head.table.cells:  # a label or value of several rows counts for each
        if len(cell.text) > MAX_REPEATED:
            continue
        for below in range(cell.row + 1, cell.row + cell.rows):
            if below >= head.count:
                rows[below][cell.column] = rows[below][cell.column] or cell.text
    left = {cell.row: cell.x0 for cell in head.table.cells if not cell.column}
    groups: list[_Group] = []
    names = _whole_names(head)
    if names and not head.is_repeated:
        yield LayoutBlock("row", _join_names(names, []))
    for number, row in enumerate(rows):
        text = clean_page_text(" | ".join(row).rstrip(" |"), join_hyphens=True)
        if number < head.count:
            if not (head.is_repeated or names):
                yield LayoutBlock("row", text.rstrip(" |"))
            continue
        if head.names and row[0]:
            _update_groups(groups, row, left.get(number, 0))
        if text.strip(" |"):
            yield LayoutBlock("row", text, header=_join_names(head.names, [group.text for group in groups]))


def _update_groups(groups: list[_Group], row: Sequence[str], x0: float) -> None:
    """The labels that head a row, whose own label begins at `x0`: it may be another one of them."""
    if not any(row[1:]):
        while groups and groups[-1].has_rows and groups[-1].x0 > x0 - INDENT:
            groups.pop()
        groups.append(_Group(row[0], x0))
        return
    while groups and groups[-1].is_indented and x0 < groups[-1].x0 + INDENT:
        groups.pop()
    for group in groups:
        group.is_indented = group.is_indented or (not group.has_rows and x0 > group.x0 + INDENT)
        group.has_rows = True


def _whole_names(head: _Names) -> list[str]:
    """The names of a table of numbers that stand in several rows, each whole; [] where its rows say more.

    What stands above several names is said once: `2024 / Q1`, `Q2`.
    """
    if head.count < 2 or not is_numeric(head.table, head.count) or max(map(len, head.names)) > MAX_NAME:
        return []
    names: list[str] = []
    before: list[str] = []
    for name in head.names:
        parts = name.split(" / ")
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, parts[:-1], strict=False)))
        names.append(" / ".join(parts[same:]))
        before = parts
    length = sum(len(cell.text.replace(" / ", "")) for cell in head.table.cells if cell.row < head.count)
    return names if len("".join(names).replace(" / ", "")) >= length else []


def _join_names(names: Sequence[str], groups: Sequence[str]) -> str:
    """The names on one line; the first one with the labels that head a row."""
    if not names:
        return ""
    first = " / ".join(filter(None, (names[0], *groups)))
    return clean_page_text(" | ".join([first, *names[1:]]).strip(" |"), join_hyphens=True)
