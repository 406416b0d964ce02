"""Ratings, edited and repeated questions, and the search of sessions."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from ragkit.evaluate.feedback import feedback_questions
from tests.server.browser.actions import ask_and_wait, session_of
from tests.server.browser.serving import Serving
from tests.server.browser.test_keyboard import tab_to

DEWAR = "How long does a full dewar stay cold?"
SALARY = "What is the salary of the Director?"


def test_a_new_question_is_at_the_top_so_that_its_answer_is_seen(page: Page) -> None:
    ask_and_wait(page, DEWAR)
    turn = ask_and_wait(page, SALARY)
    assert turn.bounding_box()["y"] < 120  # type: ignore[index] # it is shown
    expect(turn.locator(".figures")).to_be_in_viewport()


def test_an_answer_is_rated_with_a_reason_by_keyboard(page: Page, serving: Serving) -> None:
    turn = ask_and_wait(page, DEWAR)
    turn.get_by_role("button", name="Good answer").click()
    expect(turn.get_by_role("button", name="Good answer")).to_have_attribute("aria-pressed", "true")
    assert serving.message(session_of(page))["feedback"]["rating"] == "up"
    tab_to(page, turn.get_by_role("button", name="Bad answer"))
    page.keyboard.press("Enter")
    reason = turn.get_by_role("combobox", name="What is bad about the answer?")
    expect(reason).to_be_focused()
    reason.select_option("It is incomplete")
    turn.get_by_role("textbox", name="In words").fill("<b>for how many litres?</b>")
    page.keyboard.press("Enter")
    bad = turn.get_by_role("button", name="Bad answer")
    expect(bad).to_have_attribute("aria-pressed", "true")
    expect(bad).to_be_focused()
    stored = serving.message(session_of(page))["feedback"]
    assert stored == {"rating": "down", "reason": "incomplete", "note": "<b>for how many litres?</b>"}
    page.reload()
    expect(page.get_by_role("button", name="Bad answer")).to_have_attribute("aria-pressed", "true")
    [question] = feedback_questions(Path(serving.kb.path))
    assert (question.text, question.kind) == (DEWAR, "thumbs down: incomplete")


def test_a_question_is_edited_and_asked_again(page: Page, serving: Serving) -> None:
    first = ask_and_wait(page, SALARY)
    ask_and_wait(page, "What must be done when filling the dewar?")
    first.get_by_role("button", name="Edit the question").click()
    field = page.get_by_role("textbox", name="Edited question")
    expect(field).to_have_value(SALARY)
    page.keyboard.press("Escape")
    expect(first.get_by_role("button", name="Edit the question")).to_be_focused()
    page.keyboard.press("Enter")
    field.fill(DEWAR)
    page.keyboard.press("Enter")
    turns = page.locator(".turn")
    expect(turns).to_have_count(1)
    expect(turns).to_have_attribute("aria-busy", "false")
    expect(turns.locator(".question")).to_have_text(DEWAR)
    turns.get_by_role("button", name="Regenerate").click()
    expect(turns).to_have_count(1)
    expect(turns).to_have_attribute("aria-busy", "false")
    expect(turns.get_by_role("button", name="Citation 1:")).to_be_visible()
    history = serving.ask("GET", f"session/{session_of(page)}")["history"]
    assert [message["content"] for message in history if message["role"] == "user"] == [DEWAR]


def test_sessions_are_searched(page: Page) -> None:
    ask_and_wait(page, "Which shelf holds the fuses of the rain sensor?")
    field = page.get_by_role("searchbox", name="Find a session")
    field.fill("RAIN sensor")
    expect(page.locator("#sessions .title")).to_have_text(["Which shelf holds the fuses of the rain sensor?"])
    field.fill("nobody has asked this")
    expect(page.locator("#sessions")).to_have_text("No session has this text.")
    field.fill("")
    expect(page.locator("#sessions .title")).not_to_have_count(0)
