"""The page says what kind of answer it shows: refused, empty, cut off, without citations."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from playwright.sync_api import Page, expect

from ragkit.agent.messages import Message
from ragkit.agent.providers.base import Completion
from tests.server.browser.actions import ask_and_wait
from tests.server.browser.serving import Serving
from tests.server.browser.stage import TOKENS, Play, search


def ended(text: str, reason: str) -> Completion:
    """An answer that ends for this reason."""
    return Completion(Message.assistant(text), TOKENS, reason)


PLAYS: Mapping[str, Play] = {
    "refuse": [search("dewar"), ended("I cannot help with that.", "refusal")],
    "nothing": [search("dewar"), ended("", "stop")],
    "cut": [search("dewar"), ended("The dewar [1] is", "length")],
    "cite nothing": [search("dewar"), ["The king of Norway owns eleven of them."]],
    "abstain": [search("dewar"), ["[not in", " documents] Dazu steht", " nichts in den Dokumenten."]],
}


@pytest.mark.parametrize(
    ("question", "status", "notice", "has_evidence"),
    [
        ("refuse", "The model refused", "The model refused to answer.", False),
        ("nothing", "", "The model sent an empty answer: ask again, or use another model.", False),
        ("cut", "", "The answer is cut off: the model reached its limit of tokens.", True),
        ("cite nothing", "", "The answer cites no passage: nothing shows that it is from the documents.", True),
        ("abstain", "Not in these documents", "", True),
    ],
)
def test_the_page_says_what_kind_of_answer_it_shows(
    page: Page, serving: Serving, question: str, status: str, notice: str, has_evidence: bool
) -> None:
    serving.staged({question: PLAYS[question]})
    turn = ask_and_wait(page, question)
    expect(turn.locator(".abstained")).to_have_text([status] if status else [])
    expect(turn.locator(".note.warn")).to_have_text([notice] if notice else [])
    expect(turn.get_by_role("meter", name="Evidence")).to_have_count(int(has_evidence))
    expect(turn.locator(".text")).not_to_contain_text("[not in")
    page.reload()
    expect(turn.locator(".note.warn")).to_have_text([notice] if notice else [])
