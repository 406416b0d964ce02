"""The layout of PDF pages: tables, headings, running heads, columns, forms, annotations, and where a quote stands."""

from __future__ import annotations

import io
import itertools
import logging
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from reportlab.lib.pagesizes import A4, landscape
from reportlab.pdfgen import canvas

from ragkit.load.options import PdfOptions
from ragkit.load.pages.page import PdfPage, Piece, Rule
from ragkit.load.pages.pdf import PdfLoader, read_tables
from ragkit.load.pages.rectangles import Rectangle, page_rectangles
from ragkit.load.pages.tables.open import join_signs
from ragkit.load.pages.tables.rows import split_pieces
from ragkit.load.pages.tables.ruled import find_ruled_tables
from ragkit.load.pages.tables.table import is_data
from ragkit.load.pages.words import is_ciphered
from ragkit.records import TABLE_LEVEL, Document
from tests.load import sample_files

ROWS = [("Country", "2019", "2020"), ("Austria", "59", "54"), ("Denmark", "58", "51"), ("Finland", "89", "94")]
PROSE = "The concentration of firms has risen in each of the states that were seen before"


def draw(*pages: Callable[[canvas.Canvas], object]) -> bytes:
    """A PDF; each page is drawn by a function."""
    out = io.BytesIO()
    sheet = canvas.Canvas(out, pagesize=A4)
    for page in pages:
        page(sheet)
        sheet.showPage()
    sheet.save()
    return out.getvalue()


def load(data: bytes, options: PdfOptions | None = None) -> Document:
    return PdfLoader(options).load(data, "/x/a.pdf")


def table(sheet: canvas.Canvas, rows: Sequence[Sequence[str]] = ROWS, top: float = 700, *, ruled: bool = False) -> None:
    for number, row in enumerate(rows):
        for column, text in enumerate(row):
            sheet.drawString(80 + 120 * column, top - 20 * number, text)
    if ruled:
        sheet.grid([75 + 120 * n for n in range(len(rows[0]) + 1)], [top + 14 - 20 * n for n in range(len(rows) + 1)])


def paragraph(sheet: canvas.Canvas, x: float, top: float, lines: int, text: str = PROSE, width: int = 40) -> None:
    for number in range(lines):
        sheet.drawString(x, top - 14 * number, f"{text[:width]} {number}")


def names(document: Document) -> list[str]:
    return [heading.text for heading in document.headings if heading.level == TABLE_LEVEL]


def headings(document: Document) -> list[tuple[int, str]]:
    return [(heading.level, heading.text) for heading in document.headings if heading.level != TABLE_LEVEL]


@pytest.mark.parametrize("ruled", [True, False])
def test_a_row_is_one_line_below_the_names_of_its_columns(ruled: bool) -> None:
    document = load(draw(lambda sheet: table(sheet, ruled=ruled)))
    assert document.text == "Country | 2019 | 2020\nAustria | 59 | 54\nDenmark | 58 | 51\nFinland | 89 | 94"
    assert document.heading_path_at(document.text.index("Finland")) == ("Country | 2019 | 2020",)
    assert document.heading_path_at(0) == ()


def test_a_cell_of_several_lines_is_one_cell() -> None:
    rows = [("Country", "Share"), ("Austria", "59"), ("Denmark", "58")]

    def page(sheet: canvas.Canvas) -> None:
        table(sheet, rows, ruled=True)
        sheet.setFontSize(6)
        sheet.drawString(80, 693, "of the Union")

    assert load(draw(page)).text.split("\n")[0] == "Country of the Union | Share"


def test_names_above_several_columns_are_joined_with_the_names_below() -> None:
    def page(sheet: canvas.Canvas) -> None:
        sheet.drawCentredString(280, 720, "Year ended in December")
        table(sheet)

    assert names(load(draw(page))) == ["Country | Year ended in December / 2019 | Year ended in December / 2020"]


def test_a_table_goes_on_with_its_names_on_the_next_page() -> None:
    document = load(draw(table, lambda sheet: table(sheet, [ROWS[0], ("Sweden", "78", "79"), ("Spain", "32", "22")])))
    assert names(document) == ["Country | 2019 | 2020"] * 2
    assert document.text.count("Country") == 1
    assert document.page_at(document.text.index("Sweden")) == 2


