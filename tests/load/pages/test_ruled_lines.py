"""How files draw the lines of a table: one path with all of them, a form that is the page, lines that are no grid."""

from __future__ import annotations

import pytest
from reportlab.pdfgen import canvas

from ragkit.load.pages.tables.table import PdfCell, PdfTable, drop_empty_columns
from tests.load.pages.test_layout import draw, load
from tests.load.pages.test_table_names import names_of

MONTHS = ("January", "February", "March", "April", "May")
ACTIONS = (
    (("Agree on the dates", "with all partners"), "Done"),
    (("Try the new forms", "in two offices first"), "Autumn"),
    (("Report to the board", "and to the auditor"), "Winter"),
)


def one_path(sheet: canvas.Canvas, boxes: list[tuple[float, float, float, float]]) -> None:
    """Thin rectangles (left, bottom, width, height) as one path, as spreadsheets print them."""
    path = sheet.beginPath()
    for box in boxes:
        path.rect(*box)
    sheet.drawPath(path, fill=1, stroke=0)


def months(sheet: canvas.Canvas) -> None:
    """All lines are one path: those around the table, between its columns and below their names."""
    sheet.setFont("Helvetica", 8)
    for x, text in ((62, "Year"), (92, "Month"), (132, "Index Number"), (205, "Change")):
        sheet.drawString(x, 700, text)
    for number, month in enumerate(MONTHS):
        y = 680 - 11 * number
        if number % 2 == 0:
            sheet.drawString(62, y, f"{2022 + number}")
        sheet.drawString(84, y, month)
        sheet.drawString(150, y, f"{124 + number}.3")
        if number:
            sheet.drawString(218, y, f"{number}.2")
    upright = [(x, 620.0, 0.8, 95.0) for x in (55, 82, 124, 190, 254)]
    across = [(55, 714.2, 200, 0.8), (55, 620, 200, 0.8), (55, 692, 200, 0.8)]
    one_path(sheet, [*upright, *across])


def test_all_lines_of_a_table_may_be_one_path() -> None:
    document = load(draw(months))
    assert document.text.split("\n")[:3] == [
        "Year | Month | Index Number | Change",
        "2022 | January | 124.3",
        "| February | 125.3 | 1.2",
    ]
    assert names_of(document, "| March") == "Year | Month | Index Number | Change"


def action_plan(sheet: canvas.Canvas) -> None:
    for number, (texts, state) in enumerate((((("Actions",)), "Dates"), *ACTIONS)):
        for line, text in enumerate(texts):
            sheet.drawString(80, 700 - 40 * number - 14 * line, text)
        sheet.drawString(300, 700 - 40 * number, state)
        sheet.line(70, 716 - 40 * number, 420, 716 - 40 * number)
    sheet.line(70, 556, 420, 556)
    for x in (70, 290, 420):
        sheet.line(x, 556, x, 716)


@pytest.mark.parametrize("is_form", [True, False])
def test_a_page_may_be_one_form(is_form: bool) -> None:
    def page(sheet: canvas.Canvas) -> None:
        if is_form:
            sheet.beginForm("page")
        action_plan(sheet)
        if is_form:
            sheet.endForm()
            sheet.doForm("page")

    document = load(draw(page))
    assert document.text.split("\n") == [
        "Actions | Dates",
        *(f"{' '.join(texts)} | {state}" for texts, state in ACTIONS),
    ]


def test_one_line_behind_the_labels_makes_no_grid() -> None:
    rows = [("2022", "January", "12", "1.5"), *(("", month, "14", "2.5") for month in MONTHS[1:])]

    def page(sheet: canvas.Canvas) -> None:
        for x, text in ((80, "Year"), (120, "Month"), (220, "All items"), (300, "Inflation")):
            sheet.drawString(x, 710, text)
        for number, row in enumerate(rows):
            for x, text in zip((80, 120, 240, 320), row, strict=True):
                sheet.drawString(x, 690 - 16 * number, text)
        one_path(sheet, [(70, 724, 330, 0.8), (70, 704, 330, 0.8), (70, 620, 330, 0.8), (190, 620, 0.8, 104)])

    document = load(draw(page))
    assert document.text.split("\n")[1:3] == ["2022 | January | 12 | 1.5", "| February | 14 | 2.5"]
    assert names_of(document, "| March") == "Year | Month | All items | Inflation"


def test_a_table_begins_below_its_caption() -> None:
    def page(sheet: canvas.Canvas) -> None:
        sheet.drawString(80, 740, "3640")
        sheet.drawString(420, 740, "A. Author et al.")
        sheet.drawString(80, 720, "Table 1 Production of cellobiose by fungi")
        rows = [("Fungus", "Phylum", "Assay"), *((f"Trametes {n}", "B", f"Lactose, pH {n}.5") for n in range(3, 8))]
        for number, row in enumerate(rows):
            for x, text in zip((80, 220, 420), row, strict=True):
                sheet.drawString(x, 700 - 20 * number, text)

    document = load(draw(page))
    assert names_of(document, "Trametes 5") == "Fungus | Phylum | Assay"


