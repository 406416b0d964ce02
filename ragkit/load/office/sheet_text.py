"""The blocks of a sheet of a workbook, with the cells as places. Independent of file formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta

from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.layout_blocks import LayoutBlock
from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.load.shared.table_records import Record, table_record
from ragkit.load.shared.table_text import TableRow, format_table, split_side_tables
from ragkit.records import Place


def sheet_blocks(name: str, rows: Iterator[TableRow], extra: Sequence[LayoutBlock] = ()) -> list[LayoutBlock]:
    """The name of a sheet as a heading, its rows and what lies on it; [] for an empty one."""
    title = collapse_whitespace(replace_invalid_chars(name))
    blocks = []
    for line in format_table(split_side_tables(rows)):
        first, last = (column_name(column) for column in line.columns)
        place = Place(0, "row", line.number, section=title, columns=f"{first}:{last}")
        blocks.append(LayoutBlock("p" if line.is_title else "row", line.text, place=place))
    blocks += extra
    return [LayoutBlock("h", title, 1, place=blocks[0].place), *blocks] if blocks else []


def sheet_records(name: str, rows: Iterator[TableRow]) -> Iterator[Record]:
    """The rows of a sheet below column names."""
    title = collapse_whitespace(replace_invalid_chars(name))
    for line in format_table(split_side_tables(rows)):
        if line.cells:
            first, last = (column_name(column) for column in line.columns)
            place = Place(0, "row", line.number, section=title, columns=f"{first}:{last}")
            yield table_record(line.header, line.cells, place)


def column_name(column: int) -> str:
    """The letters of a column, from 0: `A`, `Z`, `AA`."""
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def format_cell(value: object) -> str:
    """The text of a cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value) if isinstance(value, int | timedelta) else collapse_whitespace(replace_invalid_chars(str(value)))
