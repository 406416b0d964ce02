"""Excel files: one section per sheet, one line of text per row, with the column names."""

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
from ragkit.load.loader_utils import build_document, collapse_whitespace
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
"""Errors of openpyxl for damaged files; the ParseError of xml.etree is a SyntaxError."""


class XlsxLoader:
    """Reads the last calculated values, without formulas, charts and comments."""

    version = LOADER_VERSIONS["xlsx"]

    def __init__(self, options: XlsxOptions | None = None) -> None:
        self.options = options or XlsxOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError, and LoadLimitExceeded above `max_cells`."""
        archive = ZipArchive(data, source, self.options)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about unsupported features without text
                blocks, hidden = self._blocks(data, source)
        except PARSE_ERRORS as error:
            reason = f"invalid workbook ({type(error).__name__})"
            raise LoadError(source, reason, "open it in a spreadsheet program and save it again") from error
        properties = read_core_properties(archive)
        text, headings = join_blocks(blocks)
        title = str(properties.pop("title", ""))
        return build_document("xlsx", source, text, {**properties, "hidden_sheets": hidden or None}, title, headings)

    def _blocks(self, data: bytes, source: str) -> tuple[list[LayoutBlock], int]:
        """The blocks of the sheets, and the number of hidden sheets."""
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
        visible = [sheet for sheet in book.worksheets if self.options.hidden or sheet.sheet_state == "visible"]
        blocks: list[LayoutBlock] = []
        cell_count = 0

        def count_cells(rows: Iterator[Sequence[object]]) -> Iterator[Sequence[str]]:
            nonlocal cell_count
            for row in rows:
                cells = [_format_cell(value) for value in row]
                cell_count += len(cells) - cells.count("")
                if cell_count > self.options.max_cells:
                    reason = f"has more than {self.options.max_cells} cells"
                    raise LoadLimitExceeded(source, reason, "raise max_cells, or split the file")
                if any(cells):
                    yield cells

        for sheet in visible:
            sheet.reset_dimensions()  # the declared dimensions are often wrong
            blocks += _sheet_blocks(str(sheet.title), count_cells(sheet.iter_rows(values_only=True)))
        hidden = len(book.worksheets) - len(visible)
        book.close()
        return blocks, hidden


def _sheet_blocks(name: str, rows: Iterator[Sequence[str]]) -> list[LayoutBlock]:
    _, lines = format_table(rows)
    blocks = [LayoutBlock("row", line) for line in lines]
    return [LayoutBlock("h", collapse_whitespace(replace_invalid_chars(name)), 1), *blocks] if blocks else []


def _format_cell(value: object) -> str:
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
