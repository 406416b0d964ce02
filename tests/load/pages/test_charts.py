"""Files that are one chart, and pages that look like one and are none; pages whose characters are no text."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence

import pytest
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen import canvas

from ragkit.errors import LoadError
from ragkit.load.options import PdfOptions
from ragkit.load.pages.pdf import PdfLoader
from ragkit.load.pages.words import is_unreadable
from ragkit.load.shared.noise import LEFT_OUT
from ragkit.records import Document

Draw = Callable[[canvas.Canvas], object]
RISING = ("0.0", "0.2", "0.4", "0.6", "0.8", "1.0")


def load(*pages: Draw) -> Document:
    out = io.BytesIO()
    sheet = canvas.Canvas(out, pagesize=(460, 340))
    for page in pages:
        page(sheet)
        sheet.showPage()
    sheet.save()
    return PdfLoader(PdfOptions(ocr=None)).load(out.getvalue(), "/x/a.pdf")


def upright(sheet: canvas.Canvas, values: Sequence[str] = RISING, x: float = 50) -> None:
    """An axis, from the bottom to the top."""
    for number, value in enumerate(values):
        sheet.drawRightString(x, 50 + 40 * number, value)


def level(sheet: canvas.Canvas, values: Sequence[str] = ("10", "20", "30", "40"), y: float = 30) -> None:
    for number, value in enumerate(values):
        sheet.drawCentredString(70 + 90 * number, y, value)


def turned(sheet: canvas.Canvas, text: str, x: float = 20) -> None:
    sheet.saveState()
    sheet.translate(x, 120)
    sheet.rotate(90)
    sheet.drawString(0, 0, text)
    sheet.restoreState()


def rows(sheet: canvas.Canvas, texts: Iterable[Sequence[str]]) -> None:
    for number, row in enumerate(texts):
        for column, text in enumerate(row):
            sheet.drawString(40 + 55 * column, 300 - 18 * number, text)


def labels(sheet: canvas.Canvas) -> None:
    sheet.drawString(150, 310, "Accuracy of both models")
    sheet.drawString(300, 120, "baseline")
    sheet.drawString(300, 100, "large")
    sheet.drawCentredString(230, 10, "epoch")


def axes(sheet: canvas.Canvas) -> None:
    upright(sheet)
    level(sheet)


def axis_of_powers(sheet: canvas.Canvas) -> None:
    upright(sheet, ["1", "10", "100", "1,000"])


def axis_without_signs(sheet: canvas.Canvas) -> None:
    upright(sheet, ["20", "10", "0", "10", "20", "30"])
    level(sheet, ["0%", "25%", "50%", "75%"])


def axis_of_words(sheet: canvas.Canvas) -> None:
    upright(sheet)
    level(sheet, ["Graz", "Linz", "Wien", "Wels"])


def axis_of_turned_numbers(sheet: canvas.Canvas) -> None:
    for number, value in enumerate(("0", "5", "10", "15")):
        sheet.saveState()
        sheet.translate(50, 60 + 60 * number)
        sheet.rotate(90)
        sheet.drawString(0, 0, value)
        sheet.restoreState()
    level(sheet)


@pytest.mark.parametrize("page", [axes, axis_of_powers, axis_without_signs, axis_of_words, axis_of_turned_numbers])
def test_the_words_of_a_chart_are_its_text_and_the_numbers_of_its_axes_are_not(page: Draw) -> None:
    def chart(sheet: canvas.Canvas) -> None:
        page(sheet)
        labels(sheet)
        turned(sheet, "share of answers")

    text = load(chart).text
    assert {"Accuracy of both models", "baseline", "large", "epoch", "share of answers"} <= set(text.split("\n"))
    kept = [word for word in text.split() if any(map(str.isdigit, word))]
    assert not kept
    assert ("Graz" in text) == (page is axis_of_words)


def test_a_chart_without_words_has_no_text_and_its_characters_are_counted() -> None:
    document = load(axes)
    assert (document.text, document.metadata[LEFT_OUT]) == ("", len("".join(RISING) + "10203040"))


def test_a_page_without_anything_is_still_refused() -> None:
    with pytest.raises(LoadError, match="no text on its pages"):
        load(lambda sheet: sheet.rect(50, 50, 100, 100))


def test_each_page_of_a_file_of_charts_is_one() -> None:
    def page(name: str) -> Draw:
        def draw(sheet: canvas.Canvas) -> None:
            axes(sheet)
            sheet.drawString(150, 310, name)

        return draw

    assert load(page("First run"), page("Second run")).text.split() == ["First", "run", "Second", "run"]


def table(sheet: canvas.Canvas) -> None:
    rows(sheet, [("Town", "10", "20", "30"), ("Graz", "7", "3", "9"), ("Linz", "4", "8", "2"), ("Wien", "5", "6", "1")])


def table_that_falls(sheet: canvas.Canvas) -> None:
    rows(sheet, [("Town", "Places"), ("Graz", "50"), ("Linz", "40"), ("Wien", "30"), ("Wels", "20")])


def calendar(sheet: canvas.Canvas) -> None:
    rows(sheet, [[str(7 * week + day) for day in range(1, 8)] for week in range(4)])


def years(sheet: canvas.Canvas) -> None:
    rows(sheet, [("2023", "Head of sales"), ("2022", "Sales"), ("2021", "Training"), ("2020", "School")])


def code(sheet: canvas.Canvas) -> None:
    rows(
        sheet, [("#define A_SHIFT", "", "", "39"), ("#define B_SHIFT", "", "", "30"), ("#define C_SHIFT", "", "", "21")]
    )


def report(sheet: canvas.Canvas) -> None:
    axes(sheet)
    for number in range(4):
        sheet.drawString(90, 200 - 14 * number, f"Sales rose again in the {number}. quarter of this year")


def captioned(sheet: canvas.Canvas) -> None:
    axes(sheet)
    sheet.drawString(90, 10, "Figure 3: Sales")


def chinese_report(sheet: canvas.Canvas) -> None:
    axes(sheet)
    pdfmetrics.registerFont(UnicodeCIDFont("STSong-Light"))
    sheet.setFont("STSong-Light", 10)
    text = "\u4f60\u9700\u8981\u63d0\u4ea4\u4e00\u4e2a\u538b\u7f29\u5305\u683c\u5f0f\u4ee3\u7801\u6587\u4ef6\u80fd"
    for number in range(4):
        sheet.drawString(90, 200 - 14 * number, text[number:] + text[:number])


@pytest.mark.parametrize("page", [table, table_that_falls, calendar, years, code, report, captioned, chinese_report])
def test_a_page_that_is_no_chart_keeps_its_numbers(page: Draw) -> None:
    document = load(page)
    assert LEFT_OUT not in document.metadata
    kept: dict[Draw, str] = {table: "10 20 30", table_that_falls: "50", calendar: "15 22", years: "2021", code: "30"}
    assert set(kept.get(page, "0.4 40").split()) <= set(document.text.replace("|", " ").split())


def test_a_chart_among_pages_of_text_keeps_its_numbers() -> None:
    assert "0.4" in load(report, axes).text.split()


@pytest.mark.parametrize(
    ("texts", "is_noise"),
    [
        (["� - - - - \x91 n i m z m p { J K x o J j p { A", "g c W ` U T Q ] S a Z R O ^ W ` W O"], True),
        (["¿¥ \x90\x9b\x9d¥1µ(¤®\x9f©¨ \x9f¡¢F¡¤£¡¥", "¦¢%¦(¨ \x90§9«\x87ª\x90¢1"], True),
        (["\x03\x04\x05 \x03\x07 \x08\x05", "ï€ƒ", "a b c d"], True),
        (["B4. Nonlinear Conjugate Gradients ��-���-���-� 52", "C Ugly Proofs �-����-���-����-� 54"], False),
        (["0.07", "0.06", "0.05", "200 150 100 50 0"], False),
        (["你需要提交一个压缩包", "कथा संग्रह"], False),
    ],
)
def test_pages_of_odd_characters_with_words_are_readable(texts: list[str], is_noise: bool) -> None:
    assert is_unreadable(texts) is is_noise
