"""Computes the exact results, and the recall of a store against them.

A hit counts if its score, computed here in float64, reaches the score of the k-th nearest row. So all rows that tie
with the k-th one count, and the scores that a store reports are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragkit.bench.datasets import BLOCK_ROWS, Dataset, bucket_limit
from ragkit.store.base import Rows

Mask = NDArray[np.bool_]
TIE_TOLERANCE = 1e-6
"""Scores with a smaller difference are equal."""
EXTRA_CANDIDATES = 22
"""Candidates beyond k that are rescored in float64."""


def condition_name(share: float) -> str:
    """The name of the filter that selects a share of the rows: `f50`, `f0.1`."""
    return f"f{share * 100:g}"


@dataclass(frozen=True)
class GroundTruth:
    """The exact results of all queries under one filter condition."""

    kth_scores: NDArray[np.float64]
    """(queries,): the score of the k-th nearest row."""
    expected_count: int
    """Number of hits of a complete result: top_k, or all matching rows if they are fewer."""
    matching_rows: Mask
    """(rows,): which rows match."""

    def recall(self, rows: Rows, query: Rows, number: int, found: Sequence[int]) -> float:
        """The recall of the rows found for query `number`, in [0, 1]."""
        if not self.expected_count:
            return 1.0 if not found else 0.0
        distinct = np.fromiter((row for row in dict.fromkeys(found) if self.matching_rows[row]), np.int64)
        scores = rows[distinct].astype(np.float64) @ query.astype(np.float64)
        right = int((scores >= self.kth_scores[number] - TIE_TOLERANCE).sum())
        return min(right, self.expected_count) / self.expected_count


def condition_masks(data: Dataset, shares: Sequence[float]) -> dict[str, Mask]:
    """The matching rows by condition.

    `all` base rows, the first `quarter` of them, each filter, and `after` all additions and deletions.
    """
    buckets = data.buckets
    built = np.arange(len(buckets)) < data.base_count
    masks = {"all": built, **{condition_name(share): built & (buckets < bucket_limit(share)) for share in shares}}
    masks["quarter"] = np.arange(len(buckets)) < data.small_count
    masks["after"] = np.ones(len(buckets), np.bool_)
    masks["after"][data.deleted_rows] = False
    return masks


def compute_ground_truth(data: Dataset, shares: Sequence[float], top_k: int) -> dict[str, GroundTruth]:
    """Exact search under every condition: candidates by float32 products, rescored in float64."""
    rows, queries = data.rows, data.queries
    masks = condition_masks(data, shares)
    best = {name: _TopRows(len(queries), top_k + EXTRA_CANDIDATES) for name in masks}
    for first in range(0, len(rows), BLOCK_ROWS):
        scores = queries @ rows[first : first + BLOCK_ROWS].T
        for name, mask in masks.items():
            columns = np.flatnonzero(mask[first : first + BLOCK_ROWS])
            best[name].update(scores if len(columns) == scores.shape[1] else scores[:, columns], columns + first)
    return {name: _rescore(rows, queries, best[name], mask, top_k) for name, mask in masks.items()}


class _TopRows:
    """The best rows of each query so far."""

    def __init__(self, queries: int, keep: int) -> None:
        self._keep = keep
        self._scores = np.zeros((queries, 0), np.float32)
        self.rows = np.zeros((queries, 0), np.int64)

    def update(self, scores: NDArray[np.float32], numbers: NDArray[np.int64]) -> None:
        if scores.shape[1] > self._keep:
            at = np.argpartition(-scores, self._keep, axis=1)[:, : self._keep]
            scores, own = np.take_along_axis(scores, at, 1), numbers[at]
        else:
            own = np.broadcast_to(numbers, scores.shape)
        scores = np.concatenate([self._scores, scores], axis=1)
        own = np.concatenate([self.rows, own], axis=1)
        at = np.argsort(-scores, axis=1, kind="stable")[:, : self._keep]
        self._scores, self.rows = np.take_along_axis(scores, at, 1), np.take_along_axis(own, at, 1)


def _rescore(rows: Rows, queries: Rows, best: _TopRows, mask: Mask, top_k: int) -> GroundTruth:
    expected = min(top_k, int(mask.sum()))
    kth_scores = np.full(len(queries), np.inf)
    for number, query in enumerate(queries if expected else ()):
        scores = rows[best.rows[number]].astype(np.float64) @ query.astype(np.float64)
        kth_scores[number] = np.sort(scores)[::-1][expected - 1]
    return GroundTruth(kth_scores, expected, mask)


def save_ground_truth(folder: Path, truths: Mapping[str, GroundTruth]) -> None:
    """Write the exact results for the processes of a benchmark."""
    for name, truth in truths.items():
        np.savez(folder / f"truth-{name}.npz", **vars(truth))


def load_ground_truth(folder: Path, name: str) -> GroundTruth:
    """Read the exact results of one condition."""
    with np.load(folder / f"truth-{name}.npz") as arrays:
        return GroundTruth(arrays["kth_scores"], int(arrays["expected_count"]), arrays["matching_rows"])
