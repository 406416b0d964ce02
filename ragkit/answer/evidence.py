"""How likely it is that the passages found hold an answer to the question.

A logistic curve over two figures: the cosine of the nearest passage, and the share of the question's words,
weighted by their rarity, that the best passage holds. Fitted on questions of SQuAD 2.0 against questions about
articles that were not indexed; see `benchmarks/answers.py` for what it reaches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ragkit.answer.base import Searcher
from ragkit.records import Hit
from ragkit.retrieve.terms import terms

THRESHOLD = 0.39
"""Below this the answer is that the documents do not say."""
_COSINE, _COVERAGE, _OFFSET = 17.5, 8.7, -12.6
_PASSAGES = 5


def evidence(question: str, hits: Sequence[Hit], searcher: Searcher) -> float:
    """The probability, in [0, 1], that one of the best passages answers the question; 0 without passages."""
    best = hits[:_PASSAGES]
    if not best:
        return 0.0
    cosine = max(hit.scores.get("dense", 0.0) for hit in best)
    coverage = max(coverages(question, [f"{hit.chunk.header} {hit.chunk.text}" for hit in best], searcher))
    return 1 / (1 + math.exp(-(_COSINE * cosine + _COVERAGE * coverage + _OFFSET)))


def coverages(question: str, texts: Sequence[str], searcher: Searcher) -> list[float]:
    """The share of the question's terms, weighted by rarity, that each text holds, in [0, 1]; 0 without terms."""
    wanted = sorted(set(terms(question)))
    if not wanted:
        return [0.0] * len(texts)
    weights = np.asarray(searcher.term_weights(wanted), np.float64)
    total = float(weights.sum()) or 1.0
    found = []
    for text in texts:
        there = set(terms(text))
        found.append(float(weights[[term in there for term in wanted]].sum()) / total)
    return found
