"""The sheets of a workbook as text or records, with the cells as places. Independent of file formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta

from ragkit.errors import LoadLimitExceeded
from ragkit.load.options import SheetOptions
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.shared.loader_utils import build_document, collapse_whitespace
from ragkit.load.shared.table_records import Record, build_record_documents, table_record
from ragkit.load.shared.table_text import TableRow, format_table, split_side_tables
from ragkit.records import JSON, Document, Place


class Workbook:
    """Collects the sheets of a file: their blocks, or their rows as records if the options want these."""

    def __init__(self, kind: str, source: str, options: SheetOptions) -> None:
        self._kind, self._source, self._options = kind, source, options
        self._blocks: list[LayoutBlock] = []
        self._records: list[Record] = []
        self._cells = 0

    def count_cells(self, count: int) -> None:
        """More cells with a value. Raises LoadLimitExceeded above `max_cells`."""
        self._cells += count
        if self._cells > self._options.max_cells:
            reason = f"has more than {self._options.max_cells} cells"
            raise LoadLimitExceeded(self._source, reason, "raise max_cells, or split the file")

    def add_sheet(self, name: str, rows: Iterable[TableRow], extra: Iterable[LayoutBlock] = ()) -> None:
        """A sheet: its name is the heading of its rows and of what lies on it; an empty one is left out."""
        title = collapse_whitespace(replace_invalid_chars(name))
        blocks: list[LayoutBlock] = []
        for line in format_table(split_side_tables(rows)):
            first, last = (column_name(column) for column in line.columns)
            place = Place(0, "row", line.number, section=title, columns=f"{first}:{last}")
            if self._options.records is None:
                blocks.append(LayoutBlock("p" if line.is_title else "row", line.text, place=place))
            elif line.cells:
                self._records.append(table_record(line.header, line.cells, place))
        if self._options.records is None:
            blocks += extra
            self._blocks += [LayoutBlock("h", title, 1, place=blocks[0].place), *blocks] if blocks else []

    def to_document(self, known: Mapping[str, JSON]) -> Document:
        """The document of all sheets; `known` is its metadata, with the title."""
        if self._options.records is not None:
            return build_record_documents(self._kind, self._source, self._records, self._options.records)
        extra = {key: value for key, value in known.items() if key != "title"}
        return build_document(self._kind, self._source, join_blocks(self._blocks), extra, str(known.get("title", "")))


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