def test_amounts_keep_their_currency_sign() -> None:
    def page(sheet: canvas.Canvas) -> None:
        table(sheet, [("", "2019", "2020"), ("Revenues", "1,200", "1,300"), ("Income", "20", "(30"), ("Tax", "2", "3")])
        sheet.drawString(188, 680, "$")
        sheet.drawString(345, 660, ")")
        sheet.drawString(188, 660, "$")

    lines = load(draw(page)).text.split("\n")
    assert lines[1:] == ["Revenues | $ 1,200 | 1,300", "Income | $ 20 | (30)", "Tax | 2 | 3"]


def test_text_in_columns_is_read_column_by_column_and_is_no_table() -> None:
    def page(sheet: canvas.Canvas) -> None:
        paragraph(sheet, 60, 700, 10, "left " + PROSE)
        paragraph(sheet, 320, 700, 10, "right " + PROSE)

    document = load(draw(page))
    assert "|" not in document.text
    assert document.text.rindex("left") < document.text.index("right")


def test_a_page_written_from_bottom_to_top_is_read_from_top_to_bottom() -> None:
    def page(sheet: canvas.Canvas) -> None:
        for number in range(5, 0, -1):
            sheet.drawString(72, 720 - 40 * number, f"Line number {number} of the page")

    assert [int(line.split()[2]) for line in load(draw(page)).text.split("\n") if line] == [1, 2, 3, 4, 5]


def test_a_table_on_a_turned_page_is_read() -> None:
    out = io.BytesIO()
    sheet = canvas.Canvas(out, pagesize=landscape(A4))
    sheet.translate(500, 0)
    sheet.rotate(90)
    table(sheet, top=300)
    sheet.save()
    assert load(out.getvalue()).text.split("\n")[1] == "Austria | 59 | 54"


def test_the_scale_of_a_chart_is_no_table() -> None:
    def page(sheet: canvas.Canvas) -> None:
        for number, value in enumerate(range(450, 100, -50)):
            sheet.drawString(80, 700 - 20 * number, str(value))
            sheet.drawString(300, 700 - 20 * number, str(value))

    assert list(read_tables(draw(page), "")) == []


def test_tables_can_be_switched_off() -> None:
    assert load(draw(table), PdfOptions(tables=False)).text.split("\n")[1] == "Austria 59 54"


@pytest.mark.parametrize("text", ["59", "$ 1,200", "(86)", "6 %", "—", "n/a", "12.5", "1 000", "+14", "1988-92"])
def test_a_value_is_data(text: str) -> None:
    assert is_data(text)


@pytest.mark.parametrize("text", ["", "Total", "Level 2 of the scale", "see section 7.4"])
def test_a_text_is_no_data(text: str) -> None:
    assert not is_data(text)


def book(sheet: canvas.Canvas, number: int) -> None:
    sheet.setFont("Helvetica", 9)
    sheet.drawString(72, 800, "The Pump Manual")
    sheet.drawCentredString(300, 40, f"Page {number}")
    sheet.setFont("Helvetica-Bold", 16)
    sheet.drawString(72, 740, f"{number} Chapter with a name")
    sheet.setFont("Helvetica-Bold", 10)
    sheet.drawString(72, 715, f"{number}.1 A section of it")
    sheet.setFont("Helvetica", 10)
    paragraph(sheet, 72, 690, 12, width=60)


BOOK = draw(*(lambda sheet, number=number: book(sheet, number) for number in range(1, 6)))


def test_headings_are_found_by_size_and_weight() -> None:
    found = headings(load(BOOK))
    assert found[:2] == [(1, "1 Chapter with a name"), (2, "1.1 A section of it")]
    assert len(found) == 10
    assert all(load(BOOK).text[h.start :].startswith(h.text) for h in load(BOOK).headings)


def test_running_heads_and_page_numbers_are_taken_out_of_the_text_but_the_first() -> None:
    document = load(BOOK)
    assert document.metadata["running_heads"] == ["The Pump Manual"]
    assert document.text.count("The Pump Manual") == 1
    assert "Page 3" not in document.text


