"""The rows of a sheet of an OpenDocument file, with repeated and merged cells."""

from __future__ import annotations

from collections.abc import Callable

from lxml import etree

from ragkit.load.office.merged_cells import MergedCells
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.load.shared.ooxml import get_attribute, get_integer, iter_elements, local_name
from ragkit.load.shared.table_text import TableRow

MAX_ROWS = 1_048_576
MAX_COLUMNS = 16_384


def read_sheet(table: etree._Element, count_cells: Callable[[int], None]) -> list[TableRow]:
    """The rows up to the last one with a value. `count_cells` is told how many cells have one before repetitions are
    expanded; what it raises ends the reading."""
    rows: list[TableRow] = []
    gap = number = 0
    merged = MergedCells()
    for row in iter_elements(table, "table-row"):
        cells = _read_row(row, number + 1, merged)
        repeats = min(get_integer(row, "number-rows-repeated", 1), MAX_ROWS - number)
        number += repeats
        if not any(cells):
            gap += repeats
            continue
        if gap:
            rows.append(TableRow(number - repeats, ()))
        gap = 0
        count_cells(repeats * (len(cells) - cells.count("")))
        for current in range(number - repeats + 1, number + 1):
            shown = list(cells)
            spans = merged.apply(current, shown)
            rows.append(TableRow(current, shown, spans))
    return rows


def _read_row(row: etree._Element, number: int, merged: MergedCells) -> list[str]:
    """The cells of a row up to the last one with a value; merged ones are added to `merged`."""
    cells: list[str] = []
    empty = 0
    for cell in row:
        if local_name(cell) not in ("table-cell", "covered-table-cell"):
            continue
        text = _cell_text(cell)
        repeats = min(get_integer(cell, "number-columns-repeated", 1), MAX_COLUMNS - len(cells) - empty)
        if not text:
            empty += repeats
            continue
        cells += [""] * empty
        empty = 0
        wide, high = (get_integer(cell, f"number-{kind}-spanned", 1) for kind in ("columns", "rows"))
        if wide > 1 or high > 1:
            merged.add(len(cells) + 1, number, len(cells) + wide, number + high - 1)
        cells += [text] * repeats
    return cells


def _cell_text(cell: etree._Element) -> str:
    """The value of a cell: numbers and dates as they are stored, else its paragraphs."""
    kind = get_attribute(cell, "value-type")
    value = {
        "float": get_attribute(cell, "value"),
        "currency": get_attribute(cell, "value"),
        "date": get_attribute(cell, "date-value").replace("T", " ").removesuffix(" 00:00:00"),
        "boolean": get_attribute(cell, "boolean-value").upper(),
    }.get(kind, "")
    if value:
        return collapse_whitespace(replace_invalid_chars(value))
    paragraphs = ("".join(child.itertext()) for child in cell if local_name(child) == "p")
    return collapse_whitespace(replace_invalid_chars(" ".join(str(text) for text in paragraphs)))
