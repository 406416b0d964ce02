"""Pseudo-relevance feedback: expanded terms and vector; scores remain those of the question."""

from __future__ import annotations

import numpy as np
import pytest

from ragkit.errors import InvalidOption
from ragkit.retrieve.base import RetrieverDependencies
from ragkit.retrieve.dense import DenseRetriever
from ragkit.retrieve.hybrid import HybridRetriever
from ragkit.retrieve.lexical import LexicalRetriever
from ragkit.retrieve.options import DenseOptions, FeedbackOptions, HybridOptions, LexicalOptions
from ragkit.retrieve.query_expansion import QueryExpandingRetriever
from ragkit.retrieve.relevance_feedback import PseudoRelevanceFeedback
from tests.retrieve.passages import chunk, retriever_parts

EAST, NORTH = [1.0, 0.0], [0.0, 1.0]


def words() -> RetrieverDependencies:
    """`wing` is in one chunk, with `flap`; `flap` is in another one too."""
    return retriever_parts([chunk("wing flap"), chunk("flap"), chunk("rudder")], [EAST, EAST, NORTH], wing=EAST)


def test_the_terms_of_the_first_passages_are_added_to_the_search() -> None:
    feedback = PseudoRelevanceFeedback(FeedbackOptions(passages=1, terms=10, weight=0.5))
    # half of the passage is `wing`, half `flap`; together they have the weight of the one term of the question
    assert feedback.expand_terms(["wing"], words().chunk_index, None) == {"flap": 0.5, "wing": 0.5}


def test_the_most_probable_terms_are_kept_with_the_total_weight() -> None:
    parts = retriever_parts([chunk("wing flap flap flap")], [EAST])
    feedback = PseudoRelevanceFeedback(FeedbackOptions(terms=1, weight=0.2))
    assert feedback.expand_terms(["wing"], parts.chunk_index, None) == {"flap": pytest.approx(0.25)}


def test_passages_are_weighted_by_score() -> None:
    parts = retriever_parts([chunk("wing wing wing flap"), chunk("wing rudder keel mast")], [EAST, EAST])
    results = dict(
        PseudoRelevanceFeedback(FeedbackOptions(passages=2, weight=0.5)).expand_terms(["wing"], parts.chunk_index, None)
    )
    assert results["flap"] > results["rudder"] == results["keel"]
    assert sum(results.values()) == pytest.approx(1)


def test_without_feedback_passages_nothing_is_added() -> None:
    feedback = PseudoRelevanceFeedback(FeedbackOptions())
    assert dict(feedback.expand_terms(["unheard"], words().chunk_index, None)) == {}
    assert dict(feedback.expand_terms([], words().chunk_index, None)) == {}
    empty = retriever_parts([], []).chunk_index
    np.testing.assert_array_equal(
        feedback.expand_vector(np.array(EAST, np.float32), empty, None), np.array(EAST, np.float32)
    )


def test_the_vector_moves_towards_the_mean_of_the_first_passages() -> None:
    parts = retriever_parts([chunk("a"), chunk("b")], [NORTH, EAST])
    feedback = PseudoRelevanceFeedback(FeedbackOptions(passages=1, weight=0.5))
    near_north = np.array([0.6, 0.8], np.float32)
    moved = feedback.expand_vector(near_north, parts.chunk_index, None)
    np.testing.assert_allclose(moved, np.array([0.3, 0.9]) / np.hypot(0.3, 0.9), atol=1e-6)


def test_feedback_uses_only_passages_that_match_the_filter() -> None:
    parts = retriever_parts([chunk("wing flap", lang="en"), chunk("wing klappe", lang="de")], [EAST, NORTH])
    feedback = PseudoRelevanceFeedback(FeedbackOptions(weight=0.5))
    assert set(feedback.expand_terms(["wing"], parts.chunk_index, {"lang": "de"})) == {"wing", "klapp"}
    np.testing.assert_allclose(
        feedback.expand_vector(np.array(NORTH, np.float32), parts.chunk_index, {"lang": "de"}), NORTH
    )


def test_lexical_search_finds_a_passage_without_terms_of_the_question() -> None:
    options = LexicalOptions(feedback=FeedbackOptions(weight=0.5))
    plain = LexicalRetriever(options, words())
    assert [hit.chunk.text for hit in plain.retrieve("wing")] == ["wing flap"]
    moved = QueryExpandingRetriever(
        lambda parts: LexicalRetriever(options, parts), words(), lambda _: [PseudoRelevanceFeedback(FeedbackOptions())]
    )
    hits = moved.retrieve("wing")
    assert [hit.chunk.text for hit in hits] == ["wing flap", "flap"]
    # the score of the question itself; the order also depends on the expansion
    assert [hit.scores["lexical"] for hit in hits] == [plain.retrieve("wing")[0].scores["lexical"], 0.0]
    assert hits[0].score > hits[0].scores["lexical"]


def test_dense_scores_are_cosines_with_the_original_question() -> None:
    parts = retriever_parts([chunk("a"), chunk("b")], [NORTH, EAST], asked=[0.6, 0.8])
    moved = QueryExpandingRetriever(
        lambda given: DenseRetriever(DenseOptions(), given),
        parts,
        lambda _: [PseudoRelevanceFeedback(FeedbackOptions(passages=1))],
    )
    first, second = moved.retrieve("asked")
    assert (first.chunk.text, second.chunk.text) == ("a", "b")
    assert first.scores["dense"] == pytest.approx(0.8, abs=1e-6)
    assert second.scores["dense"] == pytest.approx(0.6, abs=1e-6)
    assert (first.score > 0.8, second.score < 0.6) == (True, True)


def test_hybrid_expands_both_searches_and_its_contributions_sum_up() -> None:
    parts = words()
    moved = QueryExpandingRetriever(
        lambda given: HybridRetriever(HybridOptions(), given),
        parts,
        lambda _: [PseudoRelevanceFeedback(FeedbackOptions(weight=0.5))],
    )
    plain = {hit.chunk.text: dict(hit.scores) for hit in HybridRetriever(HybridOptions(), parts).retrieve("wing")}
    results = moved.explain("wing")
    assert {item.hit.chunk.text: dict(item.hit.scores) for item in results} == {
        text: pytest.approx(scores) for text, scores in plain.items()
    }
    assert [sum(item.contributions.values()) for item in results] == pytest.approx([item.hit.score for item in results])
    assert moved.retrieve(" \n") == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"passages": 0}, "feedback.passages must be an integer >= 1"),
        ({"terms": 0}, "feedback.terms must be an integer >= 1"),
        ({"weight": 1.0}, "feedback.weight must be >= 0 and < 1"),
    ],
)
def test_options_out_of_range_are_rejected(options: dict[str, float], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        FeedbackOptions(**options)  # type: ignore[arg-type]  # on purpose of any kind
