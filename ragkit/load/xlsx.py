"""Excel files: one part a sheet, one line of text for each row, with the names of its columns."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta

import openpyxl
from lxml import etree
from openpyxl.utils.exceptions import InvalidFileException

from ragkit.errors import LoadError, LoadLimitExceeded
from ragkit.load.encoding import replace_invalid_chars
from ragkit.load.layout_blocks import LayoutBlock, join_blocks
from ragkit.load.loader_utils import build_metadata, collapse_whitespace
from ragkit.load.ooxml import read_core_properties
from ragkit.load.options import LOADER_VERSIONS, XlsxOptions
from ragkit.load.table_text import format_table
from ragkit.load.zip_archive import ZIP_ERRORS, ZipArchive
from ragkit.records import Document

PARSE_ERRORS = (
    *ZIP_ERRORS,
    InvalidFileException,
    etree.LxmlError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    SyntaxError,
)
"""What openpyxl raises for files that are not as it expects; xml.etree's ParseError is a SyntaxError."""


class XlsxLoader:
    """Reads values as they were last calculated; formulas, charts and comments are left out."""

    version = LOADER_VERSIONS["xlsx"]

    def __init__(self, options: XlsxOptions | None = None) -> None:
        self.options = options or XlsxOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError, and LoadLimitExceeded above `max_cells`."""
        archive = ZipArchive(data, source, self.options)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of features that have no text
                blocks, hidden = self._blocks(data, source)
        except PARSE_ERRORS as error:
            reason = f"no table can be read from it ({type(error).__name__})"
            raise LoadError(source, reason, "open it in a spreadsheet program and save it again") from error
        known = read_core_properties(archive)
        text, headings = join_blocks(blocks)
        return Document(
            text=text,
            metadata=build_metadata("xlsx", source, {**known, "title": None, "hidden_sheets": hidden or None}),
            source=source,
            title=str(known.get("title", "")),
            headings=headings,
            format="xlsx",
        )

    def _blocks(self, data: bytes, source: str) -> tuple[list[LayoutBlock], int]:
        """The blocks of all sheets that are read, and how many are hidden."""
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
        shown = [sheet for sheet in book.worksheets if self.options.hidden or sheet.sheet_state == "visible"]
        counted = _CellLimiter(self.options.max_cells, source)
        blocks: list[LayoutBlock] = []
        for sheet in shown:
            sheet.reset_dimensions()  # what a file says of its size is often wrong
            blocks += _sheet_blocks(str(sheet.title), counted.rows(sheet.iter_rows(values_only=True)))
        hidden = len(book.worksheets) - len(shown)
        book.close()
        return blocks, hidden


class _CellLimiter:
    """Rows as strings, while there are cells left."""

    def __init__(self, left: int, source: str) -> None:
        self.cells_left = left
        self._source = source

    def rows(self, rows: Iterator[Sequence[object]]) -> Iterator[Sequence[str]]:
        """Rows that have a value, without the empty cells at their end. Raises LoadLimitExceeded when too many are met."""
        for row in rows:
            cells = [_format_cell(value) for value in row]
            filled = len(cells) - cells.count("")
            if not filled:
                continue
            self.cells_left -= filled
            if self.cells_left < 0:
                raise LoadLimitExceeded(self._source, "has more cells than max_cells", "raise max_cells, or cut it")
            while cells and not cells[-1]:
                cells.pop()
            yield cells


def _sheet_blocks(name: str, rows: Iterator[Sequence[str]]) -> list[LayoutBlock]:
    _, lines = format_table(rows)
    blocks = [LayoutBlock("row", line) for line in lines]
    return [LayoutBlock("h", collapse_whitespace(replace_invalid_chars(name)), 1), *blocks] if blocks else []


def _format_cell(value: object) -> str:
    """A cell as a reader would write it."""
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
