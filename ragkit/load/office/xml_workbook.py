"""Workbooks of Excel 2003 that are one XML file ("SpreadsheetML 2003")."""

from __future__ import annotations

import io
import re
from datetime import datetime

import openpyxl
from lxml import etree
from openpyxl.worksheet.worksheet import Worksheet

from ragkit.load.office.flat_package import is_markup, old_properties
from ragkit.load.shared.ooxml import (
    CORE_PROPERTIES_PART,
    find_child,
    get_attribute,
    get_integer,
    iter_elements,
    parse_xml,
)
from ragkit.load.shared.zip_archive import ZipArchive, write_zip

MAX_ROWS = 1_048_576
MAX_COLUMNS = 16_384
"""Of a sheet of Excel; cells beyond are left out."""


def to_workbook(data: bytes, source: str) -> bytes:
    """The XLSX file of a workbook that is one XML file; `data` itself for any other. Raises LoadError."""
    if not is_markup(data):
        return data
    root = parse_xml(data, source, "the file")
    book = openpyxl.Workbook()
    for number, node in enumerate(iter_elements(root, "Worksheet")):
        sheet = book.create_sheet() if number else book.worksheets[0]
        sheet.title = re.sub(r"[\[\]:*?/\\]", "_", get_attribute(node, "Name"))[:31] or sheet.title
        visible = find_child(node, "WorksheetOptions", "Visible")
        sheet.sheet_state = "visible" if visible is None or not number else "hidden"
        _fill(sheet, node)
    written = io.BytesIO()
    book.save(written)
    archive = ZipArchive(written.getvalue(), source)
    parts = {name: archive.read(name) for name in archive.names}
    return write_zip({**parts, CORE_PROPERTIES_PART: etree.tostring(old_properties(root))})  # not the time of day


def _fill(sheet: Worksheet, node: etree._Element) -> None:
    row = 0
    for line in iter_elements(node, "Row"):
        row = get_integer(line, "Index", row + 1)
        column = 0
        for cell in line.iterchildren("{*}Cell"):
            column = get_integer(cell, "Index", column + 1)
            right, bottom = column + get_integer(cell, "MergeAcross"), row + get_integer(cell, "MergeDown")
            if bottom > MAX_ROWS or right > MAX_COLUMNS:
                continue
            if (data := find_child(cell, "Data")) is not None:
                written = sheet.cell(row, column, _value(data))
                written.data_type = "s" if isinstance(written.value, str) else written.data_type
            if right > column or bottom > row:
                sheet.merge_cells(start_row=row, start_column=column, end_row=bottom, end_column=right)
            column = right


def _value(data: etree._Element) -> object:
    kind, text = get_attribute(data, "Type"), "".join(data.itertext())
    try:
        if kind == "Number":
            return float(text)
        if kind == "DateTime":
            return datetime.fromisoformat(text)
    except ValueError:
        return text
    return text == "1" if kind == "Boolean" else text
