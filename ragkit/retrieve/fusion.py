"""Fuse the results of several retrievers into one ranking.

Works on keys, ranks and scores alone: no text, no index, no files.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ScoreArray = NDArray[np.float64]


def z_scores(values: ScoreArray) -> ScoreArray:
    """How many standard deviations each value lies above the mean: (n,) -> (n,); all 0 when the values are equal.

    The standard deviation is that of the values themselves (divided by n, not n - 1).
    """
    if not len(values):
        return values
    centred: ScoreArray = values - values.mean()
    spread = float(centred.std())
    # Equal values may differ from their own mean in the last bit.
    if spread <= 1e-12 * float(np.abs(values).max()):
        return np.zeros_like(centred)
    normalised: ScoreArray = centred / spread
    return normalised


def convex_combination(scores: ScoreArray, weights: Sequence[float]) -> ScoreArray:
    """Weighted mean of z-normalised scores; higher is better.

    Args:
        scores: (retrievers, n), each retriever's own score for each of n candidates. Scales may differ, since every row
            is brought to mean 0 and deviation 1 over the candidates first.
        weights: one for each retriever, not negative; they are divided by their sum.

    Returns:
        (retrievers, n): each retriever's share of each candidate's fused score; their sum over the retrievers is
        the score. Scores of one call have mean 0 and lie in [-sqrt(n - 1), sqrt(n - 1)].

    Raises:
        ValueError: the weights are not one for each retriever, or none is above 0, or one is below.

    Source: Bruch, Gai and Ingber, ACM Transactions on Information Systems 42(1), 2023, doi:10.1145/3596512.
    """
    shares = np.asarray(weights, np.float64)
    if shares.shape != scores.shape[:1] or shares.min() < 0 or shares.sum() <= 0:
        raise ValueError(f"weights {list(weights)} for {len(scores)} retrievers: one each, none negative, not all zero")
    rows = [z_scores(np.asarray(row, np.float64)) for row in scores]
    fused: ScoreArray = np.stack(rows) * (shares / shares.sum())[:, None]
    return fused


def reciprocal_rank_fusion(rankings: Sequence[Sequence[int]], *, damping: int = 60) -> list[tuple[int, float]]:
    """Merge rankings of keys into one, best first.

    A key earns 1 / (damping + rank) from each ranking that it is in, ranks counted from 1. Only order counts, so that
    a cosine and a BM25 score need no common scale.

    Args:
        rankings: one list of distinct keys for each retriever, best first; lengths may differ.
        damping: how little the first ranks stand out; 60 is the paper's value.

    Returns:
        (key, score) for each distinct key; ties keep the order of first appearance. Scores lie in
        (0, len(rankings) / (damping + 1)] and mean nothing outside one call.

    Raises:
        ValueError: damping is negative.

    Source: Cormack, Clarke and Buettcher, SIGIR 2009, doi:10.1145/1571941.1572114.
    """
    if damping < 0:
        raise ValueError(f"damping is {damping}: 0 or more is wanted")
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, key in enumerate(ranking, start=1):
            scores[key] = scores.get(key, 0.0) + 1 / (damping + rank)
    return sorted(scores.items(), key=lambda pair: -pair[1])
