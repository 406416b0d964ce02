"""The statements of an answer, held against the passages that they cite."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ragkit.agent.messages import ToolCall
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.answer.agent import RAGAgent
from ragkit.answer.base import Answer, Statement, Support
from ragkit.answer.passages import TOOL_NAME
from ragkit.answer.support.support import check_statements
from ragkit.records import Document, Hit
from tests.answer.passages import Shelf, chunk

FLASK = (
    "The flask keeps tea hot for 12 hours and water cold for 24 hours. It is made of steel. It was first sold by "
    "Nora Lind on 3 May 2019 and costs €1,050 for a set of ten. The lid must not be put into the dishwasher. "
    "The cap is blue, the ring is red. Ben Okafor repairs the pumps in the workshop. Ana Ruiz paints the signs of "
    'the harbour. The manual says: "Rinse the flask with warm water before first use."'
)
BOTTLE = "The bottle holds 2 litres. Its lid is green, and it may be put into the dishwasher."
SHELF = Shelf({"/flask.md": FLASK, "/bottle.md": BOTTLE})
SAMPLE = Path(__file__).parents[3] / "data" / "sample"
MADE = Path(__file__).parents[3] / "benchmarks" / "answer_support.jsonl"


def check(text: str, shelf: Shelf = SHELF) -> tuple[Statement, ...]:
    shown = {n: Hit(chunk(document), 1.0) for n, document in enumerate(shelf._documents.values(), start=1)}
    return check_statements(text, shown, shelf)


def verdict(text: str) -> Support:
    [statement] = check(text)
    return statement.support


@pytest.mark.parametrize(
    "text",
    [
        "Tea stays hot for twelve hours in the flask [1].",
        "The flask keeps water cold for 24 h [1].",
        "Nora Lind sold the flask first on May 3, 2019 [1].",
        "The flask was first sold on 2019-05-03 [1].",
        "A set of ten costs 1050 euros [1].",
        "You must not put the lid into the dishwasher [1].",
        'The manual says to "rinse the flask with  warm water" before the first use [1].',
        "- The ring is red [1]",
        "Without the insulated lid, tea stays hot for 12 hours [1].",
        "The flask is made of steel [1], and the bottle holds 2 litres [2].",
    ],
)
def test_a_right_statement_in_other_words_is_supported(text: str) -> None:
    assert verdict(text) is Support.SUPPORTED


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("The flask keeps cold for 99 days and is made of cheese [1].", "99 days is not in the passage"),
        ("The flask keeps tea hot for 13 hours [1].", "13 hours is not in the passage"),
        ("The flask keeps tea hot for 12 days [1].", "12 days is not in the passage"),
        ("A set of ten costs $1,050 [1].", "$1,050 is not in the passage"),
        ("The flask was first sold on 4 May 2019 [1].", "4 May 2019 is not in the passage"),
        ("The flask was first sold by Carla Brandt [1].", "Carla is not in the passage; Brandt is not in the passage"),
        ("The flask was first sold by Nora Ruiz [1].", "Nora Ruiz is not in the passage"),
        ("The lid must be put into the dishwasher [1].", "the passage says the opposite"),
        ("The flask is not made of steel [1].", "the passage says the opposite"),
        (
            "Water stays cold for 12 hours, tea stays hot for 24 hours [1].",
            "the passage does not give 12 hours for this",
        ),
        ("Ana Ruiz repairs the pumps in the workshop [1].", "the passage does not say this of Ana"),
        ('The manual says: "never use warm water" [1].', 'the quotation "never use warm water" is not in the passage'),
        ("Penguins breed on frozen islands every winter [1].", "the passage does not say this"),
    ],
)
def test_a_wrong_statement_is_not_found_and_the_reason_is_told(text: str, reason: str) -> None:
    [statement] = check(text)
    assert statement.support is Support.NOT_FOUND
    assert reason in statement.reason


def test_a_statement_that_stands_in_another_passage_is_told_where() -> None:
    [statement] = check("The bottle holds 2 litres [1].")
    assert (statement.support, statement.found_in, statement.found_at) == (Support.NOT_FOUND, 2, "/bottle.md")


def test_a_statement_without_a_citation_or_with_one_never_shown_has_none() -> None:
    statements = check("The flask is made of steel. The bottle holds 2 litres [9].\n\nThe ring of the flask is red.")
    assert [(s.support, s.reason) for s in statements] == [
        (Support.NO_CITATION, "the cited passage was not shown"),
        (Support.NO_CITATION, "the cited passage was not shown"),
        (Support.NO_CITATION, "no passage is cited"),
    ]


def test_text_around_the_passage_that_the_model_was_not_shown_supports_nothing() -> None:
    whole = chunk(Document(FLASK, source="/flask.md"))
    part = Hit(replace(whole, text=FLASK[:66], end=66), 1.0)
    [statement] = check_statements("A set of ten costs 1050 euros [1].", {1: part}, SHELF)
    assert statement.support is Support.NOT_FOUND


def ask(text: str) -> Answer:
    script: list[ToolCall | str] = [ToolCall(TOOL_NAME, {"query": "flask tea steel"}), text]
    return RAGAgent(SHELF, ScriptedProvider(script)).ask("What about the flask?")


def test_an_answer_tells_the_share_of_its_statements_that_are_supported() -> None:
    answer = ask("The flask is made of steel [1]. It keeps cold for 99 days and is made of cheese [1].")
    assert [s.support for s in answer.statements] == [Support.SUPPORTED, Support.NOT_FOUND]
    assert answer.supported == 0.5
    assert [(c.n, c.verified, c.support) for c in answer.citations] == [(1, True, "not supported")]
    data = answer.to_json()
    assert data["supported"] == 0.5
    assert data["statements"][1]["reason"] == "99 days is not in the passage"  # type: ignore[index, call-overload]


def test_the_badge_of_a_citation_says_what_was_checked() -> None:
    answer = ask('The flask keeps tea hot for 12 hours [1]. "Rinse the flask with warm water" [1].')
    assert answer.citations[0].support == "numbers match, wording matches, quote found"


def test_a_quoted_answer_is_supported_by_its_quotes() -> None:
    answer = RAGAgent(SHELF).ask("How many litres does the bottle hold?")
    assert answer.supported == 1.0
    assert {citation.support for citation in answer.citations} == {"quote found"}


def test_an_answer_that_claims_nothing_has_no_share() -> None:
    assert ask("Here is what I found: nothing. Do you want more?").supported is None


def sample_cases() -> list[tuple[str, str, str, Mapping[str, str]]]:
    """The hand-written answers over the sample's text files: source, place, right answer, wrong ones."""
    entries = [json.loads(line) for line in MADE.read_text().splitlines()]
    return [
        (entry["source"], entry["near"], entry["right"], entry["wrong"])
        for entry in entries
        if "source" in entry and "second" not in entry
    ]


def test_hand_written_answers_over_the_sample_are_told_apart() -> None:
    right: list[bool] = []
    wrong: dict[str, list[bool]] = {}
    for source, near, good, bad in sample_cases():
        text = (SAMPLE / source).read_text()
        at = text.index(near)
        start, end = text.rfind("\n\n", 0, max(0, at - 300)) + 2 if at > 300 else 0, text.find("\n\n", at + 300)
        shelf = Shelf({source: text[start : end if end > 0 else len(text)], "/bottle.md": BOTTLE})
        right += [s.support is Support.NOT_FOUND for answer in good for s in check(answer, shelf)]
        for kind, answer in bad.items():
            flagged = any(s.support is Support.NOT_FOUND for s in check(answer, shelf))
            wrong.setdefault(kind, []).append(flagged)
    shares = {kind: sum(flags) / len(flags) for kind, flags in wrong.items()}
    assert sum(right) / len(right) <= 0.1
    assert all(shares[kind] >= 0.9 for kind in ("number", "date", "name", "quotation"))
    assert shares["unit"] >= 0.8 and shares["negated"] >= 0.7
