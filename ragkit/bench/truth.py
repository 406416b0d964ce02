"""What exact search answers, and how much of it a store has found.

A hit counts when its score, computed here from the row, reaches the score of the k-th nearest row: rows that tie with
it count too, whichever of them a store returns, and what a store says of its own scores is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragkit.bench.datasets import BLOCK, Dataset, limit_of
from ragkit.store.base import Rows

Mask = NDArray[np.bool_]
TIE = 1e-6
"""Scores that differ by no more than this are the same."""
SPARE = 22
"""Candidates beyond k that are scored again in float64."""


def condition_of(share: float) -> str:
    """What the filter of a share is called: `f50`, `f0.1`."""
    return f"f{share * 100:g}"


@dataclass(frozen=True)
class Truth:
    """Under one condition, what each query must find."""

    bar: NDArray[np.float64]
    """(queries,): the score of the last row that counts."""
    wanted: int
    """How many hits are complete: top_k, or all rows that match where they are fewer."""
    allowed: Mask
    """(rows,): which rows match."""

    def recall(self, rows: Rows, query: Rows, number: int, found: Sequence[int]) -> float:
        """How much of what query `number` must find is among the rows found: 0 to 1."""
        if not self.wanted:
            return 1.0 if not found else 0.0
        distinct = np.fromiter((row for row in dict.fromkeys(found) if self.allowed[row]), np.int64)
        scores = rows[distinct].astype(np.float64) @ query.astype(np.float64)
        return min(int((scores >= self.bar[number] - TIE).sum()), self.wanted) / self.wanted


def conditions(data: Dataset, shares: Sequence[float]) -> dict[str, Mask]:
    """Which rows match: all that a store is built with, those of each filter, and those that remain at the end."""
    buckets = data.buckets
    built = np.arange(len(buckets)) < data.base
    masks = {"all": built, **{condition_of(share): built & (buckets < limit_of(share)) for share in shares}}
    masks["after"] = np.ones(len(buckets), np.bool_)
    masks["after"][data.deleted] = False
    return masks


def compute(data: Dataset, shares: Sequence[float], top_k: int) -> dict[str, Truth]:
    """Exact search under every condition: float32 products choose the candidates, float64 decides."""
    rows, queries = data.rows, data.queries
    masks = conditions(data, shares)
    best = {name: _Best(len(queries), top_k + SPARE) for name in masks}
    for first in range(0, len(rows), BLOCK):
        scores = queries @ rows[first : first + BLOCK].T
        for name, mask in masks.items():
            columns = np.flatnonzero(mask[first : first + BLOCK])
            best[name].take(scores if len(columns) == scores.shape[1] else scores[:, columns], columns + first)
    return {name: _decided(rows, queries, best[name], mask, top_k) for name, mask in masks.items()}


class _Best:
    """The best rows of each query so far."""

    def __init__(self, queries: int, keep: int) -> None:
        self._keep = keep
        self._scores = np.zeros((queries, 0), np.float32)
        self.rows = np.zeros((queries, 0), np.int64)

    def take(self, scores: NDArray[np.float32], numbers: NDArray[np.int64]) -> None:
        if scores.shape[1] > self._keep:
            at = np.argpartition(-scores, self._keep, axis=1)[:, : self._keep]
            scores, own = np.take_along_axis(scores, at, 1), numbers[at]
        else:
            own = np.broadcast_to(numbers, scores.shape)
        scores = np.concatenate([self._scores, scores], axis=1)
        own = np.concatenate([self.rows, own], axis=1)
        at = np.argsort(-scores, axis=1, kind="stable")[:, : self._keep]
        self._scores, self.rows = np.take_along_axis(scores, at, 1), np.take_along_axis(own, at, 1)


def _decided(rows: Rows, queries: Rows, best: _Best, mask: Mask, top_k: int) -> Truth:
    wanted = min(top_k, int(mask.sum()))
    bar = np.full(len(queries), np.inf)
    for number, query in enumerate(queries if wanted else ()):
        scores = rows[best.rows[number]].astype(np.float64) @ query.astype(np.float64)
        bar[number] = np.sort(scores)[::-1][wanted - 1]
    return Truth(bar, wanted, mask)


def save(folder: Path, truths: Mapping[str, Truth]) -> None:
    """Write for the processes of a benchmark."""
    for name, truth in truths.items():
        np.savez(folder / f"truth-{name}.npz", bar=truth.bar, wanted=truth.wanted, allowed=truth.allowed)


def load(folder: Path, name: str) -> Truth:
    """What `save` wrote for one condition."""
    with np.load(folder / f"truth-{name}.npz") as arrays:
        return Truth(arrays["bar"], int(arrays["wanted"]), arrays["allowed"])
