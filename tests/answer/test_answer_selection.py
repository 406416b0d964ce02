"""Selection of the best answer sentences without a language model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ragkit.answer.answer_selection import (
    FEATURE_WEIGHTS,
    MAX_EMBEDDED_UNITS,
    MAX_PASSAGES,
    build_candidates,
    select_answer_units,
    select_diverse,
)
from ragkit.embed.minilm import MiniLM
from ragkit.records import Hit
from tests.answer.hits import hit
from tests.answer.passages import Shelf

MILL = (
    "The upper mill stands beside the bridge of Harrow. It was built in 1790 by the carpenter Ada Quill for the abbey. "
    "Nine tonnes of larch went into the wheel alone. The flood of 1921 took the roof and most of the grain away. "
    "Since then the abbey has let the building to a society of friends, who open it on Sundays."
)
INN = (
    "The inn of Harrow serves barley soup from noon until the kitchen closes. Rooms cost 62 euros for one night. "
    "Dogs are welcome in the yard, where a bowl of water stands under the chestnut tree."
)


class Words(Shelf):
    """A searcher with the same weight for every word."""

    def __init__(self) -> None:
        super().__init__({})
        self.embedded: list[str] = []

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        return np.ones(len(terms), np.float32)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.embedded += texts
        return super().embed(texts)


class Meanings(Words):
    """The same with the shipped embedder."""

    def __init__(self) -> None:
        super().__init__()
        self.model = MiniLM()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.model.embed_texts(texts)

    def embed_question(self, question: str) -> NDArray[np.float32]:
        return self.model.embed_query(question)


def best(question: str, hits: Sequence[Hit], limit: int = 3) -> list[str]:
    return [item.text for item in select_answer_units(question, hits, Words(), limit)]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When did the flood take the roof?", "1921"),
        ("How much larch is in the wheel?", "Nine tonnes"),
        ("What does a room at the inn cost?", "62 euros"),
        ("Until when does the kitchen of the inn serve soup?", "from noon until"),
    ],
)
def test_the_best_sentence_contains_the_answer(question: str, answer: str) -> None:
    [sentence] = best(question, [hit(MILL), hit(INN, source="/inn.txt")], limit=1)
    assert answer in sentence


def test_a_sentence_without_shared_words_is_found_by_its_meaning() -> None:
    texts = [
        "The ceremony lasted for two hours.",
        "Felines slept on the warm roof all day.",
        "The committee met twice in June.",
    ]
    hits = [hit(text, source=f"/{place}.txt", dense=0.3) for place, text in enumerate(texts)]
    [sentence] = select_answer_units("What did the cats do?", hits, Meanings(), 1)
    assert sentence.text == texts[1]


def test_the_offsets_refer_to_the_document() -> None:
    [sentence] = select_answer_units("When did the flood take the roof?", [hit(MILL, start=40)], Words(), 1)
    assert MILL[sentence.start - 40 : sentence.end - 40] == sentence.text
    assert (sentence.hit_index, sentence.source) == (0, "/a.txt")


def test_the_answer_type_breaks_ties() -> None:
    repaired = "The wheel of the lower mill was repaired"
    hits = [hit(f"{repaired} by nobody at all. {repaired} in 1834 at last.")]
    assert "1834" in best("When was the wheel of the lower mill repaired?", hits, 1)[0]
    assert "nobody" in best("Why was nobody at all asked to repair the wheel?", hits, 1)[0]


def test_an_answer_has_at_most_the_requested_sentences() -> None:
    hits = [hit(MILL), hit(INN, source="/inn.txt")]
    for limit in range(5):
        result = select_answer_units("What can be seen in Harrow?", hits, Words(), limit)
        assert sum(item.sentence_count for item in result) <= limit
    assert select_answer_units("What can be seen in Harrow?", hits, Words(), 0) == []


def test_a_sentence_with_its_predecessor_counts_as_two() -> None:
    [both] = select_answer_units("Who built the upper mill of Harrow in 1790?", [hit(MILL)], Words(), 2)
    assert both.text.startswith("The upper mill stands") and both.text.endswith("for the abbey.")
    assert both.sentence_count == 2


def test_text_of_overlapping_passages_is_quoted_once() -> None:
    half = len(MILL) // 2
    result = select_answer_units(
        "When did the flood take the roof?", [hit(MILL), hit(MILL[half:], start=half)], Words(), 3
    )
    assert sum("1921" in item.text for item in result) == 1


def test_identical_sentences_of_two_documents_are_quoted_once() -> None:
    copies = [hit(MILL, source=f"/{place}.txt") for place in range(3)]
    result = best("When did the flood take the roof?", copies, 3)
    assert sum("1921" in text for text in result) == 1


def test_rows_that_differ_in_a_number_are_not_duplicates() -> None:
    table = "Year | Flood level\n1921 | 4.2 m\n1954 | 3.9 m\n"
    assert sorted(best("What were the flood levels of 1921 and 1954?", [hit(table)], 2)) == [
        "Year: 1921; Flood level: 4.2 m",
        "Year: 1954; Flood level: 3.9 m",
    ]


def test_a_question_in_the_text_is_not_an_answer() -> None:
    question, answer = "How old is the wheel, and who made it?", "The one of today was made by a firm in 1986."
    assert best("How old is the wheel of the mill?", [hit(f"{question}\n\n- {answer}")], 1) == [answer]
    assert best("How old is the wheel of the mill?", [hit(f"{question}\n{answer}")], 1) == [f"{question} {answer}"]


def test_only_the_best_passages_are_read_and_only_the_best_statements_embedded() -> None:
    many = " ".join(f"Sack number {n} of this year's barley went to the inn." for n in range(20))
    searcher = Words()
    hits = [hit(many, source=f"/{place}.txt") for place in range(MAX_PASSAGES + 4)]
    result = select_answer_units("Which sack of barley went to the inn?", hits, searcher, 3)
    assert len(searcher.embedded) == MAX_EMBEDDED_UNITS
    assert max(item.hit_index for item in result) < MAX_PASSAGES


def test_a_statement_over_the_limit_is_used_if_there_is_no_other() -> None:
    text = "The upper mill stands beside the bridge of Harrow. It was built in 1790 by the carpenter Ada Quill."
    assert best("When was the mill built?", [hit(text)], 1) == [text]


def test_without_passages_there_are_no_sentences() -> None:
    assert best("Who?", []) == best("Who?", [hit("# Only a heading")]) == []


def test_a_question_without_words_gets_the_best_ranked_statement() -> None:
    assert len(best("?!", [hit(MILL)])) > 1


def test_there_is_a_column_for_each_weight() -> None:
    result = build_candidates("When was the flood?", [hit(MILL, dense=0.5, bm25=3.0)], Words())
    assert result.features.shape == (len(result.units), len(FEATURE_WEIGHTS))
    assert np.isfinite(result.features).all()
    flood = next(at for at, item in enumerate(result.units) if "1921" in item.text)
    known = dict(zip(FEATURE_WEIGHTS, result.features[flood], strict=True))
    assert known["words"] == pytest.approx(1)
    assert (known["date"], known["number"], known["passage_meaning"], known["passage_bm25"]) == (1, 0, 0, 1)


def test_passage_scores_are_relative_to_the_best_one() -> None:
    hits = [hit(MILL, dense=0.7, bm25=8.0), hit(INN, source="/inn.txt", dense=0.4, bm25=2.0)]
    result = build_candidates("Where is Harrow?", hits, Words())
    of_inn = next(at for at, item in enumerate(result.units) if item.hit_index == 1)
    known = dict(zip(FEATURE_WEIGHTS, result.features[of_inn], strict=True))
    assert known["passage_meaning"] == pytest.approx(-0.3)
    assert known["passage_bm25"] == pytest.approx(0.25)


def test_equal_statements_from_unused_passages_come_first() -> None:
    result = build_candidates("Harrow?", [hit(MILL), hit(INN, source="/inn.txt")], Words())
    places = select_diverse(result, np.zeros(len(result.units)), 2)
    assert {result.units[place].hit_index for place in places} == {0, 1}
