"""The outcome of an answer, from its facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragkit.answer.outcome import (
    NOT_FOUND_MARK,
    AnswerFacts,
    Outcome,
    build_notices,
    find_no_answer,
    find_outcome,
    says_not_found,
)

FACTS = AnswerFacts("In August [1].", "stop", "When is the hedge of 2024 cut?", searched=True, cited=True)


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, Outcome.ANSWERED),
        ({"stop_reason": "end_turn"}, Outcome.ANSWERED),
        ({"searched": False}, Outcome.ANSWERED),  # it cites what an earlier turn showed
        ({"searched": False, "cited": False}, Outcome.NOT_SEARCHED),
        ({"cited": False}, Outcome.UNCITED),
        ({"stop_reason": "refusal"}, Outcome.REFUSED),
        ({"stop_reason": "content_filter", "text": ""}, Outcome.FILTERED),
        ({"stop_reason": "length"}, Outcome.CUT),
        ({"stop_reason": "malformed_function_call"}, Outcome.CUT),
        ({"stop_reason": "length", "text": " \n"}, Outcome.EMPTY),
        ({"text": ""}, Outcome.EMPTY),
        ({"text": "", "used_up": True}, Outcome.ITERATIONS_USED_UP),
    ],
)
def test_the_outcome_follows_from_the_facts(changes: dict[str, object], outcome: Outcome) -> None:
    assert find_outcome(replace(FACTS, **changes)) is outcome  # type: ignore[arg-type] # of any field


@pytest.mark.parametrize(
    "text",
    [
        NOT_FOUND_MARK,
        f"{NOT_FOUND_MARK} Dazu steht nichts in den Dokumenten.",
        f"**{NOT_FOUND_MARK}**: Nothing is said about the hedge of 2024.",
        f"{NOT_FOUND_MARK} They only say when roses are cut. [1] And when the hedge grows [2].",
        "Not in these documents.",
        "not in these documents",
        f"{NOT_FOUND_MARK} Not in these documents.",
        "Not in these documents. The nearest passages: [1] [2]",
        "Not in these documents. They only say when roses are cut [1].",
        f"The treasurer of that project is {NOT_FOUND_MARK}.",
    ],
)
def test_an_abstention_says_nothing_else_without_a_citation(text: str) -> None:
    assert says_not_found(text, FACTS.question)
    assert find_outcome(replace(FACTS, text=text, cited="[1]" in text)) is Outcome.NOT_IN_DOCUMENTS


@pytest.mark.parametrize(
    "text",
    [
        "Not in these documents. However, the salary is usually $300k.",
        "Not in these documents. They say when roses are cut [1]. A hedge is cut in June.",
        f"{NOT_FOUND_MARK} However, the salary is usually $300k.",
        f"{NOT_FOUND_MARK} Nothing is said. A hedge is cut in June, as everybody knows.",
    ],
)
def test_an_abstention_that_goes_on_without_a_citation_is_none(text: str) -> None:
    facts = replace(FACTS, text=text)
    assert not says_not_found(text, FACTS.question)
    assert find_outcome(facts) is Outcome.UNCITED
    assert list(build_notices(Outcome.UNCITED, facts)) == [
        "the answer says that the documents do not hold it, and goes on without a citation: do not rely on it"
    ]


@pytest.mark.parametrize("text", ["I could not find this.", "Das steht nicht in den Dokumenten.", "Ask [not in] HR."])
def test_other_words_are_no_abstention(text: str) -> None:
    assert not says_not_found(text, FACTS.question)


def test_unknown_citations_are_counted() -> None:
    notices = list(build_notices(Outcome.ANSWERED, replace(FACTS, unknown_citations=[4, 5, 6, 7, 8, 9])))
    assert notices == [
        "6 citations of passages that were never shown to the model are taken out: [4], [5], [6], [7], [8], ..."
    ]


PASSAGES = [
    "[1] (garden.txt, lines 1-2)\nRoses are cut in March.\n...\nThe gate is closed.",
    "[2] (keys.txt, line 1)\nOn hook 15.",
]


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("\n\n".join(PASSAGES) + '\n</data n="014b950c3ea9">', "only the passages"),
        (f"{PASSAGES[1].splitlines()[0]}\nOn hook 15.", "only the passages"),
        (f"{PASSAGES[1]}\nSo it hangs there.", ""),
        ("On hook 15.", ""),
        ("[1] [2]", "only the numbers of passages"),
    ],
)
def test_what_a_model_was_sent_is_no_answer(text: str, instead: str) -> None:
    assert find_no_answer(text, "Answer from the passages.", PASSAGES) == instead
