"""Excel files: one section per sheet, one line of text per row, with the column names."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Iterator
from functools import reduce

import openpyxl
from lxml import etree
from openpyxl.utils.cell import range_boundaries
from openpyxl.utils.exceptions import InvalidFileException

from ragkit.errors import LoadError
from ragkit.load.office.merged_cells import MergedCells
from ragkit.load.office.ooxml_drawings import drawing_blocks, sheet_comment_blocks, threaded_comment_blocks
from ragkit.load.office.sheet_text import Workbook, format_cell
from ragkit.load.office.xml_workbook import to_workbook
from ragkit.load.options import LOADER_VERSIONS, XlsxOptions
from ragkit.load.shared.layout_blocks import LayoutBlock
from ragkit.load.shared.ooxml import (
    find_main_part,
    get_attribute,
    iter_elements,
    parse_part,
    read_core_properties,
    read_people,
    read_relationships,
)
from ragkit.load.shared.table_text import TableRow
from ragkit.load.shared.zip_archive import ZIP_ERRORS, ZipArchive, write_zip
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

STRICT_NAMESPACES = (
    (b"http://purl.oclc.org/ooxml/spreadsheetml/main", b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"),
    (b"http://purl.oclc.org/ooxml/officeDocument/", b"http://schemas.openxmlformats.org/officeDocument/2006/"),
    (b"http://purl.oclc.org/ooxml/drawingml/", b"http://schemas.openxmlformats.org/drawingml/2006/"),
)
"""Namespaces of "strict" files -> those that openpyxl knows."""
_PERCENT = re.compile(rb'%|numFmtId="(?:9|10)"')
"""In the styles of a workbook: what shows a number as a share."""
_MERGED_RANGE = re.compile(
    rb"<(?:\w{1,40}:)?mergeCell\s[^<>]{0,200}?\bref=[\"']([A-Z]{1,3}\d{1,7}:[A-Z]{1,3}\d{1,7})[\"']"
)

MAX_EMPTY_ROWS = 3
"""Consecutive empty rows that are read; the last cell of a sheet may be a million rows below the others."""


class XlsxLoader:
    """Reads the last calculated values, without formulas; charts, text boxes and comments follow their sheet."""

    version = LOADER_VERSIONS["xlsx"]

    def __init__(self, options: XlsxOptions | None = None) -> None:
        self.options = options or XlsxOptions()

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`. Raises LoadError, and LoadLimitExceeded above `max_cells`."""
        data = to_workbook(data, source)
        archive = ZipArchive(data, source, self.options)
        book = Workbook("xlsx", source, self.options)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about unsupported features without text
                hidden = self._read_sheets(_to_transitional(data, archive), archive, book)
        except PARSE_ERRORS as error:
            reason = f"invalid workbook ({type(error).__name__})"
            raise LoadError(source, reason, "open it in a spreadsheet program and save it again") from error
        return book.to_document({**read_core_properties(archive), "hidden_sheets": hidden or None})

    def _read_sheets(self, data: bytes, archive: ZipArchive, book: Workbook) -> int:
        """Add the sheets to `book`; the number of hidden sheets."""
        opened = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
        parts = _sheet_parts(archive)
        styles = archive.read("xl/styles.xml") if "xl/styles.xml" in archive else b""
        percents = self.options.records is None and _PERCENT.search(styles) is not None  # records have numbers
        visible = [sheet for sheet in opened.worksheets if self.options.hidden or sheet.sheet_state == "visible"]
        for sheet in visible:
            sheet.reset_dimensions()  # the declared dimensions are often wrong
            part = parts.get(str(sheet.title), "")
            values = (map(_shown, row) for row in sheet.iter_rows()) if percents else sheet.iter_rows(values_only=True)
            rows = _read_rows(values, _merged_cells(archive, part), book)
            book.add_sheet(str(sheet.title), rows, extra_blocks(archive, part, comments=self.options.comments))
        opened.close()
        return len(opened.worksheets) - len(visible)


def _merged_cells(archive: ZipArchive, part: str) -> MergedCells:
    found = _MERGED_RANGE.findall(archive.read(part)) if part in archive else []
    return MergedCells(range_boundaries(cells.decode()) for cells in found)


def _shown(cell: object) -> object:
    """The value of a cell; 0.125 as 12.5% where its format says so."""
    value: object = getattr(cell, "value", None)
    if isinstance(value, int | float) and "%" in str(getattr(cell, "number_format", "")) and value is not bool(value):
        return f"{100 * value:.12g}%"
    return value


def _read_rows(rows: Iterable[Iterable[object]], merged: MergedCells, book: Workbook) -> Iterator[TableRow]:
    empty = 0
    for number, row in enumerate(rows, start=1):
        values = tuple(row)
        empty = empty + 1 if values.count(None) == len(values) else 0
        if empty > MAX_EMPTY_ROWS:
            continue
        cells = [format_cell(value) for value in values]
        filled = len(cells) - cells.count("")
        book.count_cells(filled)
        spans = merged.apply(number, cells)
        yield TableRow(number, cells, spans) if filled else TableRow(number, ())


def extra_blocks(archive: ZipArchive, sheet: str, *, comments: bool = True) -> Iterator[LayoutBlock]:
    """The text boxes, charts and comments of a sheet."""
    found = read_relationships(archive, sheet).values() if sheet else ()
    related = [(kind, part) for kind, part in found if part in archive]
    is_threaded = any(kind == "threadedComment" for kind, _ in related)
    for kind, part in related:
        if kind == "drawing":
            yield from drawing_blocks(archive, part)
        elif kind == "threadedComment" and comments:
            main = find_main_part(archive, "xl/workbook.xml")
            people = read_people(archive, main, ("person",), "displayName")
            yield from threaded_comment_blocks(parse_part(archive, part), people)
        elif kind == "comments" and comments:
            for block in sheet_comment_blocks(parse_part(archive, part)):
                if not is_threaded or " by " in block.text.partition(":")[0]:
                    yield block


def _sheet_parts(archive: ZipArchive) -> dict[str, str]:
    """The name of each sheet -> its part."""
    main = find_main_part(archive, "xl/workbook.xml")
    targets = read_relationships(archive, main)
    parts: dict[str, str] = {}
    for sheet in iter_elements(parse_part(archive, main), "sheet"):
        key = next((value for name, value in sheet.attrib.items() if name.endswith("}id")), "")
        parts[get_attribute(sheet, "name")] = targets.get(key, ("", ""))[1]
    return parts


def _to_transitional(data: bytes, archive: ZipArchive) -> bytes:
    """The file in the namespaces that openpyxl knows; `data` itself unless it is a "strict" file."""
    main = find_main_part(archive, "xl/workbook.xml")
    if STRICT_NAMESPACES[0][0] not in archive.read(main):
        return data
    parts = {name: archive.read(name) for name in archive.names}
    for name, part in parts.items():
        if name.endswith((".xml", ".rels")):
            parts[name] = reduce(lambda text, names: text.replace(*names), STRICT_NAMESPACES, part)
    return write_zip(parts)
