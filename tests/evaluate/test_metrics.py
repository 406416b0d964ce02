"""Metrics of one question, compared with other programs and with values calculated by hand."""

from __future__ import annotations

import random

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.evaluate.metrics import RANKING_METRICS, auroc, contains_answer, exact_match, normalize_answer, token_f1

OTHERS = {
    "ndcg": ir_measures.nDCG,
    "recall": ir_measures.R,
    "precision": ir_measures.P,
    "mrr": ir_measures.RR,
    "map": ir_measures.AP,
    "hit_rate": ir_measures.Success,
}
DOCUMENTS = [f"d{number}" for number in range(30)]


@pytest.mark.parametrize("name", list(RANKING_METRICS))
@pytest.mark.parametrize("depth", [1, 3, 10, 20])
def test_ranking_metrics_equal_trec_eval(name: str, depth: int) -> None:
    chance = random.Random(f"{name}{depth}")
    for _ in range(200):
        grades = {item: chance.randint(0, 3) for item in chance.sample(DOCUMENTS, chance.randint(1, 15))}
        grades[chance.choice(list(grades))] = 2
        ranking = chance.sample(DOCUMENTS, chance.randint(0, 30))
        run = {"q": {item: float(-place) for place, item in enumerate(ranking)}}
        expected = 0.0  # a question without results: trec_eval skips it, ragkit counts a miss
        if ranking:
            measure = OTHERS[name] @ depth
            expected = ir_measures.calc_aggregate([measure], {"q": grades}, run)[measure]
        assert RANKING_METRICS[name](ranking, grades, depth) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Eiffel Tower!", "eiffel tower"),
        ("  an  apple,\na pear ", "apple pear"),
        ("theatre", "theatre"),
        ("A", ""),
        ("3.5 %", "35"),
    ],
)
def test_texts_are_compared_as_squad_compares_them(text: str, expected: str) -> None:
    assert normalize_answer(text) == expected


def test_a_gold_answer_is_matched_at_word_boundaries() -> None:
    assert contains_answer("It is open on 27 working days.", ["26", "27 working days"]) == 1.0
    assert contains_answer("It is 127 working days.", ["27 working days"]) == 0.0
    assert contains_answer("anything", []) == 0.0


@pytest.mark.parametrize(
    ("answer", "expected", "exact", "f1"),
    [
        ("Paris", ["Paris"], 1.0, 1.0),
        ("the city of Paris", ["Paris"], 0.0, 0.5),
        ("in Paris, France", ["Lyon", "Paris France"], 0.0, 0.8),
        ("", ["Paris"], 0.0, 0.0),
        ("London", ["Paris"], 0.0, 0.0),
        ("to be or not to be", ["to be"], 0.0, 0.5),
    ],
)
def test_token_f1_equals_squad(answer: str, expected: list[str], exact: float, f1: float) -> None:
    assert exact_match(answer, expected) == exact
    assert token_f1(answer, expected) == pytest.approx(f1)


@given(
    st.lists(st.integers(0, 8).map(float), min_size=1, max_size=25),
    st.lists(st.integers(0, 8).map(float), min_size=1, max_size=25),
)
def test_the_auroc_is_the_probability_that_a_positive_is_higher(positive: list[float], negative: list[float]) -> None:
    wins = sum((item > other) + (item == other) / 2 for item in positive for other in negative)
    assert auroc(positive, negative) == pytest.approx(wins / len(positive) / len(negative))


def test_there_is_no_auroc_without_both_classes() -> None:
    assert auroc([], [1.0]) is None
    assert auroc([1.0], []) is None
