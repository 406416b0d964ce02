"""The words of the page follow the browser, and the quote of a citation is shown on hover and on focus."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.server.browser.actions import ask_and_wait
from tests.server.browser.conftest import Opener
from tests.server.browser.test_axe import violations

DEWAR = "How long does a full dewar stay cold?"
START = {
    "de-AT": "Fragen Sie 6 Dokumente",
    "fr-FR": "Interrogez 6 documents",
    "es-MX": "Pregunte a 6 documentos",
    "ja-JP": "6 件の文書に質問する",
    "nl-NL": "Ask 6 documents",
}


@pytest.mark.parametrize("locale", sorted(START))
def test_the_page_speaks_the_language_of_the_browser(open_page: Opener, locale: str) -> None:
    page = open_page(locale=locale)
    expect(page.get_by_role("heading", level=1)).to_have_text(START[locale])
    expect(page.locator("html")).to_have_attribute("lang", "en" if locale == "nl-NL" else locale[:2])


def test_an_answer_is_shown_in_german_words(open_page: Opener) -> None:
    page = open_page(locale="de-DE", reduced_motion="reduce")
    page.get_by_role("textbox", name="Frage").fill(DEWAR)
    page.get_by_role("button", name="Fragen").click()
    turn = page.locator(".turn")
    expect(turn).to_have_attribute("aria-busy", "false")
    expect(turn.get_by_role("group", name="Quellen")).to_contain_text("Seite 3")
    expect(turn.get_by_role("button", name="Beleg 1: ")).to_have_count(1)
    expect(turn.get_by_role("button", name="Neu erzeugen")).to_be_visible()
    assert violations(page) == []


def test_the_quote_of_a_citation_is_shown_on_hover_and_on_focus(open_page: Opener) -> None:
    page = open_page(reduced_motion="reduce")
    turn = ask_and_wait(page, DEWAR)
    chip = turn.get_by_role("button", name="Citation 1:")
    tip = page.get_by_role("tooltip")
    chip.hover()
    expect(tip).to_contain_text("keeps cold for 16 hours when full")
    expect(tip).to_contain_text("liquid-nitrogen.pdf, page 3")
    tip.hover()
    expect(tip).to_be_visible()
    page.keyboard.press("Escape")
    expect(tip).to_have_count(0)
    page.get_by_role("textbox", name="Question").focus()
    turn.get_by_role("button", name="Source 1:").focus()
    page.keyboard.press("Shift+Tab")
    expect(chip).to_be_focused()
    expect(tip).to_contain_text("keeps cold for 16 hours when full")
    assert violations(page) == []


def test_a_quoted_row_is_shown_as_a_table(open_page: Opener) -> None:
    turn = ask_and_wait(open_page(), "On which shelf are the fuses for the heater of the rain sensor?")
    table = turn.get_by_role("group", name="Table")
    expect(table.get_by_role("columnheader", name="Shelf")).to_be_visible()
    expect(table.get_by_role("cell", name="A-03")).to_be_visible()
    expect(table.get_by_role("button", name="Citation 1:")).to_be_visible()


def test_targets_are_large_enough_for_a_finger(open_page: Opener) -> None:
    page = open_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    turn = ask_and_wait(page, DEWAR)
    for button in turn.get_by_role("button").all():
        box = button.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 24