def test_a_title_above_the_text_of_one_page_alone_stays() -> None:
    titles = ["Valves", "Valves", "Motors", "Gears", "Gears"]

    def page(sheet: canvas.Canvas, number: int) -> None:
        sheet.drawString(72, 760, titles[number].upper())
        paragraph(sheet, 72, 720, 30, width=80)

    document = load(draw(*(lambda sheet, number=number: page(sheet, number) for number in range(5))))
    assert [document.text.count(title) for title in ("VALVES", "MOTORS", "GEARS")] == [1, 1, 1]


def test_without_layout_running_heads_stay_and_no_heading_is_found() -> None:
    document = load(BOOK, PdfOptions(layout=False))
    assert document.text.count("The Pump Manual") == 5
    assert document.headings == ()


def test_an_outline_replaces_the_headings_that_were_found() -> None:
    data = sample_files.pdf(
        [["One", "x"], ["Two", "y"], ["Three"]], outline=[("One", 0, 0), ("Two", 0, 1), ("Three", 1, 2)]
    )
    assert headings(load(data)) == [(1, "One"), (1, "Two"), (2, "Three")]


def test_a_word_keeps_its_hyphen_at_the_end_of_a_line_if_it_has_it_elsewhere() -> None:
    lines = ["A mixed-mode pump is used, and this mixed-", "mode pump runs. The main infor-", "mation is below."]
    text = load(sample_files.pdf([lines])).text
    assert "this mixed-mode pump" in text
    assert "main information is" in text


def form(sheet: canvas.Canvas) -> None:
    sheet.drawString(72, 700, "Application")
    sheet.acroForm.textfield(name="given", tooltip="Given name", value="Ann", x=100, y=600)
    sheet.acroForm.checkbox(name="member", tooltip="Member", checked=True, x=100, y=500)
    sheet.acroForm.checkbox(name="guest", tooltip="Guest", checked=False, x=100, y=450)
    sheet.textAnnotation("check this", Rect=[300, 300, 320, 320])


def test_values_of_form_fields_and_comments_are_text() -> None:
    lines = load(draw(form)).text.split("\n")
    assert {"Given name: Ann", "Member: yes", "Comment: check this"} <= set(lines)
    assert not any("Guest" in line for line in lines)


def test_a_form_without_other_text_is_no_scan() -> None:
    def page(sheet: canvas.Canvas) -> None:
        sheet.acroForm.textfield(name="given", tooltip="Given name", value="Ann", x=100, y=600)

    assert load(draw(page)).text == "Given name: Ann"


def test_annotations_can_be_left_out() -> None:
    assert load(draw(form), PdfOptions(annotations=False)).text == "Application"


def garbled() -> bytes:
    """A page that is read well, and two whose font maps its characters to none."""
    cmap = b"1 begincodespacerange <00> <FF> endcodespacerange 1 beginbfrange <20> <7E> <E020> endbfrange"
    text = b"BT /F1 12 Tf 72 700 Td (The words of this page are shown and have no characters) Tj ET"
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 3/Kids[3 0 R 4 0 R 4 0 R]>>"]
    objects += [
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 5 0 R/Resources<</Font<</F1 %s 0 R>>>>>>" % font
        for font in (b"6", b"7")
    ]
    objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(text), text))
    objects.append(b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>")
    objects.append(b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 8 0 R>>")
    objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(cmap), cmap))
    body = b"".join(b"%d 0 obj%s endobj\n" % (number, part) for number, part in enumerate(objects, 1))
    return b"%PDF-1.4\n" + body + b"trailer<</Root 1 0 R>>\nstartxref\n0\n%%EOF"


def test_pages_whose_fonts_have_no_characters_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="ragkit.load"):
        document = load(garbled())
    assert document.metadata["pages_garbled"] == [2, 3]
    assert [record.getMessage() for record in caplog.records] == [
        "/x/a.pdf: fonts without readable characters on page 2, 3"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "d]?~wtanEcfbx`sl5`ec7[*]?lx[w]#`e^Pci[Wm bHtPcip`#citPj!ry5xbxtvr`erWmdW]#nE]",
        "b[*]dt}]kli]?rnY]#bun?`er ]|bin?`#~²]&d]?ci]|nEcitPj!rzj!l`^vjKr*citPqs]5³ (c7[pbuci",
        "Uif#qvnq%pg uif ibmm*xbt$pjmfe uxjdf b%zfbs",
    ],
)
def test_words_with_marks_between_their_letters_are_no_words(text: str) -> None:
    assert is_ciphered(text)


