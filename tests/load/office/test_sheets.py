"""Column names of sheets: titles above them, several rows of them, merged cells, strict files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TypeAlias

import openpyxl
import pytest

from ragkit.load.data.csv import CsvLoader
from ragkit.load.office.xlsx import STRICT_NAMESPACES, XlsxLoader
from ragkit.load.options import RecordOptions, XlsxOptions
from tests.load import sample_files

Rows: TypeAlias = Sequence[Sequence[object]]


def text_of(rows: Rows, merged: Sequence[str] = ()) -> list[str]:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(list(row))
    for cells in merged:
        book.active.merge_cells(cells)
    out = io.BytesIO()
    book.save(out)
    return XlsxLoader().load(out.getvalue(), "/x/a.xlsx").text.split("\n\n")[1:]


def test_a_title_stands_above_the_column_names() -> None:
    table: Rows = [["Pump", "Flow"], ["P-1", 10], ["P-2", 20]]
    rows: Rows = [["Pumps of the north plant"], ["as of May"], [], *table]
    lines = "Pump: P-1; Flow: 10\nPump: P-2; Flow: 20"
    assert text_of(rows, ["A1:B1"]) == ["Pumps of the north plant", "as of May", lines]
    assert text_of([["Pumps of the north plant"], *table]) == ["Pumps of the north plant", lines]


def test_a_table_may_start_in_any_column() -> None:
    assert text_of([[None, None, "Pump", "Flow"], [None, None, "P-1", 10]]) == ["Pump: P-1; Flow: 10"]


def test_merged_cells_count_for_every_row_they_cover() -> None:
    rows: Rows = [["Site", "Pump"], ["North", "P-1"], [None, "P-2"], [None, "P-3"], ["South", "P-4"]]
    lines = ["Site: North; Pump: P-1", "Site: North; Pump: P-2", "Site: North; Pump: P-3", "Site: South; Pump: P-4"]
    assert text_of(rows, ["A2:A4"]) == ["\n".join(lines)]


def test_names_over_merged_columns_are_joined_with_those_below() -> None:
    rows: Rows = [["Site", 2023, None, 2024, None], [None, "Q1", "Q2", "Q1", "Q2"], ["North", 1, 2, 3, 4]]
    [line] = text_of(rows, ["A1:A2", "B1:C1", "D1:E1"])
    assert line == "Site: North; 2023 / Q1: 1; 2023 / Q2: 2; 2024 / Q1: 3; 2024 / Q2: 4"


def test_years_are_column_names_behind_a_text() -> None:
    assert text_of([["Site", 2023, 2024], ["North", 10, 20]]) == ["Site: North; 2023: 10; 2024: 20"]
    assert text_of([["Ann", 1990], ["Bo", 1991]]) == ["Ann | 1990\nBo | 1991"]


def test_a_second_table_of_a_sheet_has_its_own_names() -> None:
    rows: Rows = [["Pump", "Flow"], ["P-1", 10], [], ["Valve", "Bar", "Seat"], ["V-1", 3, "soft"], ["V-2", 4, "hard"]]
    expected = "Pump: P-1; Flow: 10\nValve: V-1; Bar: 3; Seat: soft\nValve: V-2; Bar: 4; Seat: hard"
    assert text_of(rows) == [expected]


def test_a_note_below_a_table_is_no_row() -> None:
    rows: Rows = [["Pump", "Flow", "Year"], ["P-1", 10, 2001], [], ["Source: the plant's own records"]]
    assert text_of(rows) == ["Pump: P-1; Flow: 10; Year: 2001", "Source: the plant's own records"]


def test_titles_above_a_csv_header_are_found_too() -> None:
    text = "Export of 2024\n\nname,age\nAnn,7\nBo,8\n"
    assert CsvLoader().load(text.encode(), "/x/a.csv").text == "Export of 2024\nname: Ann; age: 7\nname: Bo; age: 8"


def test_a_strict_file_is_read_like_any_other() -> None:
    data = sample_files.workbook({"Pumps": [["Pump", "Flow"], ["P-1", 10]]})
    parts = sample_files.entries(data)
    strict = {name: part for name, part in parts.items() if name.endswith((".xml", ".rels"))}
    for strict_name, name in STRICT_NAMESPACES:
        strict = {key: part.replace(name, strict_name) for key, part in strict.items()}
    assert b"purl.oclc.org" in strict["xl/workbook.xml"]
    document = XlsxLoader().load(sample_files.replaced(data, strict), "/x/a.xlsx")
    assert document.text == "Pumps\n\nPump: P-1; Flow: 10"


@pytest.mark.timeout(20)
def test_a_hundred_thousand_huge_merged_ranges_are_read_quickly() -> None:
    data = sample_files.workbook({"S": [["a", "b"], *([n, n] for n in range(2000))]})
    merged = "".join(f'<mergeCell ref="A{n}:XFD1048576"/>' for n in range(1, 100_001))
    part = sample_files.entries(data)["xl/worksheets/sheet1.xml"]
    part = part.replace(b"</sheetData>", f"</sheetData><mergeCells>{merged}</mergeCells>".encode())
    document = XlsxLoader().load(sample_files.replaced(data, {"xl/worksheets/sheet1.xml": part}), "/x/a.xlsx")
    assert "1999" in document.text


@pytest.mark.parametrize("shown", ["0%", "0.00%", "0.0 %;[Red]-0.0 %"])
def test_a_share_is_read_as_the_sheet_shows_it(shown: str) -> None:
    book = openpyxl.Workbook()
    for row in (["Project", "Progress", "Factor"], ["Tunnel", 0.125, 0.125], ["Bridge", -0.07, 2], ["Dam", None, 3]):
        book.active.append(row)
    for cell in book.active["B"]:
        cell.number_format = shown
    out = io.BytesIO()
    book.save(out)
    lines = "Project: Tunnel; Progress: 12.5%; Factor: 0.125\nProject: Bridge; Progress: -7%; Factor: 2"
    text = XlsxLoader().load(out.getvalue(), "/x/a.xlsx").text
    assert f"{lines}\nProject: Dam; Factor: 3" in text
    records = XlsxLoader(XlsxOptions(records=RecordOptions())).load(out.getvalue(), "/x/a.xlsx").parts
    assert [part.metadata.get("Progress") for part in records] == [0.125, -0.07, None]
