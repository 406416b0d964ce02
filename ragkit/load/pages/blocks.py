"""Blocks of a PDF: its lines and tables as text with headings and column names. Independent of the PDF library."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragkit.load.pages.layout import PageLayout, PdfLine
from ragkit.load.pages.tables.table import PdfTable, column_names, count_header_rows
from ragkit.load.pages.text import clean_page_text
from ragkit.load.shared.layout_blocks import LayoutBlock

MAX_REPEATED = 40
"""Characters of a cell of several rows that each of them repeats; a longer text stands in the first."""


def page_blocks(pages: Sequence[PageLayout | None]) -> Iterator[list[LayoutBlock]]:
    """The blocks of each page; the column names of a table hold on for its rows on the next pages."""
    before: tuple[PdfTable, list[list[str]], str] | None = None
    for page in pages:
        blocks: list[LayoutBlock] = []
        lines: list[PdfLine] = []
        for number, line in enumerate(page.lines if page else ()):
            if lines and (line.new_block or line.level or line.table):
                blocks.append(_paragraph(lines))
                lines = []
            if line.table is not None:
                continued = before if number == 0 else None
                header, names = _table_header(line.table, continued)
                blocks += _rows(line.table, header, names, continued is not None and names == continued[2])
                before = (line.table, header, names) if line is page.lines[-1] else None  # type: ignore[union-attr]
            elif line.level:
                blocks.append(
                    LayoutBlock("h", re.sub(r"\s+", " ", clean_page_text(line.text, join_hyphens=True)), line.level)
                )
            else:
                lines.append(line)
        if lines:
            blocks.append(_paragraph(lines))
        blocks += [LayoutBlock("p", line.text) for line in (page.turned if page else ())]
        if page is None or not page.lines or page.lines[-1].table is None:
            before = None
        yield blocks


def _paragraph(lines: Sequence[PdfLine]) -> LayoutBlock:
    return LayoutBlock("p" if lines[0].is_note else "line", "\n".join(line.text for line in lines))


def _table_header(table: PdfTable, before: tuple[PdfTable, list[list[str]], str] | None) -> tuple[list[list[str]], str]:
    """The rows of column names, and the names on one line; those of the table before, which this one continues."""
    count = count_header_rows(table)
    header = table.grid()[:count]
    if before is not None and before[0].column_count == table.column_count and (not count or header == before[1]):
        return (before[1] if count else []), before[2]
    return header, " | ".join(column_names(table, count)).strip(" |") if count else ""


def _rows(table: PdfTable, header: list[list[str]], names: str, continued: bool) -> Iterator[LayoutBlock]:
    rows = table.grid()
    for cell in table.cells:  # a label or value of several rows counts for each
        if len(cell.text) > MAX_REPEATED:
            continue
        for below in range(cell.row + 1, cell.row + cell.rows):
            if below >= len(header):
                rows[below][cell.column] = rows[below][cell.column] or cell.text
    for number, row in enumerate(rows):
        text = clean_page_text(" | ".join(row).rstrip(" |"), join_hyphens=True)
        if number < len(header):
            if not continued:
                yield LayoutBlock("row", text.rstrip(" |"))
        elif text.strip(" |"):
            yield LayoutBlock("row", text, header=names)