@pytest.mark.parametrize("step", [13, 16, 20])
def test_rows_of_texts_without_a_gap_are_no_lines_of_one_row(step: int) -> None:
    rows = [("Command", "In formulas", "In texts"), *((f"space{'x' * n}", "narrow", "as wide") for n in range(6))]

    def page(sheet: canvas.Canvas) -> None:
        for number, row in enumerate(rows):
            for x, text in zip((80, 240, 400), row, strict=True):
                sheet.drawString(x, 700 - step * number, text)

    assert load(draw(page)).text.split("\n") == [" | ".join(row) for row in rows]


@pytest.mark.parametrize("gap", [7.0, 8.0])
def test_lines_between_columns_may_be_drawn_row_by_row(gap: float) -> None:
    """Those of the last row begin a little below the line above it, where no text has room."""
    rows = [(f"3.{number}", ("Check that the key is", f"changed by hand {number}"), "Moved") for number in range(1, 5)]

    def page(sheet: canvas.Canvas) -> None:
        sheet.setFont("Helvetica", 10)
        for number, (key, texts, state) in enumerate(rows):
            top = 700 - 40 * number
            sheet.line(70, top, 420, top)
            sheet.line(70, top - gap / 2, 110, top - gap / 2)
            for x in (70, 110, 290, 420):
                sheet.line(x, top - gap, x, top - 40)
            sheet.drawString(74, top - 20, key)
            for line, text in enumerate(texts):
                sheet.drawString(114, top - 16 - 12 * line, text)
            sheet.drawString(294, top - 20, state)
        sheet.line(70, 540, 420, 540)

    wanted = [f"{key} | {' '.join(texts)} | {state}" for key, texts, state in rows]
    assert load(draw(page)).text.split("\n") == wanted


@pytest.mark.parametrize("is_shown", [True, False])
def test_lines_outside_of_their_clip_path_rule_no_table(is_shown: bool) -> None:
    def page(sheet: canvas.Canvas) -> None:
        sheet.saveState()
        window = sheet.beginPath()
        window.rect(70, 200, 350, 516 if is_shown else 100)
        sheet.clipPath(window, stroke=0)
        for y in (556, 596, 636, 676, 716):
            sheet.line(70, y, 420, y)
        for x in (70, 290, 420):
            sheet.line(x, 556, x, 716)
        sheet.restoreState()
        for number, name in enumerate(("Anna Berg", "Carl Dorn", "Emma Fink", "Gert Horn")):
            sheet.drawString(80, 690 - 40 * number, name)
            sheet.drawString(300, 690 - 40 * number, "signed")

    assert ("Anna Berg | signed" in load(draw(page)).text) == is_shown


@pytest.mark.parametrize("is_ruled", [True, False])
def test_a_row_above_two_lines_is_not_of_the_table_below_them(is_ruled: bool) -> None:
    def page(sheet: canvas.Canvas) -> None:
        rows = (
            ("Security Standard", "", "May 2025"),
            ("No.", "Title", "Level"),
            ("A", "First", "2"),
            ("B", "Next", "3"),
        )
        for number, row in enumerate(rows):
            for x, text in zip((70, 200, 380), row, strict=True):
                sheet.drawString(x, 700 - 24 * number - (6 if number else 0), text)
        for y in (694, 682) if is_ruled else ():
            sheet.line(60, y, 440, y)

    lines = load(draw(page)).text.split("\n")
    assert lines[-3:] == ["No. | Title | Level", "A | First | 2", "B | Next | 3"] if is_ruled else len(lines) == 4
    assert any("|" in line and "May" in line for line in lines) != is_ruled


def test_the_names_of_a_table_of_texts_end_at_a_line() -> None:
    def page(sheet: canvas.Canvas) -> None:
        rows = (("Function", "Reference", "Status"), ("SHA", "Standard", "Allowed"), ("MD", "Draft", "Legacy"))
        for number, row in enumerate((*rows, ("Other", "Paper", "Legacy"), ("None", "Report", "Legacy"))):
            for x, text in zip((70, 200, 380), row[:2] if number == 3 else row, strict=False):
                sheet.drawString(x, 700 - 16 * number, text)
        sheet.line(60, 696, 440, 696)

    text = load(draw(page)).text
    assert text.split("\n")[:3] == ["Function | Reference | Status", "SHA | Standard | Allowed", "MD | Draft | Legacy"]


def test_a_name_over_two_columns_and_values_in_one_of_them_are_one_column() -> None:
    table = PdfTable(0, 0, 0, 0, [PdfCell(0, 0, "Segment"), PdfCell(0, 1, "Owned", 1, 2), PdfCell(0, 3, "Leased")])
    table.cells += [PdfCell(1, 0, "Retail"), PdfCell(1, 2, "2,140"), PdfCell(1, 3, "66")]
    drop_empty_columns(table)
    assert table.grid() == [["Segment", "Owned", "Leased"], ["Retail", "2,140", "66"]]
