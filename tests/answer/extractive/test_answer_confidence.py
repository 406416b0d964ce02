"""The probability that an answer without a model is right, in numbers and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from ragkit.answer.agent import RAGAgent
from ragkit.answer.base import format_confidence
from ragkit.answer.confidence import LEXICAL_WEIGHTS, LIKELY, MIN_ANSWER, MIN_PASSAGES, WEIGHTS, describe
from ragkit.answer.extractive.answer import FoundPassages, compose_quotes
from ragkit.answer.extractive.answer_confidence import answer_features, estimate_confidence
from ragkit.answer.extractive.composition import compose_answer
from ragkit.answer.extractive.quotes import ExtractiveAnswer
from ragkit.answer.extractive.selection import rank_answer_units
from ragkit.answer.outcome import Outcome
from ragkit.answer.score_calibration import ScoreCalibration, measure_calibration
from ragkit.records import Document, Hit, SearchMode, Where
from tests.answer.extractive.test_evidence import ANSWERABLE, HANDBOOK, OFF_TOPIC, Library
from tests.answer.passages import Shelf

PRICES = "# Prices\n\nPrices in euros.\n\n| Ticket | Price |\n|---|---|\n| Day | 12 |\n| Evening | 9 |\n| Year | 60 |\n"


class Narrow(Library):
    """With an embedder whose cosines are 0.16 times those of the shipped one, plus 0.84."""

    def search(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Hit]:
        hits = super().search(question, top_k, where, mode)
        return [replace(hit, scores={**hit.scores, "dense": 0.84 + 0.16 * hit.scores["dense"]}) for hit in hits]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return _narrow(super().embed(texts))

    def embed_question(self, question: str) -> NDArray[np.float32]:
        row: NDArray[np.float32] = _narrow(super().embed_question(question)[None])[0]
        return row

    def calibration(self) -> ScoreCalibration:
        return measure_calibration(self.embed)


def _narrow(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.hstack([0.4 * rows, np.full((len(rows), 1), 0.84**0.5, np.float32)])


@pytest.fixture(scope="module")
def handbook() -> Library:
    return Library(HANDBOOK)


def measure(question: str, library: Library) -> tuple[dict[str, float], float]:
    hits = library.search(question)
    ranked, units = rank_answer_units(question, hits, library)
    quoted = compose_answer(question, ranked, units)
    features = answer_features(question, hits, ranked, quoted, library)
    return features, estimate_confidence(question, hits, ranked, quoted, library)


@pytest.mark.parametrize("question", [question for question in ANSWERABLE if " " in question])
def test_a_question_that_a_passage_answers_is_answered(handbook: Library, question: str) -> None:
    assert measure(question, handbook)[1] >= MIN_ANSWER


def test_the_confidence_does_not_depend_on_how_far_the_cosines_of_an_embedder_differ(handbook: Library) -> None:
    narrow = Narrow(HANDBOOK)
    for question in (*ANSWERABLE, *OFF_TOPIC):
        assert measure(question, narrow)[1] == pytest.approx(measure(question, handbook)[1], abs=0.02)


def test_questions_about_something_else_are_hardly_ever_answered(handbook: Library) -> None:
    questions = [question for question in OFF_TOPIC if " " in question]
    confidences = {question: measure(question, handbook)[1] for question in questions}
    answered = [question for question, confidence in confidences.items() if confidence >= MIN_ANSWER]
    assert set(answered) <= {"Which yeast is best for a sourdough starter?", "What does open_socket return?"}
    assert max(confidences.values()) < LIKELY / 2


def test_the_levels_are_in_order_and_each_has_its_word() -> None:
    assert 0 < MIN_PASSAGES < MIN_ANSWER < LIKELY < 1
    assert [describe(value) for value in (LIKELY, LIKELY - 0.01)] == ["likely", "uncertain"]


def test_without_a_discriminative_embedder_the_words_decide() -> None:
    features, confidence = measure("How long does the generator run?", Library(HANDBOOK, hashing=True))
    assert set(features) == set(LEXICAL_WEIGHTS) - {"offset"}
    assert confidence >= MIN_ANSWER
    assert set(measure("How long does the generator run?", Library(HANDBOOK))[0]) == set(WEIGHTS) - {"offset"}


def test_a_price_that_no_passage_has_is_no_answer(handbook: Library) -> None:
    features, confidence = measure("What does a row cost?", Library(HANDBOOK[3:4]))
    assert features["missing_price"] == 1
    assert confidence < MIN_ANSWER
    assert measure("What does the basic plan cost?", handbook)[0]["missing_price"] == 0


@pytest.mark.parametrize(
    ("question", "least", "most"),
    [
        ("How many people does Ines Holt lead?", LIKELY, 1.0),
        ("How many people does Peter Brandt lead?", MIN_PASSAGES, MIN_ANSWER),
        ("How many people does Ines Brandt lead?", MIN_PASSAGES, MIN_ANSWER),
        ("How many people does Brandt lead?", 0.0, 0.5),
        ("How Many People Does Ines Holt Lead Today?", MIN_ANSWER, 1.0),  # nothing is a name there
    ],
)
def test_what_is_said_of_others_is_no_answer_about_a_name_that_no_document_has(
    question: str, least: float, most: float
) -> None:
    agent = RAGAgent.from_documents(
        [Document("The alarm rang 17 times. Ines Holt leads 9 people in the harbour office.")]
    )
    assert least <= agent.ask(question).evidence <= most


@pytest.mark.parametrize(
    ("known", "unknown"),
    [
        ("Wie viele Fahrzeuge hat der Hafen?", "Wie viele Kaninchen hat der Hafen?"),
        ("Wie viele Schlepper hat der Hafen?", "Wie viele Kutscher hat der Hafen?"),
        ("Wie viele Hafenschlepper gibt es?", "Wie viele Hafenkutscher gibt es?"),
    ],
)
def test_a_german_question_with_a_noun_that_no_document_has_is_less_likely_answered(known: str, unknown: str) -> None:
    agent = RAGAgent.from_documents([Document("Der Hafen hat 9 Fahrzeuge und 17 Schlepper. Die Uhr ist alt.")])
    assert agent.ask(known).evidence > 1.5 * agent.ask(unknown).evidence


@pytest.mark.parametrize(
    ("question", "text", "is_other"),
    [
        ("What does the Toll Act 1988 extend?", "The Toll Act 1998 extends the powers of the millers.", True),
        ("What does the Toll Act 1998 extend?", "The Toll Act 1998 extends the powers of the millers.", False),
        ("Who grew rich before World War 1?", "The millers grew rich before World War I.", False),
        ("Wie alt war Weber beim Mühlenfest 50?", "Weber war 39 Jahre alt, als er beim Mühlenfest malte.", False),
        ("Кто был мельником до 1990 года?", "Мельником был Иван Петров, он жил здесь до войны.", False),
    ],
)
def test_what_is_said_of_another_number_of_a_name_is_no_answer(question: str, text: str, is_other: bool) -> None:
    evidence = RAGAgent.from_documents([Document(text)]).ask(question).evidence
    assert (evidence < MIN_ANSWER) is is_other, evidence


def test_other_rows_of_the_table_do_not_compete() -> None:
    features, confidence = measure("What is the price of an evening ticket?", Library([PRICES]))
    assert features["shown"] > 0.9
    assert confidence >= LIKELY


def test_without_quotes_nothing_is_right() -> None:
    assert estimate_confidence("How long?", [], [], [], Shelf({})) == 0


@pytest.mark.parametrize(
    ("abstained", "evidence", "outcome"),
    [
        (False, MIN_PASSAGES / 2, Outcome.ANSWERED),
        (True, MIN_PASSAGES, Outcome.PASSAGES),
        (True, MIN_PASSAGES / 2, Outcome.NOT_IN_DOCUMENTS),
    ],
)
def test_an_abstention_shows_the_closest_passages_if_they_may_answer(
    abstained: bool, evidence: float, outcome: Outcome
) -> None:
    shelf, question = Shelf({"/garden.txt": "The hedge of the garden is cut in August."}), "When is the hedge cut?"
    _, quoted = compose_quotes([FoundPassages(question, shelf.search(question))], question, shelf)
    quotes = quoted.quotes
    assert ExtractiveAnswer(quotes, abstained, "hedge", evidence).outcome is outcome
    assert ExtractiveAnswer((), True, "hedge", evidence).outcome is Outcome.NOT_IN_DOCUMENTS


def test_the_word_is_in_the_answer_and_its_json_but_not_for_small_talk() -> None:
    agent = RAGAgent(Shelf({"/garden.txt": "The hedge of the garden is cut in August."}))
    answer = agent.ask("When is the hedge of the garden cut?")
    assert answer.confidence == "likely"
    assert answer.to_json()["confidence"] == "likely"
    assert format_confidence(answer) == f"likely ({answer.evidence:.2f})"
    thanks = agent.ask("Thanks!")
    assert (thanks.confidence, thanks.outcome) == (None, Outcome.ANSWERED)
