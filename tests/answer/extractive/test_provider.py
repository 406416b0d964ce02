"""Answers without a model: parts of questions, follow-ups, abstention and citations."""

from __future__ import annotations

import pytest

from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import ModelRequest
from ragkit.answer.agent import RAGAgent
from ragkit.answer.base import Answer
from ragkit.answer.extractive.answer import FoundPassages, compose_quotes
from ragkit.answer.extractive.provider import ExtractiveProvider
from ragkit.answer.outcome import CLOSEST_PASSAGES, NOT_IN_DOCUMENTS, Outcome
from ragkit.answer.passages import TOOL_NAME
from tests.answer.passages import Shelf

TEXTS = {
    "/house/boiler.md": "The boiler takes eleven minutes to reach its pressure of 3.2 bar. Aldous cleans its filter.",
    "/house/garden.txt": "The hedge of the garden is cut in August. The roses are cut back in March, after the frost.",
    "/house/keys.txt": "The key of the cellar hangs on hook fifteen. The key of the attic hangs on hook two.",
}


def agent(*, memory: bool = False) -> RAGAgent:
    return RAGAgent(Shelf(TEXTS), memory=ConversationMemory() if memory else None)


def queries(answer: Answer) -> list[str]:
    """What was searched for."""
    return [str(call["arguments"]["query"]) for call in answer.trace.tool_calls]  # type: ignore[index,call-overload]


def assert_cited(answer: Answer) -> None:
    """Each citation is numbered in order, verified, and stands before its number."""
    assert [citation.n for citation in answer.citations] == list(range(1, len(answer.citations) + 1))
    for citation in answer.citations:
        assert citation.verified
        assert TEXTS[citation.source][citation.start : citation.end] == citation.quote
        assert f"{citation.quote} [{citation.n}]" in answer.text


def test_a_question_of_two_parts_is_searched_and_answered_part_by_part() -> None:
    answer = agent().ask("When is the hedge of the garden cut, and who cleans the filter of the boiler?")
    assert len(queries(answer)) == 2
    assert answer.abstained is False
    assert ["August" in answer.text, "Aldous" in answer.text] == [True, True]
    assert {citation.source for citation in answer.citations} >= {"/house/garden.txt", "/house/boiler.md"}
    assert answer.searched_for == ""
    assert_cited(answer)


def test_of_two_parts_the_one_without_an_answer_is_named() -> None:
    answer = agent().ask("When is the hedge of the garden cut, and which composer wrote nine symphonies?")
    first, *_, last = answer.text.splitlines()
    assert "August" in first
    assert last == f"{NOT_IN_DOCUMENTS[:-1]}: {queries(answer)[1]}"
    assert answer.abstained is False
    assert_cited(answer)


def test_an_abstention_names_the_nearest_passages() -> None:
    [far, near] = [
        compose_quotes([FoundPassages(question, Shelf(TEXTS).search(question))], question, Shelf(TEXTS), threshold=1.0)
        for question in (
            "Which famous composer wrote nine long symphonies about elephants on Mars, in what year, and why garden?",
            "Where does the key of the garage hang?",
        )
    ]
    for (text, quoted), words, outcome in (
        (far, f"{NOT_IN_DOCUMENTS} The nearest passages:", Outcome.NOT_IN_DOCUMENTS),
        (near, CLOSEST_PASSAGES, Outcome.PASSAGES),
    ):
        assert text == " ".join([words, *(f"[{quote.n}]" for quote in quoted.quotes)])
        assert (quoted.abstained, quoted.outcome) == (True, outcome)


def test_a_follow_up_is_searched_with_the_question_before_and_says_so() -> None:
    chat = agent(memory=True)
    assert chat.ask("Where does the key of the cellar hang?").searched_for == ""
    answer = chat.ask("And who made it?")
    assert answer.searched_for == "And who made it (key cellar hang)?"
    assert queries(answer) == [answer.searched_for]


def test_small_talk_searches_nothing_and_is_no_part_of_the_topic() -> None:
    chat = agent(memory=True)
    chat.ask("Where does the key of the cellar hang?")
    thanks = chat.ask("Thanks!")
    assert (thanks.text, thanks.abstained, thanks.citations, thanks.searched_for) == ("You are welcome.", False, (), "")
    assert queries(thanks) == []
    assert chat.ask("And who made it?").searched_for == "And who made it (key cellar hang)?"


def test_small_talk_costs_nothing_and_needs_no_documents() -> None:
    answer = RAGAgent(Shelf({})).ask("Wer bist du?")
    assert answer.text.startswith("Ich bin ragkit.")
    assert answer.usage.total_cost_usd == 0


@pytest.mark.parametrize("question", ["When is the hedge cut?", "  When is the\n hedge cut? "])
def test_white_space_is_no_rewriting(question: str) -> None:
    assert agent().ask(question).searched_for == ""


def test_a_failed_search_is_the_answer() -> None:
    call = Message.assistant("", [ToolCall(TOOL_NAME, {"query": "When?"}, "1")])
    failed = Message(Role.TOOL, "Error: the search timed out", tool_call_id="1", name=TOOL_NAME)
    done = ExtractiveProvider(Shelf(TEXTS)).complete(ModelRequest("", (Message.user("When?"), call, failed)))
    assert done.message.content == "Error: the search timed out"
