"""Metrics of one question: rankings as in trec_eval, answers as in SQuAD."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

Grades = Mapping[str, int]
"""Relevance grade by document, > 0 for relevant ones; at least one is relevant."""

Metric = Callable[[Sequence[str], Grades, int], float]
"""(ranking, grades, depth) -> value in [0, 1]. The ranking has distinct documents, best first."""


def ndcg(ranking: Sequence[str], grades: Grades, depth: int) -> float:
    """Normalized discounted cumulative gain with linear gain, as in trec_eval.

    Source: Järvelin and Kekäläinen, ACM Transactions on Information Systems 20(4), 2002, doi:10.1145/582415.582418.
    """
    ideal = sorted(grades.values(), reverse=True)[:depth]
    return _dcg([grades.get(name, 0) for name in ranking[:depth]]) / _dcg(ideal)


def recall(ranking: Sequence[str], grades: Grades, depth: int) -> float:
    """The share of the relevant documents that are among the first `depth`."""
    return _count_relevant(ranking, grades, depth) / sum(grade > 0 for grade in grades.values())


def precision(ranking: Sequence[str], grades: Grades, depth: int) -> float:
    """The number of relevant documents among the first `depth`, divided by `depth`."""
    return _count_relevant(ranking, grades, depth) / depth


def reciprocal_rank(ranking: Sequence[str], grades: Grades, depth: int) -> float:
    """1 / rank of the first relevant document; 0 if none is among the first `depth`."""
    return next((1 / rank for rank, name in enumerate(ranking[:depth], 1) if grades.get(name, 0) > 0), 0.0)


def average_precision(ranking: Sequence[str], grades: Grades, depth: int) -> float:
    """The mean of the precision at the rank of every relevant document; 0 for those that are not retrieved."""
    relevant, total = 0, 0.0
    for rank, name in enumerate(ranking[:depth], start=1):
        if grades.get(name, 0) > 0:
            relevant += 1
            total += relevant / rank
    return total / sum(grade > 0 for grade in grades.values())


def hit_rate(ranking: Sequence[str], grades: Grades, depth: int) -> float:
    """1 if a relevant document is among the first `depth`, else 0."""
    return float(_count_relevant(ranking, grades, depth) > 0)


RANKING_METRICS: Mapping[str, Metric] = {
    "ndcg": ndcg,
    "recall": recall,
    "precision": precision,
    "mrr": reciprocal_rank,
    "map": average_precision,
    "hit_rate": hit_rate,
}
"""By name in reports, without the `@depth`."""


def normalize_answer(text: str) -> str:
    """Normalize a text as SQuAD does: lower case, without punctuation, articles and repeated spaces.

    Source: the evaluation script of SQuAD 2.0, Rajpurkar, Jia and Liang, 2018, arXiv:1806.03822.
    """
    bare = "".join(char for char in text.lower() if char not in string.punctuation)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", bare).split())


def contains_answer(answer: str, expected: Sequence[str]) -> float:
    """1 if the answer contains an expected one as whole words, both normalized as in SQuAD, else 0."""
    padded = f" {normalize_answer(answer)} "
    return float(any(f" {normalize_answer(text)} " in padded for text in expected))


def exact_match(answer: str, expected: Sequence[str]) -> float:
    """1 if the answer is equal to an expected one, both normalized as in SQuAD, else 0."""
    return float(any(normalize_answer(answer) == normalize_answer(text) for text in expected))


def token_f1(answer: str, expected: Sequence[str]) -> float:
    """The highest token F1 of the answer against an expected one, as in SQuAD."""
    return max(
        (_token_f1(normalize_answer(answer).split(), normalize_answer(text).split()) for text in expected), default=0.0
    )


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float | None:
    """The probability that a positive has a higher value than a negative, ties count half; None without both.

    Source: the Mann-Whitney U statistic, Hanley and McNeil, Radiology 143, 1982, doi:10.1148/radiology.143.1.7063747.
    """
    if not positive or not negative:
        return None
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, "left") + np.searchsorted(ordered, positive, "right")
    return float(below.sum()) / (2 * len(positive) * len(negative))


def _count_relevant(ranking: Sequence[str], grades: Grades, depth: int) -> int:
    return sum(grades.get(name, 0) > 0 for name in ranking[:depth])


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def _token_f1(answer: list[str], expected: list[str]) -> float:
    if not answer or not expected:
        return float(answer == expected)
    common = sum((Counter(answer) & Counter(expected)).values())
    return 2 * common / (len(answer) + len(expected))
