"""Captions, footnotes, terms in the margin and links of PDF pages."""

from __future__ import annotations

import pytest
from reportlab.pdfgen import canvas

from ragkit.load.options import PdfOptions
from tests.load.pages.test_layout import PROSE, draw, load

BODY = "The concentration of firms has risen in each of the states that were seen"


def lines(sheet: canvas.Canvas, top: float, *texts: str, x: float = 80, size: float = 11) -> None:
    sheet.setFontSize(size)
    for number, text in enumerate(texts):
        sheet.drawString(x, top - 1.2 * size * number, text)


@pytest.mark.parametrize("size", [8, 11])
def test_a_footnote_stays_where_it_is_printed(size: int) -> None:
    def page(sheet: canvas.Canvas) -> None:
        lines(sheet, 700, BODY, "in each of the states.1")
        lines(sheet, 640, "Another paragraph stands below it and is not the one")
        lines(sheet, 120, "1 Firms are counted by their sales", size=size)

    assert load(draw(page)).text.endswith("1 Firms are counted by their sales")


def test_a_caption_is_a_paragraph_of_its_own() -> None:
    def page(sheet: canvas.Canvas) -> None:
        lines(sheet, 700, BODY, "and it ends here.")
        lines(sheet, 672, "Figure 3: The share of firms", "in each of the states", size=9)
        lines(sheet, 648, BODY, "Figure 3 shows them, and so it goes on here")

    assert load(draw(page)).text.split("\n\n") == [
        f"{BODY}\nand it ends here.",
        "Figure 3: The share of firms\nin each of the states",
        f"{BODY}\nFigure 3 shows them, and so it goes on here",
    ]


def test_a_term_left_of_its_text_stays_in_its_line() -> None:
    def page(sheet: canvas.Canvas) -> None:
        lines(sheet, 700, "Beware", x=20)
        for number in range(10):
            lines(sheet, 700 - 13.2 * number, PROSE[:60])

    assert load(draw(page)).text.startswith("Beware The concentration")


def test_addresses_of_links_are_metadata() -> None:
    def page(sheet: canvas.Canvas) -> None:
        lines(sheet, 700, "See the manual and the script")
        for target in ("https://example.org/manual", "javascript:alert(1)", "https://example.org/manual"):
            sheet.linkURL(target, (80, 690, 200, 712))

    assert load(draw(page)).metadata["links"] == ["https://example.org/manual"]
    assert "links" not in load(draw(page), PdfOptions(annotations=False)).metadata
