"""Exact search: the rows of a matrix that are nearest to a query, ties and all.

Works on row numbers alone: no ids, no documents, no files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import gt
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragkit.store.base import Rows

RowNumbers: TypeAlias = NDArray[np.int64]
AllowedRows: TypeAlias = NDArray[np.bool_] | RowNumbers | None
"""Rows that may be found: a mask with a value for each row, distinct row numbers, or None for all."""

SortKeys: TypeAlias = Callable[[RowNumbers], Sequence[str]]
"""Gives a sort key (an id) for each of some rows; called only when scores tie."""

_GATHER_SHARE = 0.25
"""Up to this share of the rows they are picked out one by one; above it all are read and some thrown away."""
_GATHER_ROWS = 8_192
"""Rows that are copied at a time when they are picked out."""
_FEW_ROWS = 1_024
_SCORE_GROUP = 64
_FAST_PATH_ROWS = 64
"""So many scores are compared in Python, in less time than it takes to ask numpy."""


def find_nearest(
    matrix: Rows, query: Rows, k: int, allowed: AllowedRows = None, order: SortKeys | None = None
) -> tuple[RowNumbers, NDArray[np.float64]]:
    """The `k` rows with the highest dot product with `query`, best first, and those products.

    A scan in float32 finds the candidates, with room for its rounding; their scores are then computed in float64
    and cut to [-1, 1]. A score therefore depends on its row and the query alone, never on where the row lies, and
    equal rows tie exactly.

    Args:
        matrix: (n, dimension), rows of length 1.
        query: (dimension,), of length 1.
        k: how many are wanted, at least 1.
        allowed: the rows that may be found.
        order: breaks ties, lower first; without it lower row numbers come first.

    Returns:
        Row numbers and scores, both of length min(k, rows allowed).
    """
    scores, rows = _scan_scores(matrix, query, allowed)
    # each float32 product is off by less than dimension * 2**-24 for rows of length 1, and two of them are compared
    slack = matrix.shape[1] * 2.0**-23 * 1.01 + 1e-7
    found = find_candidates(scores, k, slack)
    return rank_rows(matrix, query, k, found if rows is None else rows[found], order)


def find_candidates(scores: NDArray[np.float32], k: int, slack: float) -> RowNumbers:
    """Positions of all scores down to `slack` below the k-th highest (or a bit more of them); `-inf` never counts."""
    floor = kth_score_floor(scores, k)
    if floor == -np.inf:
        return np.flatnonzero(scores > -np.inf)
    return np.flatnonzero(scores >= min(floor, 1.0) - slack)  # all scores above 1 are cut to 1, and tie


def rank_rows(
    matrix: Rows, query: Rows, k: int, rows: RowNumbers, order: SortKeys | None
) -> tuple[RowNumbers, NDArray[np.float64]]:
    """The best `k` of some rows by their float64 product with the query: row numbers and scores, as `nearest` does."""
    scores = exact_scores(matrix, query, rows)
    if len(rows) <= _FAST_PATH_ROWS and _is_descending(scores.tolist()):  # an index gives them in order, mostly
        return rows[:k], scores[:k]
    scores = scores.clip(-1.0, 1.0)
    if len(rows) > k:
        kept = scores >= np.partition(scores, len(scores) - k)[-k]
        rows, scores = rows[kept], scores[kept]
    ranked = np.lexsort((rows, -scores))
    rows, scores = rows[ranked], scores[ranked]
    if order is not None and (scores[1:] == scores[:-1]).any():
        keys = order(rows)
        by_key = sorted(range(len(rows)), key=lambda i: (-scores[i], keys[i]))
        rows, scores = rows[by_key], scores[by_key]
    return rows[:k], scores[:k]


def _is_descending(scores: Sequence[float]) -> bool:
    """Whether all are in [-1, 1], and each lower than the one before."""
    return bool(scores) and scores[0] <= 1 and scores[-1] >= -1 and all(map(gt, scores, scores[1:]))


def exact_scores(matrix: Rows, query: Rows, rows: RowNumbers) -> NDArray[np.float64]:
    """The dot products of some rows with the query, in float64; rounding may put them a little outside of [-1, 1]."""
    wide = query.astype(np.float64)
    if len(rows) <= _FEW_ROWS:
        few = matrix.take(rows, axis=0).astype(np.float64)  # first, as a product of two types takes longer to begin
        few *= wide
        return np.asarray(np.add.reduce(few, axis=1))
    scores = np.empty(len(rows))
    for start in range(0, len(rows), _GATHER_ROWS):
        block = matrix[rows[start : start + _GATHER_ROWS]] * wide
        scores[start : start + _GATHER_ROWS] = block.sum(axis=1)  # row by row: the same sum wherever a row lies
    return scores


def _scan_scores(matrix: Rows, query: Rows, allowed: AllowedRows) -> tuple[NDArray[np.float32], RowNumbers | None]:
    """float32 scores, and the rows that they belong to (None: all, in order).

    `vecdot` takes row by row in this thread. A matrix product would be spread over threads, which saves little, as
    memory is what it waits for, and costs milliseconds whenever another process holds one of the cores.
    """
    if allowed is None:
        return np.vecdot(matrix, query), None
    if allowed.dtype != np.bool_:
        rows = allowed.astype(np.int64, copy=False)
        if len(rows) <= _GATHER_SHARE * len(matrix):
            return _gather_scores(matrix, query, rows), rows
        allowed = np.zeros(len(matrix), bool)
        allowed[rows] = True
    elif np.count_nonzero(allowed) <= _GATHER_SHARE * len(matrix):
        rows = np.flatnonzero(allowed)
        return _gather_scores(matrix, query, rows), rows
    return np.where(allowed, np.vecdot(matrix, query), np.float32(-np.inf)), None


def _gather_scores(matrix: Rows, query: Rows, rows: RowNumbers) -> NDArray[np.float32]:
    scores = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _GATHER_ROWS):
        scores[start : start + _GATHER_ROWS] = np.vecdot(matrix[rows[start : start + _GATHER_ROWS]], query)
    return scores


def kth_score_floor(scores: NDArray[np.float32], k: int) -> float:
    """A lower bound of the k-th highest score, near to it; -inf when there are not more than `k` scores."""
    if len(scores) <= k:
        return -np.inf
    groups = len(scores) // _SCORE_GROUP
    if groups < 4 * k:
        return float(np.partition(scores, len(scores) - k)[-k])
    # k groups whose highest score is t or more hold k scores of t or more: far fewer numbers to sort.
    # A group is a column here, not a run of neighbours: whole rows of numbers are compared at a time.
    highest = scores[: groups * _SCORE_GROUP].reshape(_SCORE_GROUP, groups).max(axis=0)
    return float(np.partition(highest, groups - k)[-k])
