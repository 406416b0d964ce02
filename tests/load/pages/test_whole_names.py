"""Names of columns that take several rows, or are wider than their columns; rows that no line parts."""

from __future__ import annotations

from reportlab.pdfgen import canvas

from tests.load.pages.test_layout import draw, load, table
from tests.load.pages.test_table_names import BODY, names_of, place


def test_a_name_over_several_columns_is_said_once_in_the_first_row() -> None:
    def page(sheet: canvas.Canvas) -> None:
        table(sheet, [("Crop", "2031", "2032"), *BODY])
        sheet.drawCentredString(280, 720, "Yield of the year in tons")

    document = load(draw(page))
    assert document.text.split("\n")[0] == "Crop | Yield of the year in tons / 2031 | 2032"
    assert names_of(document, "Oats") == "Crop | Yield of the year in tons / 2031 | Yield of the year in tons / 2032"


def test_values_go_on_far_below_their_names() -> None:
    def page(sheet: canvas.Canvas) -> None:
        place(sheet, [("Crop", "North", "South", "West")], top=760)
        place(sheet, [(*row, "3") for row in BODY], top=712)

    assert names_of(load(draw(page)), "Rye") == "Crop | North | South | West"


def test_names_that_touch_each_other_are_cut_above_the_names_below_them() -> None:
    """`Graduate` and `Undergraduate` have a space between them, and no white strip runs below it."""

    def page(sheet: canvas.Canvas) -> None:
        lines = [("", "Graduate", "Undergraduate"), ("", "only", "only"), *BODY]
        sheet.setFont("Helvetica", 12)
        for number, (label, first, second) in enumerate(lines):
            sheet.drawString(80, 720 - 20 * number, label)
            sheet.drawRightString(300, 720 - 20 * number, first)
            sheet.drawRightString(300 + sheet.stringWidth(" Undergraduate", "Helvetica", 12), 720 - 20 * number, second)

    assert names_of(load(draw(page)), "Rye") == "Graduate only | Undergraduate only"


def test_a_value_in_each_row_keeps_rows_apart_that_no_line_parts() -> None:
    """The rows of the first region have lines in their last column alone, those of the second in all."""
    rows = [("Crop", "North", "South"), *BODY, *[(row[0].upper(), *row[1:]) for row in BODY]]

    def page(sheet: canvas.Canvas) -> None:
        for number, row in enumerate(rows):
            for column, text in enumerate(row):
                sheet.drawString(80 + 100 * column, 705 - 20 * number, text)
            sheet.line(275 if 1 < number < 5 else 75, 720 - 20 * number, 375, 720 - 20 * number)
        sheet.line(75, 540, 375, 540)
        for x in (75, 175, 275, 375):
            sheet.line(x, 540, x, 720)

    assert load(draw(page)).text.split("\n") == [" | ".join(row) for row in rows]


def test_names_below_names_over_several_columns_need_no_line_above_them() -> None:
    """Only the lines between columns tell them apart: they begin below the name that spans its columns."""

    def page(sheet: canvas.Canvas) -> None:
        rows = [("Crop", *("Area", "Yield") * 3), *[(row[0], *row[1:] * 3) for row in BODY]]
        for number, row in enumerate(rows):
            for column, text in enumerate(row):
                sheet.drawString(80 + 60 * column, 685 - 20 * number, text)
        for number, name in enumerate(("North", "South", "West")):
            sheet.drawString(190 + 120 * number, 705, name)
        for y in (720, *(680 - 20 * number for number in range(5))):
            sheet.line(75, y, 495, y)
        for column in range(8):
            sheet.line(75 + 60 * column, 600, 75 + 60 * column, 700 if column in (2, 4, 6) else 720)

    names = [f"{name} / {below}" for name in ("North", "South", "West") for below in ("Area", "Yield")]
    assert names_of(load(draw(page)), "Rye") == " | ".join(["Crop", *names])


def test_names_of_several_lines_beside_each_other_are_those_of_their_columns() -> None:
    def page(sheet: canvas.Canvas) -> None:
        sheet.grid([75, 375], [720, 680])
        for number in range(5):
            sheet.line(75, 680 - 20 * number, 375, 680 - 20 * number)
        for x in (75, 175, 275, 375):
            sheet.line(x, 600, x, 720 if x in (75, 175, 375) else 680)
        for x, lines in ((80, ("Crop",)), (180, ("North", "of the river")), (280, ("South", "of the river"))):
            for number, text in enumerate(lines):
                sheet.drawString(x, 706 - 14 * number, text)
        for number, row in enumerate(BODY):
            for column, text in enumerate(row):
                sheet.drawString(80 + 100 * column, 665 - 20 * number, text)

    assert names_of(load(draw(page)), "Rye") == "Crop | North of the river | South of the river"


def test_a_table_below_another_one_has_its_own_names() -> None:
    def page(sheet: canvas.Canvas) -> None:
        for top, head in ((700, ("Old register", "Old bit")), (560, ("New register", "New bit"))):
            rows = [head, ("First port", "Data out"), ("Second port", "Data in"), ("Third port", "Clock")]
            for number, row in enumerate(rows):
                for column, text in enumerate(row):
                    sheet.drawString(80 + 120 * column, top - 20 * number, text)
            sheet.grid([75, 195, 315], [top + 14 - 20 * number for number in range(5)])

    document = load(draw(page))
    assert document.heading_path_at(document.text.rindex("Third port"))[-1] == "New register | New bit"
