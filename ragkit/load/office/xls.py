"""Excel files of the older and the binary format (XLS, XLSB), with calamine."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

from ragkit.errors import LoadError, MissingExtra
from ragkit.load.office.merged_cells import MergedCells
from ragkit.load.office.ole_file import read_ole_properties
from ragkit.load.office.sheet_text import Workbook, format_cell
from ragkit.load.options import LOADER_VERSIONS, XlsOptions
from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.load.shared.table_text import TableRow
from ragkit.load.shared.zip_archive import SAVE_AGAIN_HINT
from ragkit.records import Document

try:
    from python_calamine import CalamineError, CalamineSheet, CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum
except ImportError as error:
    raise MissingExtra("the loader 'xls'", extra="office") from error


PARSE_ERRORS = (OSError, ValueError, OverflowError, TypeError)
"""Errors of calamine for damaged files, beside its own."""


@contextmanager
def _translate_panics(source: str) -> Iterator[None]:
    """A panic of calamine as a LoadError: it is no `Exception`, and its class cannot be imported."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise LoadError(source, "invalid workbook", SAVE_AGAIN_HINT) from error


class XlsLoader:
    """Reads the last calculated values, without formulas, charts and comments."""

    version = LOADER_VERSIONS["xls"]

    def __init__(self, options: XlsOptions | None = None) -> None:
        self.options = options or XlsOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError, and LoadLimitExceeded above `max_cells`."""
        with _translate_panics(source):
            return self._load(data, source)

    def _load(self, data: bytes, source: str) -> Document:
        hidden, book = 0, Workbook("xls", source, self.options)
        try:
            # first: of a damaged file calamine would follow a chain of sectors that never ends
            known = read_ole_properties(data, source)
            opened = CalamineWorkbook.from_filelike(io.BytesIO(data))
            for sheet in opened.sheets_metadata:
                if sheet.typ != SheetTypeEnum.WorkSheet:
                    continue
                if sheet.visible != SheetVisibleEnum.Visible and not self.options.hidden:
                    hidden += 1
                    continue
                rows = _read_rows(opened.get_sheet_by_name(sheet.name))
                book.count_cells(sum(len(row.cells) - list(row.cells).count("") for row in rows))
                book.add_sheet(sheet.name, rows)
        except (CalamineError, *PARSE_ERRORS) as error:
            reason = f"invalid workbook ({collapse_whitespace(str(error))[:200]})"
            hint = SAVE_AGAIN_HINT
            if "password" in str(error).lower():
                reason, hint = "password-protected", "save it without a password"
            raise LoadError(source, reason, hint) from error
        return book.to_document({**known, "hidden_sheets": hidden or None})


def _read_rows(sheet: CalamineSheet) -> list[TableRow]:
    top, left = sheet.start or (0, 0)
    found = sheet.merged_cell_ranges or ()
    merged = MergedCells((first[1] + 1, first[0] + 1, last[1] + 1, last[0] + 1) for first, last in found)
    rows: list[TableRow] = []
    for number, values in enumerate(sheet.to_python(skip_empty_area=True), start=top + 1):
        cells = [*[""] * left, *map(format_cell, values)]
        spans = merged.apply(number, cells)
        rows.append(TableRow(number, cells if any(cells) else (), spans))
    return rows
