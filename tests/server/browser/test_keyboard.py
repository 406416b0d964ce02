"""Keyboard operation and screen reader announcements."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.server.browser.actions import ask_and_wait
from tests.server.browser.conftest import Opener

DEWAR = "How long does a full dewar stay cold?"
FILLING = "What must be done when filling the dewar?"
"""Its answer has several citations."""


def tab_to(page: Page, target: Locator, key: str = "Tab", limit: int = 40) -> None:
    """Press a key until an element has the focus; each focused element must be visible."""
    for _ in range(limit):
        page.keyboard.press(key)
        stop: dict[str, Any] = page.evaluate(
            """() => {
              const at = document.activeElement, look = getComputedStyle(at);
              const { width, height } = at.getBoundingClientRect();
              const outline = look.outlineStyle === "none" ? 0 : parseFloat(look.outlineWidth);
              return { tag: at.localName, outline, size: width * height };
            }"""
        )
        if stop["tag"] != "body":
            assert stop["outline"] >= 2, stop
            assert stop["size"] > 0, stop
        if target.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"{key} never reaches {target}")


def test_a_whole_conversation_needs_no_mouse(open_page: Opener) -> None:
    page = open_page("#/status")
    expect(page.locator(".documents tbody tr")).not_to_have_count(0)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    tab_to(page, page.get_by_role("link", name="New session"), "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Question")).to_be_focused()
    page.keyboard.type("What must be done")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("when filling the dewar?")
    page.keyboard.press("Enter")
    turn = page.locator(".turn")
    expect(turn).to_have_attribute("aria-busy", "false")
    chip = turn.get_by_role("button", name="Citation 1:")
    tab_to(page, chip, "Shift+Tab")
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("heading", level=2)).to_be_focused()
    expect(page.locator(".mark-box").first).to_be_in_viewport()
    following = panel.get_by_role("button", name="Next", exact=True)
    tab_to(page, following)
    page.keyboard.press("Enter")
    expect(panel).to_contain_text("2 of ")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(chip).to_be_focused()


def test_the_menu_of_a_session_needs_no_mouse(page: Page) -> None:
    ask_and_wait(page, DEWAR)
    tab_to(page, page.locator("#session-menu"), "Shift+Tab")
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("button", name="Rename"))
    page.keyboard.press("Enter")
    page.keyboard.type("By keyboard")
    page.keyboard.press("Escape")
    expect(page.get_by_role("heading", level=1)).to_have_text(DEWAR)
    expect(page.locator("#session-menu")).to_be_focused()
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("button", name="Rename"))
    page.keyboard.press("Enter")
    page.keyboard.type("By keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("By keyboard")
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("button", name="End", exact=True))
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="End this session?")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("textbox", name="Question")).to_be_enabled()


def test_a_slash_focuses_the_question(page: Page) -> None:
    ask_and_wait(page, DEWAR).get_by_role("button", name="Citation 1:").click()
    page.keyboard.press("/")
    expect(page.get_by_role("complementary")).to_be_hidden()
    expect(page.get_by_role("textbox", name="Question")).to_be_focused()
    expect(page.get_by_role("textbox", name="Question")).to_have_value("")


def test_events_are_announced_to_screen_readers(page: Page) -> None:
    announced = page.get_by_role("status")
    turn = ask_and_wait(page, FILLING)
    count = turn.get_by_role("group", name="Sources").get_by_role("button").count()
    expect(announced).to_have_text(f"The answer is complete. {count} citations.")
    expect(page.get_by_role("log", name="Conversation").locator("[aria-busy=false]")).to_have_count(1)
    turn.get_by_role("button", name="Citation 1:").click()
    expect(announced).to_contain_text("is open beside the answer. Escape closes it.")


def test_the_page_has_landmarks_and_one_first_heading_in_every_view(open_page: Opener) -> None:
    page = open_page()
    for address, heading in (("", "Ask 6 documents"), ("search", "Search"), ("status", "Knowledge base")):
        page.goto(f"{page.url.partition('#')[0]}#/{address}")
        expect(page.get_by_role("heading", level=1)).to_have_text([heading])
        expect(page.get_by_role("main")).to_have_count(1)
        expect(page.get_by_role("navigation", name="Sessions and views")).to_have_count(1)


def test_every_control_has_an_accessible_name(page: Page, open_page: Opener) -> None:
    ask_and_wait(page, DEWAR).get_by_role("button", name="Trace").click()
    expect(page.locator(".timeline")).to_be_visible()
    for item in (page, open_page("#/search?q=dewar"), open_page("#/status")):
        expect(item.locator(".waiting:visible")).to_have_count(0)
        tree = item.context.new_cdp_session(item).send("Accessibility.getFullAXTree")["nodes"]
        operable = {"button", "link", "textbox", "searchbox", "combobox", "spinbutton", "DisclosureTriangle", "meter"}
        results = [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in tree
            if not node["ignored"] and node["role"]["value"] in operable
        ]
        assert len(results) > 8
        assert [role for role, name in results if not name.strip()] == []
