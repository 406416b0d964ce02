"""The rows of a sheet of an OpenDocument file, with repeated and merged cells."""

from __future__ import annotations

from collections.abc import Callable

from lxml import etree

from ragkit.load.office.merged_cells import MergedCells
from ragkit.load.shared.encoding import replace_invalid_chars
from ragkit.load.shared.loader_utils import collapse_whitespace
from ragkit.load.shared.ooxml import get_attribute, iter_elements, local_name
from ragkit.load.shared.table_text import TableRow

MAX_ROWS = 1_048_576
MAX_COLUMNS = 16_384


def read_sheet(table: etree._Element, count_cells: Callable[[int], None]) -> list[TableRow]:
    """The rows up to the last one with a value. `count_cells` is told how many cells have one before repetitions are
    expanded; what it raises ends the reading."""
    rows: list[TableRow] = []
    gap = number = 0
    ranges: list[tuple[int, int, int, int]] = []
    for row in iter_elements(table, "table-row"):
        cells = _read_row(row, number + 1, ranges)
        repeats = _count(get_attribute(row, "number-rows-repeated"), MAX_ROWS - number)
        number += repeats
        if not any(cells):
            gap += repeats
            continue
        if gap:
            rows.append(TableRow(number - repeats, ()))
        gap = 0
        count_cells(repeats * (len(cells) - cells.count("")))
        rows += [TableRow(number - repeats + repeat, cells) for repeat in range(1, repeats + 1)]
    return _fill_merged(rows, ranges)


def _fill_merged(rows: list[TableRow], ranges: list[tuple[int, int, int, int]]) -> list[TableRow]:
    merged = MergedCells(ranges)
    filled: list[TableRow] = []
    for row in rows:
        cells = list(row.cells)
        spans = merged.apply(row.number, cells)
        filled.append(TableRow(row.number, cells, spans))
    return filled


def _read_row(row: etree._Element, number: int, ranges: list[tuple[int, int, int, int]]) -> list[str]:
    """The cells of a row up to the last one with a value; merged ones are added to `ranges`."""
    cells: list[str] = []
    empty = 0
    for cell in row:
        if local_name(cell) not in ("table-cell", "covered-table-cell"):
            continue
        text = _cell_text(cell)
        repeats = _count(get_attribute(cell, "number-columns-repeated"), MAX_COLUMNS - len(cells) - empty)
        if not text:
            empty += repeats
            continue
        cells += [""] * empty
        empty = 0
        wide, high = (_count(get_attribute(cell, f"number-{kind}-spanned"), 10_000) for kind in ("columns", "rows"))
        if (wide > 1 or high > 1) and len(ranges) < 100_000:
            ranges.append((len(cells) + 1, number, len(cells) + wide, number + high - 1))
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


def _count(text: str, most: int) -> int:
    number = int(text) if text.isdecimal() and len(text) < 9 else 1
    return max(0, min(number, most))
