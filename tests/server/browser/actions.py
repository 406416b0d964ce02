"""User actions on the page."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page, expect


def ask(page: Page, question: str) -> Locator:
    """Send a question; return its turn, which may still be streaming."""
    turns = page.locator(".turn")
    count = turns.count()
    page.get_by_role("textbox", name="Question").fill(question)
    page.get_by_role("button", name="Ask").click()
    expect(turns).to_have_count(count + 1)
    return turns.nth(count)


def ask_and_wait(page: Page, question: str) -> Locator:
    """Send a question and wait for the end of the answer."""
    turn = ask(page, question)
    expect(turn).to_have_attribute("aria-busy", "false")
    return turn


def session_of(page: Page) -> str:
    """The id of the session that is open."""
    return page.url.partition("#/s/")[2]


def show_text(page: Page) -> None:
    """Show the lines of the document in the panel, not the document as its readers know it."""
    expect(page.locator(".views-bar")).to_be_visible()
    choice = page.locator(".views-bar").get_by_role("button", name="Text")
    if choice.count():
        choice.click()


def cited_lines(page: Page) -> dict[int, str]:
    """The highlighted lines of the document in the panel: number -> text."""
    rows: list[Any] = page.locator(".line.cited").evaluate_all(
        "rows => rows.map((row) => [Number(row.dataset.line), row.querySelector('.t').textContent])"
    )
    return {int(number): str(text) for number, text in rows}


def click_in_menu(page: Page, name: str) -> Locator:
    """Open the menu of the session and click a button."""
    page.locator("#session-menu").click()
    return page.get_by_role("group", name="This session").get_by_role("button", name=name)
