"""The figures, each for one question: rankings as trec_eval has them, answers as SQuAD has them."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

Grades = Mapping[str, int]
"""Document -> grade; above 0 is relevant, and one grade at least is."""

Metric = Callable[[Sequence[str], Grades, int], float]
"""A figure in [0, 1] of the first `depth` of a ranking (documents, best first, none of them twice)."""


def ndcg(ranking: Sequence[str], grades: Grades, depth: int) -> float:
    """Normalised discounted cumulative gain, with the grade itself as gain, as trec_eval has it.

    Source: Järvelin and Kekäläinen, ACM Transactions on Information Systems 20(4), 2002, doi:10.1145/582415.582418.
    """
    ideal = sorted(grades.values(), reverse=True)[:depth]
    return _dcg([grades.get(one, 0) for one in ranking[:depth]]) / _dcg(ideal)


def recall(ranking: Sequence[str], grades: Grades, depth: int) -> float:
    """The share of the relevant documents that stand among the first `depth`."""
    return _count_relevant(ranking, grades, depth) / sum(grade > 0 for grade in grades.values())


def precision(ranking: Sequence[str], grades: Grades, depth: int) -> float:
    """The share of the first `depth` places that hold a relevant document; an empty place holds none."""
    return _count_relevant(ranking, grades, depth) / depth


def reciprocal_rank(ranking: Sequence[str], grades: Grades, depth: int) -> float:
    """1 / rank of the first relevant document, 0 when none is among the first `depth`."""
    return next((1 / rank for rank, one in enumerate(ranking[:depth], 1) if grades.get(one, 0) > 0), 0.0)


def average_precision(ranking: Sequence[str], grades: Grades, depth: int) -> float:
    """The mean of the precision at every relevant document, those that are not found counting 0."""
    found, total = 0, 0.0
    for rank, one in enumerate(ranking[:depth], start=1):
        if grades.get(one, 0) > 0:
            found += 1
            total += found / rank
    return total / sum(grade > 0 for grade in grades.values())


def hit_rate(ranking: Sequence[str], grades: Grades, depth: int) -> float:
    """1 when a relevant document is among the first `depth`, else 0."""
    return float(_count_relevant(ranking, grades, depth) > 0)


RANKING_METRICS: Mapping[str, Metric] = {
    "ndcg": ndcg,
    "recall": recall,
    "precision": precision,
    "mrr": reciprocal_rank,
    "map": average_precision,
    "hit_rate": hit_rate,
}
"""By the name that a report gives them, before the `@depth`."""


def normalize_answer(text: str) -> str:
    """A text as SQuAD compares it: lower case, without punctuation, articles and double spaces.

    Source: the evaluation script of SQuAD 2.0, Rajpurkar, Jia and Liang, 2018, arXiv:1806.03822.
    """
    bare = "".join(one for one in text.lower() if one not in string.punctuation)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", bare).split())


def contains_answer(answer: str, wanted: Sequence[str]) -> float:
    """1 when one of the wanted answers stands in the answer, both as SQuAD compares them, at bounds of words."""
    there = f" {normalize_answer(answer)} "
    return float(any(f" {normalize_answer(one)} " in there for one in wanted))


def exact_match(answer: str, wanted: Sequence[str]) -> float:
    """1 when the answer is one of the wanted ones, both as SQuAD compares them."""
    return float(any(normalize_answer(answer) == normalize_answer(one) for one in wanted))


def token_f1(answer: str, wanted: Sequence[str]) -> float:
    """The F1 of the words of the answer against the nearest wanted one, as SQuAD has it."""
    return max(
        (_token_f1(normalize_answer(answer).split(), normalize_answer(one).split()) for one in wanted), default=0.0
    )


def auroc(positive: Sequence[float], negative: Sequence[float]) -> float | None:
    """The chance that a positive has the higher value than a negative, ties counting half; None without both.

    Source: the Mann-Whitney U statistic, Hanley and McNeil, Radiology 143, 1982, doi:10.1148/radiology.143.1.7063747.
    """
    if not positive or not negative:
        return None
    order = sorted([(value, 1) for value in positive] + [(value, 0) for value in negative])
    below, wins, at = 0.0, 0.0, 0
    while at < len(order):
        end = at
        while end < len(order) and order[end][0] == order[at][0]:
            end += 1
        group = [kind for _, kind in order[at:end]]
        negatives = group.count(0)
        wins += (len(group) - negatives) * (below + negatives / 2)
        below += negatives
        at = end
    return wins / (len(positive) * len(negative))


def _count_relevant(ranking: Sequence[str], grades: Grades, depth: int) -> int:
    return sum(grades.get(one, 0) > 0 for one in ranking[:depth])


def _dcg(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def _token_f1(answer: list[str], wanted: list[str]) -> float:
    if not answer or not wanted:
        return float(answer == wanted)
    same = sum((Counter(answer) & Counter(wanted)).values())
    return 2 * same / (len(answer) + len(wanted))
