"""Color schemes, screen sizes, reduced motion and printing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.server.browser.actions import ask_and_wait, show_text
from tests.server.browser.conftest import Opener
from tests.server.browser.serving import Serving
from tests.server.browser.stage import search

DEWAR = "How long does a full dewar stay cold?"
SALARY = "What is the salary of the Director?"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}

_TEXTS = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, a] = rgba(getComputedStyle(at).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim().slice(0, 40);
    const shown = element.checkVisibility({ visibilityProperty: true });
    if (!text || !shown || element.closest("button:disabled, noscript")) continue;
    const [r, g, b] = rgba(getComputedStyle(element).color);
    found.push({ text, where: element.className || element.localName, color: [r, g, b], behind: behind(element) });
  }
  return found;
}"""


@pytest.fixture(autouse=True)
def _restore_extractive_answers(serving: Serving) -> Iterator[None]:
    yield
    serving.staged({})


def luminance(color: list[int]) -> float:
    """Relative luminance, in [0, 1]. Source: WCAG 2.2."""
    parts = [item / 255 for item in color]
    linear = [item / 12.92 if item <= 0.04045 else ((item + 0.055) / 1.055) ** 2.4 for item in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: list[int], second: list[int]) -> float:
    """Contrast ratio, from 1 to 21. Source: WCAG 2.2."""
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def low_contrast_texts(page: Page) -> list[Any]:
    """The texts of a page with low contrast, and the number of checked texts."""
    texts = page.evaluate(_TEXTS)
    assert len(texts) >= 12
    return [item for item in texts if contrast(item["color"], item["behind"]) < 4.5]


def background(page: Page, selector: str = "main") -> list[int]:
    """The computed background color of an element."""
    color = page.locator(selector).evaluate("element => getComputedStyle(element).backgroundColor")
    return [int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(",")]


def test_contrast_is_computed_by_the_wcag_formula() -> None:
    assert contrast([0, 0, 0], [255, 255, 255]) == pytest.approx(21)
    assert contrast([118, 118, 118], [255, 255, 255]) == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(open_page: Opener, serving: Serving, scheme: str) -> None:
    result = ["# T\n\n> quote [1] and `code` ![x](https://example.org/)\n\n| a | b |\n|---|---|\n| 1 | 2 |"]
    serving.staged({DEWAR: [search("dewar cold hours"), result], SALARY: [["Not in these documents."]]})
    page = open_page(color_scheme=scheme)
    expect(page.locator(".welcome .keys")).to_be_visible()
    assert low_contrast_texts(page) == []
    turn = ask_and_wait(page, DEWAR)
    serving.staged({})
    ask_and_wait(page, SALARY)
    turn.get_by_role("button", name="Citation 1:").click()
    show_text(page)
    expect(page.locator(".line mark")).not_to_have_count(0)
    expect(page.locator(".panel")).to_have_css("opacity", "1")
    assert low_contrast_texts(page) == []
    turn.get_by_role("button", name="Trace").click()
    page.locator("summary.row:visible").last.click()
    assert low_contrast_texts(page) == []
    for address, ready in (("search?q=dewar", ".hit"), ("status", ".documents tbody tr")):
        page.goto(f"{page.url.partition('#')[0]}#/{address}")
        expect(page.locator(ready)).not_to_have_count(0)
        assert low_contrast_texts(page) == []


def test_the_color_scheme_follows_the_system(open_page: Opener) -> None:
    light, dark = open_page(color_scheme="light"), open_page(color_scheme="dark")
    assert luminance(background(light)) > 0.9
    assert luminance(background(dark)) < 0.02
    assert background(dark, "body") != background(dark)


def test_the_theme_switch_overrides_the_system_and_is_stored(open_page: Opener) -> None:
    page = open_page(color_scheme="light")
    switch = page.locator("#theme")
    expect(switch).to_have_text("Theme: system")
    switch.click()
    expect(switch).to_have_text("Theme: light")
    switch.click()
    expect(switch).to_have_text("Theme: dark")
    assert luminance(background(page)) < 0.02
    page.reload()
    expect(switch).to_have_text("Theme: dark")
    assert luminance(background(page)) < 0.02
    switch.click()
    expect(switch).to_have_text("Theme: system")
    assert luminance(background(page)) > 0.9


def test_nothing_is_wider_than_a_phone(open_page: Opener) -> None:
    page = open_page(**PHONE)
    width = "document.documentElement.scrollWidth"
    assert page.evaluate(width) == 390
    turn = ask_and_wait(page, "On which shelf are the fuses for the heater of the rain sensor?")
    assert page.evaluate(width) == 390
    turn.get_by_role("button", name="Trace").click()
    expect(page.locator(".timeline")).to_be_visible()
    assert page.evaluate(width) == 390
    assert page.locator(".panel-body").evaluate("body => body.scrollWidth <= body.clientWidth")
    page.get_by_role("button", name="Close", exact=True).click()
    for address, ready in (("search?q=dewar", ".hit"), ("status", ".documents tbody tr")):
        page.goto(f"{page.url.partition('#')[0]}#/{address}")
        expect(page.locator(ready)).not_to_have_count(0)
        assert page.evaluate(width) == 390


def test_on_a_phone_the_panel_is_a_sheet_over_everything_else(open_page: Opener) -> None:
    page = open_page(**PHONE)
    chip = ask_and_wait(page, DEWAR).get_by_role("button", name="Citation 1:")
    chip.tap()
    sheet = page.get_by_role("dialog", name="liquid-nitrogen.pdf")
    expect(sheet).to_be_in_viewport(ratio=1)
    expect(page.locator(".mark-box").first).to_be_in_viewport()
    expect(page.get_by_role("button", name="Close", exact=True)).to_be_in_viewport(ratio=1)
    expect(page.locator("[inert] #question")).to_have_count(1)
    page.get_by_role("button", name="Close", exact=True).tap()
    expect(sheet).to_be_hidden()
    expect(chip).to_be_focused()


def test_on_a_phone_the_sidebar_is_in_the_menu(open_page: Opener) -> None:
    page = open_page(**PHONE)
    search_link = page.get_by_role("link", name="Search")
    expect(search_link).to_be_hidden()
    page.get_by_role("button", name="Menu").tap()
    expect(page.get_by_role("button", name="Close menu")).to_have_attribute("aria-expanded", "true")
    search_link.tap()
    expect(page.get_by_role("heading", level=1)).to_have_text("Search")
    expect(search_link).to_be_hidden()


def test_reduced_motion_disables_animations(open_page: Opener, serving: Serving) -> None:
    for motion, still in (("reduce", True), ("no-preference", False)):
        page = open_page(reduced_motion=motion)
        page.add_init_script("window.moved = 0; addEventListener('animationstart', () => { window.moved += 1; })")
        page.reload()
        ask_and_wait(page, DEWAR).get_by_role("button", name="Citation 1:").click()
        expect(page.locator(".mark-box").first).to_be_in_viewport()
        assert (page.evaluate("window.moved") == 0) is still


def test_printing_shows_only_the_conversation(page: Page) -> None:
    turn = ask_and_wait(page, DEWAR)
    page.emulate_media(media="print")
    expect(turn.get_by_role("group", name="Sources")).to_be_visible()
    for selector in (".side", ".composer", ".figures .tools"):
        expect(page.locator(selector)).to_be_hidden()
    assert luminance(background(page)) > 0.9
