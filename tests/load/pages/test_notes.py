"""Captions, footnotes, notes in the margin and links of PDF pages."""

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


def mark(sheet: canvas.Canvas, x: float, y: float, text: str) -> None:
    """A raised mark of a footnote."""
    sheet.setFontSize(6)
    sheet.drawString(x, y + 4, text)


def test_a_footnote_stands_behind_the_paragraph_with_its_mark() -> None:
    def page(sheet: canvas.Canvas) -> None:
        lines(sheet, 700, BODY, "as was shown before")
        mark(sheet, 80 + sheet.stringWidth("as was shown before", "Helvetica", 11), 700 - 13.2, "1")
        lines(sheet, 640, "Another paragraph stands below it and is not the one", "that has the mark of a note.")
        lines(sheet, 120, "1 Firms are counted by their sales", "in the year before.", size=8)

    first, note, other = load(draw(page)).text.split("\n\n")
    assert first.endswith("as was shown before1")
    assert note == "1 Firms are counted by their sales\nin the year before."
    assert other.startswith("Another paragraph")


def test_several_footnotes_go_to_their_paragraphs_each() -> None:
    def page(sheet: canvas.Canvas) -> None:
        for number, top in ((1, 700), (2, 640)):
            lines(sheet, top, BODY, f"and ends with note here.{number} More follows.")
        lines(sheet, 120, "1 The first note of two", "2 The second note of two", size=8)

    texts = load(draw(page)).text.split("\n\n")
    assert [text.split("\n")[0] for text in texts] == [
        BODY,
        "1 The first note of two",
        BODY,
        "2 The second note of two",
    ]


@pytest.mark.parametrize("size", [8, 11])
def test_a_numbered_line_without_a_mark_in_the_text_stays_where_it_is(size: int) -> None:
    def page(sheet: canvas.Canvas) -> None:
        lines(sheet, 700, BODY, "in 1 of the states")
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


def test_a_note_in_the_right_margin_stands_behind_the_paragraph_beside_it() -> None:
    texts = ("See the other", "chapter too")

    def page(sheet: canvas.Canvas) -> None:
        for top in (700, 560):
            for number in range(6):
                lines(sheet, top - 13.2 * number, PROSE[:60])
                if top == 700 and 1 <= number <= 2:
                    lines(sheet, top - 13.2 * number, texts[number - 1], x=430, size=8)

    body = "\n".join([PROSE[:60].strip()] * 6)
    assert load(draw(page)).text.split("\n\n") == [body, "\n".join(texts), body]


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