@pytest.mark.parametrize(
    "text",
    [
        "The well-known e-mail and/or the reader's note, e.g. that of 3 p.m.",
        "uint256 wethBalance = WETH.balanceOf(address(this)); if (wethBalance < assets) { return; }",
        "L’été à Zürich: naïve façade, große Straße",
        "Let f(x)=a+b where x is in R, and let y be less than z for all i.",
        "",
    ],
)
def test_words_code_and_formulas_are_not_taken_for_a_cipher(text: str) -> None:
    assert not is_ciphered(text)


def test_a_quote_has_a_rectangle_per_line() -> None:
    data = sample_files.pdf([["one two three", "four five six"]])
    first, second = page_rectangles(data, 1, "three\nfour five")
    assert isinstance(first, Rectangle)
    assert 116 < first.left < first.right < 160
    assert first.bottom < 720 < first.top
    assert 71 < second.left < 73
    assert second.bottom < 700 < second.top < first.bottom


def test_a_row_of_a_table_has_a_rectangle_per_cell() -> None:
    lefts = [round(found.left) for found in page_rectangles(draw(table), 1, "Denmark | 58 | 51")]
    assert lefts == [80, 200, 320]


def test_of_equal_quotes_the_nearest_is_marked() -> None:
    data = sample_files.pdf([["same words", "between", "same words"]])
    tops = [page_rectangles(data, 1, "same words", near)[0].top for near in (0.0, 0.9)]
    assert tops[0] - tops[1] == pytest.approx(40, abs=1)


def test_a_quote_that_is_not_on_the_page_has_no_rectangle() -> None:
    assert page_rectangles(draw(table), 1, "Portugal") == []
    assert page_rectangles(draw(table), 2, "Denmark") == []
    assert page_rectangles(draw(table), 1, " | ") == []


def test_a_stamp_across_a_table_is_kept() -> None:
    def page(sheet: canvas.Canvas) -> None:
        table(sheet)
        sheet.setFontSize(60)
        sheet.drawString(90, 655, "DRAFT")

    text = load(draw(page)).text
    assert "DRAFT" in text
    assert all(cell in text for row in ROWS for cell in row)


def test_a_sign_printed_over_an_amount_leaves_parts_with_a_width() -> None:
    amounts = Piece("10 20 30", 100, 50, 190, 60, made=[(0, 2, 100, 120), (3, 5, 130, 150), (6, 8, 170, 190)])
    sign = Piece("bps", 135, 50, 142, 60, made=[(0, 3, 135, 142)])
    joined = join_signs([amounts, sign])
    assert [(piece.text, piece.x0, piece.x1) for piece in joined] == [("10 20 30 bps", 100, 190)]
    parts = split_pieces(joined, [160])
    assert [(piece.text, piece.x0, piece.x1) for piece in parts] == [("10 20", 100, 150), ("30 bps", 135, 190)]


def test_words_between_two_ruled_tables_are_read_once() -> None:
    pieces: list[Piece] = []
    rules: list[Rule] = []

    def write(text: str, x0: float, x1: float, top: float) -> None:
        pieces.append(Piece(text, x0, top, x1, top + 10, made=[(0, len(text), x0, x1)], start=10 * len(pieces)))

    for left, width in ((50, 90), (234, 60)):
        xs, ys = (left, left + width, left + 2 * width), (60, 80, 100)
        rules += [Rule(xs[0], y, xs[-1], y) for y in ys] + [Rule(x, ys[0], x, ys[-1]) for x in xs]
        for row, column in itertools.product(range(2), range(2)):
            write(f"{left} {row} {column}", left + 5 + width * column, left + 30 + width * column, 65 + 20 * row)
    write("edge", 224, 240, 75)
    boxes = np.array([(p.x0, p.top, p.x1, p.bottom) for p in pieces], np.float32)
    tables = find_ruled_tables(PdfPage(600, 800, pieces, boxes, rules, True))
    assert [[cell.text for cell in table.cells] for table in tables] == [
        ["50 0 0", "50 0 1 edge", "50 1 0", "50 1 1"],  # the larger one
        ["234 0 0", "234 0 1", "234 1 0", "234 1 1"],
    ]
