"""Column names and row groups of PDF tables: each row of numbers has them, wherever on the page they stand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from reportlab.pdfgen import canvas

from ragkit.load.pages.tables.table import PdfCell, PdfTable, column_names, count_header_rows
from ragkit.records import Document
from tests.load.pages.test_layout import draw, load, paragraph

LEFT, STEP, WIDTH = 80, 20, 90
Line = tuple[float, Sequence[str]]
"""Where its first text begins, in points behind the left edge of the table, and its texts; '' for none."""


def place(sheet: canvas.Canvas, lines: Sequence[Sequence[str]], top: float = 740, indent: Sequence[float] = ()) -> None:
    """Lines of texts: labels on the left, the other columns aligned on the right."""
    for number, line in enumerate(lines):
        for column, text in enumerate(line):
            if not column:
                sheet.drawString(LEFT + (indent[number] if indent else 0), top - STEP * number, text)
            else:
                sheet.drawRightString(LEFT + 150 + WIDTH * column, top - STEP * number, text)


def names_of(document: Document, row: str) -> str:
    """The column names that head a row, from the start of its text."""
    return document.heading_path_at(document.text.index(row))[-1]


BODY = [("Oats", "12", "14"), ("Wheat", "98", "95"), ("Barley", "7", "9"), ("Rye", "51", "48")]


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ([("", "", "in tons"), ("Crop", "North", "South")], "Crop | North | in tons South"),
        ([("Crop", "2031", "2032"), ("", "€", "€")], "Crop | 2031 / € | 2032 / €"),
        ([("Crop", "2031", "2032"), ("", "£’000", "£’000")], "Crop | 2031 / £’000 | 2032 / £’000"),
        ([("Crop", "2031-05-01", "2032-05-01")], "Crop | 2031-05-01 | 2032-05-01"),
        ([("Crop", "31.05.2031", "31.05.2032")], "Crop | 31.05.2031 | 31.05.2032"),
        ([("Crop", "15-64", "65+")], "Crop | 15-64 | 65+"),
        ([("Crop", "Area", "Yield"), ("", "(ha)", "%")], "Crop | Area / (ha) | Yield / %"),
        ([("Crop", "Rate", "(95% CI)")], "Crop | Rate | (95% CI)"),
        ([("Crop", "Rate", "5 % loss")], "Crop | Rate | 5 % loss"),
    ],
)
def test_all_rows_above_the_first_value_name_columns(head: list[Sequence[str]], names: str) -> None:
    document = load(draw(lambda sheet: place(sheet, [*head, *BODY])))
    assert [names_of(document, row[0]) for row in BODY] == [names] * len(BODY)


@pytest.mark.parametrize("head", [["Ward", "1", "2", "3", "Total"], ["Ward", "All", "K", "1", "2", "3"]])
def test_the_numbers_of_columns_are_names(head: list[str]) -> None:
    body = [[f"Party {letter}", "41", "28", "30", "99", "60"][: len(head)] for letter in "ABCD"]

    def page(sheet: canvas.Canvas) -> None:
        for number, line in enumerate([head, *body]):
            sheet.drawString(LEFT, 740 - STEP * number, line[0])
            for column, text in enumerate(line[1:]):
                sheet.drawRightString(LEFT + 160 + 60 * column, 740 - STEP * number, text)

    assert names_of(load(draw(page)), "Party A") == " | ".join(head)


def test_values_that_count_up_are_no_names() -> None:
    lines = [["Party A", "1", "2", "3"], *([f"Party {letter}", "41", "28", "30"] for letter in "BCD")]
    cells = [PdfCell(row, column, text) for row, line in enumerate(lines) for column, text in enumerate(line)]
    lines[0][1:] = ["41", "2", "3"]
    others = [PdfCell(row, column, text) for row, line in enumerate(lines) for column, text in enumerate(line)]
    assert [count_header_rows(PdfTable(0, 0, 0, 0, found)) for found in (cells, others)] == [1, 0]


@pytest.mark.parametrize("body", [["2001", "2011", "2021"], ["1-5", "6-9", "10-14"], ["01.02.2031", "02.02.2031"]])
def test_years_and_ranges_below_each_other_are_no_names(body: list[str]) -> None:
    cells = [PdfCell(row, column, text) for row, text in enumerate(body) for column in range(2)]
    assert count_header_rows(PdfTable(0, 0, 0, 0, cells)) == 0


def test_a_title_over_all_columns_is_a_name_of_the_first() -> None:
    cells = [PdfCell(0, 0, "Harvest", 1, 3), *(PdfCell(1, n, name) for n, name in enumerate(["Crop", "2031", "2032"]))]
    cells += [PdfCell(2 + row, n, text) for row, line in enumerate(BODY) for n, text in enumerate(line)]
    harvest = PdfTable(0, 0, 0, 0, cells)
    assert count_header_rows(harvest) == 2
    assert column_names(harvest, 2) == ["Harvest / Crop", "2031", "2032"]


@pytest.mark.parametrize(("unit", "first"), [("(In tons)", "(In tons) / Crop"), ("Tons", "Crop")])
def test_the_unit_of_a_table_is_a_name_of_its_first_column(unit: str, first: str) -> None:
    cells = [PdfCell(0, 1, unit), *(PdfCell(1, n, name) for n, name in enumerate(["Crop", "2031", "2032"]))]
    names = column_names(PdfTable(0, 0, 0, 0, cells), 2)
    assert names == [first, "2031" if "(" in unit else "Tons / 2031", "2032"]


def test_a_name_over_several_columns_is_not_cut_between_them() -> None:
    def page(sheet: canvas.Canvas) -> None:
        sheet.drawCentredString(LEFT + 270, 760, "Year ended 31 May")
        place(sheet, [("Crop", "2031", "2032"), *BODY])

    assert names_of(load(draw(page)), "Rye") == "Crop | Year ended 31 May / 2031 | Year ended 31 May / 2032"


@pytest.mark.parametrize(("over", "names"), [((1, 2), "Men"), ((2, 3), "Women"), ((1, 3), "All")])
def test_a_name_above_a_line_counts_for_the_columns_below_the_line(over: tuple[int, int], names: str) -> None:
    lines = [("Age", "No.", "Rate", "Share"), *((f"{age} to {age + 9}", "12", "34", "5") for age in (20, 30, 40, 50))]
    left, right = (LEFT + 150 + WIDTH * column for column in over)

    def page(sheet: canvas.Canvas) -> None:
        sheet.drawCentredString((left - 30 + right) / 2, 758, names)
        sheet.line(left - 30, 754, right, 754)
        place(sheet, lines)

    wanted = [f"{names} / {name}" if over[0] <= n <= over[1] else name for n, name in enumerate(lines[0])]
    assert names_of(load(draw(page)), "30 to 39") == " | ".join(wanted)


def test_a_name_on_two_lines_is_not_that_of_the_columns_beside_it() -> None:
    body = [(f"{age} to {age + 9}", "12", "34", "5", "6") for age in (20, 30, 40, 50)]

    def page(sheet: canvas.Canvas) -> None:
        for n, name in enumerate(["No.", "Share", "odds ratio", "Error"], 1):
            sheet.drawCentredString(LEFT + 140 + 80 * n, 740, name)
        sheet.drawCentredString(LEFT + 140 + 80 * 3, 762, "Unadjusted")
        sheet.drawString(LEFT, 740, "Age")
        for number, line in enumerate(body, 1):
            for n, text in enumerate(line):
                sheet.drawCentredString(LEFT + (140 + 80 * n if n else 25), 740 - STEP * number, text)

    assert names_of(load(draw(page)), "30 to 39") == "Age | No. | Share | Unadjusted / odds ratio | Error"


def test_the_name_of_the_first_column_stands_beside_the_names_over_several() -> None:
    def page(sheet: canvas.Canvas) -> None:
        sheet.drawCentredString(LEFT + 270, 766, "Harvest")
        sheet.drawString(LEFT, 753, "Kind of")
        place(sheet, [("crop", "2031", "2032"), *BODY])

    assert names_of(load(draw(page)), "Rye") == "Kind of / crop | Harvest / 2031 | Harvest / 2032"


def test_a_caption_beside_its_number_is_no_name() -> None:
    def page(sheet: canvas.Canvas) -> None:
        sheet.drawString(LEFT, 757, "Table 2.")
        sheet.drawString(LEFT + 70, 757, "Harvest of the farms of the county by crop and by year")
        place(sheet, [("Crop", "2031", "2032"), *BODY])

    document = load(draw(page))
    assert names_of(document, "Rye") == "Crop | 2031 | 2032"
    assert "Table 2. Harvest of the farms of the county by crop and by year" in document.text


def test_numbers_that_nearly_touch_are_those_of_two_columns() -> None:
    def page(sheet: canvas.Canvas) -> None:
        lines = [("Crop", "Sacks", "Tons"), *BODY, ("All crops", "3,694", "2,213.25")]
        for number, line in enumerate(lines):
            sheet.drawString(LEFT, 740 - STEP * number, line[0])
            for n, text in enumerate(line[1:]):
                sheet.drawRightString(LEFT + 150 + 54 * n, 740 - STEP * number, text)

    document = load(draw(page))
    assert "All crops | 3,694 | 2,213.25" in document.text
    assert "Rye | 51 | 48" in document.text


@pytest.mark.parametrize(("second", "rows"), [(["amount", "grown"], 2), (["12", "n.a."], 1), (["Oats", "grown"], 1)])
def test_names_that_go_on_in_lower_case_are_names_beside_numbers(second: list[str], rows: int) -> None:
    lines = [["", "Average", "Percent", "Less than", "$10,000–"], ["Crop", *second, "10,000", "14,999"]]
    lines += [[f"Crop {name}", "12", "34", "5", "6"] for name in "ABCDE"]
    cells = [PdfCell(row, n, text) for row, line in enumerate(lines) for n, text in enumerate(line) if text]
    assert count_header_rows(PdfTable(0, 0, 0, 0, cells)) == rows


def test_labels_beside_the_lines_of_a_table_stand_in_its_rows() -> None:
    rows = [
        ("", "Total", "Federal", "Other"),
        *((name, str(n), "12", "345") for name, n in zip("ABCDEF", range(20, 80, 10), strict=True)),
    ]

    def page(sheet: canvas.Canvas) -> None:
        place(sheet, [(f"Cost {row[0]}", *row[1:]) if row[0] else row for row in rows])
        for number in range(len(rows) + 1):
            sheet.line(LEFT + 170, 755 - STEP * number, LEFT + 430, 755 - STEP * number)
        for column in range(4):
            sheet.line(LEFT + 160 + WIDTH * column, 755, LEFT + 160 + WIDTH * column, 755 - STEP * len(rows))
        sheet.line(LEFT - 5, 755, LEFT + 430, 755)

    text = load(draw(page)).text
    assert [line for line in text.split("\n") if line.startswith("Cost")] == [
        f"Cost {name} | {n} | 12 | 345" for name, n in zip("ABCDEF", range(20, 80, 10), strict=True)
    ]


def test_a_frame_around_the_page_does_not_hide_the_table_in_it() -> None:
    rows = [("Item", "Price"), ("Hat", "7 € a piece"), ("Coat", "90 € a piece"), ("Sock", "3 € a pair")]

    def page(sheet: canvas.Canvas) -> None:
        paragraph(sheet, LEFT, 780, 4)
        for y in (820, 300):
            sheet.line(20, y, 590, y)
        sheet.line(540, 820, 540, 300)
        sheet.drawString(550, 700, "Part 2")
        place(sheet, rows, 640)
        for number in range(len(rows) + 1):
            sheet.line(LEFT - 5, 654 - STEP * number, LEFT + 250, 654 - STEP * number)
        for x in (LEFT - 5, LEFT + 160, LEFT + 250):
            sheet.line(x, 654, x, 654 - STEP * len(rows))

    assert "Coat | 90 € a piece" in load(draw(page)).text


@pytest.mark.parametrize("is_indented", [True, False])
def test_a_label_heads_the_rows_below_it(is_indented: bool) -> None:
    lines = [("Crop", "2031", "2032"), ("Winter crops", "", ""), *BODY[:2], ("Summer crops", "", ""), *BODY[2:]]
    lines += [("All crops", "168", "166")] if is_indented else []
    indent = [0, 0, 12, 12, 0, 12, 12, 0] if is_indented else []
    document = load(draw(lambda sheet: place(sheet, lines, indent=indent)))
    assert names_of(document, "Wheat") == "Crop / Winter crops | 2031 | 2032"
    assert names_of(document, "Rye") == "Crop / Summer crops | 2031 | 2032"
    if is_indented:
        assert names_of(document, "All crops") == "Crop | 2031 | 2032"


def test_labels_of_two_levels_head_a_row() -> None:
    lines = [
        ("Crop", "2031", "2032"),
        ("Cereals", "", ""),
        ("Winter", "", ""),
        *BODY[:2],
        ("Summer", "", ""),
        *BODY[2:],
    ]
    document = load(draw(lambda sheet: place(sheet, lines, indent=[0, 0, 8, 16, 16, 8, 16, 16])))
    assert names_of(document, "Wheat") == "Crop / Cereals / Winter | 2031 | 2032"
    assert names_of(document, "Rye") == "Crop / Cereals / Summer | 2031 | 2032"


def test_names_hold_on_behind_a_line_of_text() -> None:
    def page(sheet: canvas.Canvas) -> None:
        place(sheet, [("Crop", "2031", "2032"), *BODY])
        sheet.drawString(
            LEFT, 620, "The harvest of the other crops was estimated by the growers, see the notes, page 7"
        )
        place(sheet, [("Maize", "3", "4"), ("Millet", "5", "6"), ("Spelt", "1", "2")], 590)

    assert names_of(load(draw(page)), "Millet") == "Crop | 2031 | 2032"


def test_names_hold_on_for_the_columns_that_stand_below_them() -> None:
    head = ("Crop", "North", "East", "South")
    body = [(row[0], row[1], "8", row[2]) for row in BODY]

    def rest(sheet: canvas.Canvas) -> None:
        for number, (label, value) in enumerate([("Maize", "3"), ("Millet", "5"), ("Spelt", "1")]):
            place(sheet, [(label, "", "", value)], 740 - STEP * number)

    assert names_of(load(draw(lambda sheet: place(sheet, [head, *body]), rest)), "Millet") == "Crop | South"


def test_names_between_the_rows_name_what_is_below_them() -> None:
    lines = [("Crop", "2031", "2032"), *BODY, ("Cattle", "Cows", "Calves"), ("Hill", "5", "2"), ("Brook", "9", "4")]
    document = load(draw(lambda sheet: place(sheet, [*lines, ("Marsh", "6", "1")])))
    assert names_of(document, "Rye") == "Crop | 2031 | 2032"
    assert names_of(document, "Brook") == "Cattle | Cows | Calves"


def test_names_above_the_lines_of_a_table_are_its_names() -> None:
    def page(sheet: canvas.Canvas) -> None:
        place(sheet, [("Crop", "2031", "2032"), *BODY])
        sheet.grid([75, 180, 262, 345, 425], [735 - STEP * n for n in range(len(BODY) + 1)])

    assert names_of(load(draw(page)), "Rye") == "Crop | 2031 | 2032"


@pytest.mark.parametrize("label", ["a) Barley", "(b) Barley", "ii) Barley"])
def test_an_item_of_a_list_does_not_continue_the_label_above_it(label: str) -> None:
    lines = [("Crop", "2031", "2032"), BODY[0], ("Cereals", "", ""), (label, "7", "9"), BODY[3]]
    sheet_text = load(draw(lambda sheet: place(sheet, lines))).text
    assert f"\nCereals\n{label} | 7 | 9\n" in sheet_text


def test_a_label_that_had_no_room_goes_on_in_the_next_line() -> None:
    def page(sheet: canvas.Canvas) -> None:
        sheet.setFont("Helvetica", 10)
        lines = [("Company", "2031", "2032"), ("North Sea Wind and Water", "5", "7"), ("Harbour Works Limited", "", "")]
        for number, line in enumerate([*lines, ("Plain Rail", "1", "2"), ("Hill Mining", "3", "4")]):
            sheet.drawString(LEFT, 740 - 11 * number, line[0])
            for column, text in enumerate(line[1:]):
                sheet.drawString(LEFT + 130 + 90 * column, 740 - 11 * number, text)

    assert "\nNorth Sea Wind and Water Harbour Works Limited | 5 | 7\n" in load(draw(page)).text


def test_lines_under_links_are_no_rows() -> None:
    def page(sheet: canvas.Canvas) -> None:
        sheet.setFont("Helvetica", 10)
        for y in (760, 740, 700, 660):
            sheet.line(75, y, 400, y)
        for x in (75, 150, 400):
            sheet.line(x, 660, x, 760)
        for top, texts in [(745, ("State", "Source")), (720, ("Utah", "")), (680, ("Iowa", ""))]:
            sheet.drawString(80, top, texts[0])
            sheet.drawString(155, top, texts[1])
        for top, text in [
            (725, "https://example.org/a-long-address-"),
            (711, "that-goes-on"),
            (685, "https://example.org/"),
        ]:
            sheet.drawString(155, top, text)
            sheet.line(155, top - 1.5, 155 + sheet.stringWidth(text, "Helvetica", 10), top - 1.5)

    assert load(draw(page)).text.split("\n")[1].startswith("Utah | https://example.org/a-long-address")


def test_paragraphs_below_a_table_have_no_column_names() -> None:
    def page(sheet: canvas.Canvas) -> None:
        place(sheet, [("Crop", "2031", "2032"), *BODY])
        paragraph(sheet, LEFT, 600, 10)

    document = load(draw(page))
    assert document.heading_path_at(document.text.index("The concentration")) == ()
