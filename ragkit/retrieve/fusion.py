"""Fuse the results of several retrievers into one ranking, from keys, ranks and scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ScoreArray = NDArray[np.float64]


def z_scores(values: ScoreArray) -> ScoreArray:
    """Standard scores: (n,) -> (n,); all 0 if the values are equal. Divides by n, not n - 1."""
    if not len(values):
        return values
    centred: ScoreArray = values - values.mean()
    spread = float(centred.std())
    # Equal values may differ from their mean in the last bit.
    if spread <= 1e-12 * float(np.abs(values).max()):
        return np.zeros_like(centred)
    normalised: ScoreArray = centred / spread
    return normalised


def convex_combination(scores: ScoreArray, weights: Sequence[float]) -> ScoreArray:
    """Weighted mean of z-normalized scores; higher is better.

    Args:
        scores: (retrievers, n), the score of each retriever for each of n candidates. Scales may differ: every row is
            normalized to mean 0 and standard deviation 1.
        weights: one per retriever, not negative; normalized to sum 1.

    Returns:
        (retrievers, n): the contributions to the fused scores; the sum over retrievers is the fused score. Scores of
        one call have mean 0 and lie in [-sqrt(n - 1), sqrt(n - 1)].

    Raises:
        ValueError: the number of weights differs from the number of retrievers, a weight is negative, or all are 0.

    Source: Bruch, Gai and Ingber, ACM Transactions on Information Systems 42(1), 2023, doi:10.1145/3596512.
    """
    shares = np.asarray(weights, np.float64)
    if shares.shape != scores.shape[:1] or shares.min() < 0 or shares.sum() <= 0:
        raise ValueError(f"weights must be {len(scores)} numbers >= 0, not all 0 (got {list(weights)})")
    rows = [z_scores(np.asarray(row, np.float64)) for row in scores]
    fused: ScoreArray = np.stack(rows) * (shares / shares.sum())[:, None]
    return fused


def reciprocal_rank_fusion(rankings: Sequence[Sequence[int]], *, damping: int = 60) -> list[tuple[int, float]]:
    """Merge rankings of keys into one, best first.

    A key gets 1 / (damping + rank) from each ranking that contains it, ranks from 1. Only the order matters, so that
    cosine and BM25 scores need no common scale.

    Args:
        rankings: one list of distinct keys per retriever, best first; lengths may differ.
        damping: flattens the differences between ranks; 60 is the paper's value.

    Returns:
        (key, score) per distinct key; ties keep the order of first appearance. Scores lie in
        (0, len(rankings) / (damping + 1)] and are comparable within one call only.

    Raises:
        ValueError: damping is negative.

    Source: Cormack, Clarke and Buettcher, SIGIR 2009, doi:10.1145/1571941.1572114.
    """
    if damping < 0:
        raise ValueError(f"damping must be >= 0 (got {damping})")
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, key in enumerate(ranking, start=1):
            scores[key] = scores.get(key, 0.0) + 1 / (damping + rank)
    return sorted(scores.items(), key=lambda pair: -pair[1])
