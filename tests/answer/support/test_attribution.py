"""Citations that ragkit adds and corrects."""

from __future__ import annotations

import pytest

from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.answer.agent import RAGAgent
from ragkit.answer.base import Answer, Support
from ragkit.answer.outcome import Outcome
from ragkit.answer.prompt import INSTRUCTIONS
from tests.answer.passages import Shelf

TEXTS = {
    "/garden.txt": "The hedge is cut in August. Run `hedge --cut now` to begin.",
    "/keys.txt": "The key of the cellar hangs on hook fifteen.",
}
QUESTION = "When is the hedge cut, and where is the key of the cellar?"


def ask(text: str) -> Answer:
    return RAGAgent(Shelf(TEXTS), ScriptedProvider([text])).ask(QUESTION)


def number(source: str) -> int:
    """The number of a passage."""
    answer = ask("Both [1] [2].")
    return next(citation.n for citation in answer.citations if citation.source == source)


GARDEN, KEYS = number("/garden.txt"), number("/keys.txt")


def by(answer: Answer) -> list[tuple[int, str]]:
    return [(citation.n, citation.by) for citation in answer.citations]


def test_a_statement_without_a_number_gets_that_of_the_passage_that_supports_it() -> None:
    answer = ask("The hedge is cut in August. Dragons live in Wales.")
    assert answer.text == f"The hedge is cut in August [{GARDEN}]. Dragons live in Wales."
    assert by(answer) == [(GARDEN, "ragkit")]
    assert [s.support for s in answer.statements] == [Support.SUPPORTED, Support.NO_CITATION]
    assert (answer.outcome, answer.notices) == (Outcome.ANSWERED, ())


def test_a_number_of_the_model_stays_the_models() -> None:
    answer = ask(f"The hedge is cut in August [{GARDEN}].")
    assert (answer.text, by(answer)) == (f"The hedge is cut in August [{GARDEN}].", [(GARDEN, "model")])


def test_a_wrong_number_is_corrected_and_said() -> None:
    answer = ask(f"The hedge is cut in August [{KEYS}].")
    assert answer.text == f"The hedge is cut in August [{GARDEN}]."
    assert by(answer) == [(GARDEN, "ragkit")]
    assert answer.notices == (f"corrected where a passage did not support its statement: [{KEYS}] to [{GARDEN}]",)
    assert answer.unsupported_reasons == []


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("The **hedge** is cut in *August*.", "The **hedge** is cut in *August* [G]."),
        (
            "- The hedge is cut in August\n- The key of the cellar hangs on hook fifteen",
            "- The hedge is cut in August [G]\n- The key of the cellar hangs on hook fifteen [K]",
        ),
        ("The hedge is cut in\nAugust.", "The hedge is cut in\nAugust [G]."),
        ("Run this:\n```\nhedge --cut now\n```", "Run this:\n```\nhedge --cut now\n```\n[G]"),
        ("The hedge is cut in August. [K]", "The hedge is cut in August. [G]"),
    ],
)
def test_numbers_stand_behind_the_statement_and_nothing_else_changes(said: str, text: str) -> None:
    def fill(form: str) -> str:
        return form.replace("[G]", f"[{GARDEN}]").replace("[K]", f"[{KEYS}]")

    assert ask(fill(said)).text == fill(text)


def test_a_repeated_passage_is_an_answer_with_its_number() -> None:
    answer = ask(TEXTS["/keys.txt"])
    assert (answer.outcome, by(answer)) == (Outcome.ANSWERED, [(KEYS, "ragkit")])


def test_the_mark_of_an_abstention_at_the_end_of_an_answer_is_taken_out() -> None:
    answer = ask(f"The hedge is cut in August [{GARDEN}]. [not in documents]")
    assert (answer.text.rstrip(), answer.outcome) == (f"The hedge is cut in August [{GARDEN}].", Outcome.ANSWERED)
    assert answer.abstained is False


def test_an_answer_that_the_passages_support_is_one_despite_the_mark_before_it() -> None:
    answer = ask("[not in documents] The hedge is cut in August. The key of the cellar hangs on hook fifteen.")
    assert (answer.outcome, answer.abstained, len(answer.citations)) == (Outcome.ANSWERED, False, 2)


def test_numbers_alone_are_no_answer() -> None:
    answer = ask("[1], [2].")
    assert (answer.outcome, answer.statements) == (Outcome.EMPTY, ())
    assert answer.notices == (
        "the model sent only the numbers of passages, no answer: ask again, or use another model",
    )


@pytest.mark.parametrize("text", [INSTRUCTIONS, INSTRUCTIONS.splitlines()[1]])
def test_repeated_instructions_are_no_answer(text: str) -> None:
    answer = ask(text)
    assert answer.outcome is Outcome.EMPTY
    assert answer.notices == ("the model sent its instructions, no answer: ask again, or use another model",)


def test_what_no_passage_supports_gets_no_number() -> None:
    answer = ask("The hedge is cut in March.")
    assert (answer.text, answer.citations, answer.outcome) == ("The hedge is cut in March.", (), Outcome.UNCITED)


def test_words_of_the_question_need_not_stand_in_the_passage() -> None:
    shelf = Shelf({"/codes.txt": "Swiss franc: CHF, 756. Euro: EUR, 978."})
    said = "The ISO 4217 numeric code of the Swiss franc is 756."
    answer = RAGAgent(shelf, ScriptedProvider([said])).ask("What is the ISO 4217 numeric code of the Swiss franc?")
    assert (answer.text, by(answer)) == ("The ISO 4217 numeric code of the Swiss franc is 756 [1].", [(1, "ragkit")])
    wrong = RAGAgent(shelf, ScriptedProvider([said.replace("756", "757")])).ask("Which code has the Swiss franc?")
    assert wrong.citations == ()


def test_words_of_the_question_alone_are_no_support() -> None:
    shelf = Shelf({"/mosh.txt": "Mosh reads its key from the environment. To set it, start the server."})
    said = "To set up two-factor authentication for Mosh, set its key in the environment."
    answer = RAGAgent(shelf, ScriptedProvider([said])).ask("How do I set up two-factor authentication for Mosh?")
    assert answer.citations == ()


def test_metadata_that_was_shown_supports_a_statement() -> None:
    shelf = Shelf({"/about.md": "This is the theme of the about page."}, metadata={"permalink": "/about/"})
    said = "The permalink of the about page is `/about/`."
    provider = ScriptedProvider([said])
    answer = RAGAgent(shelf, provider).ask("Which permalink has the about page of the theme?")
    assert "(about.md, line 1, permalink /about/)" in provider.requests[0].messages[-1].content
    assert answer.text == "The permalink of the about page is `/about/` [1]."
    other = RAGAgent(shelf, ScriptedProvider([said])).ask("What is the theme of the about page?")
    assert other.citations == ()


@pytest.mark.parametrize("month", ["March", "June"])
def test_a_month_at_the_end_of_a_sentence_is_found(month: str) -> None:
    shelf = Shelf({"/roses.txt": f"The roses are cut in {month}, when it is dry."})
    (statement,) = RAGAgent(shelf, ScriptedProvider([f"In {month} [1]."])).ask("When are the roses cut?").statements
    assert statement.support is Support.SUPPORTED
