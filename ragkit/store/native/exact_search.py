"""Exact search: the rows of a matrix that are nearest to a query, with deterministic ties.

Works on row numbers only: no ids, no documents, no files.
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
"""Rows that may be returned: a mask with a value for each row, distinct row numbers, or None for all."""

SortKeys: TypeAlias = Callable[[RowNumbers], Sequence[str]]
"""Returns a sort key (an id) for each row; called only if scores tie."""

_GATHER_SHARE = 0.25
"""Up to this share of the rows, the allowed rows are gathered; above it, all rows are scored."""
_GATHER_ROWS = 8_192
"""Rows that are gathered at a time."""
_FEW_ROWS = 1_024
_SCORE_GROUP = 64
_FAST_PATH_ROWS = 64
"""Up to this many scores are compared in Python, which is faster than numpy."""


def find_nearest(
    matrix: Rows, query: Rows, k: int, allowed: AllowedRows = None, order: SortKeys | None = None
) -> tuple[RowNumbers, NDArray[np.float64]]:
    """The `k` rows with the highest dot product with `query`, best first, and these products.

    A float32 scan finds the candidates, with a margin for its rounding error; their scores are then computed in
    float64 and clipped to [-1, 1]. A score therefore depends only on its row and the query, not on the position of
    the row, and equal rows tie exactly.

    Args:
        matrix: (n, dimension), rows of length 1.
        query: (dimension,), of length 1.
        k: the number of results, at least 1.
        allowed: the rows that may be returned.
        order: sort keys that break ties, lower first; without it, lower row numbers come first.

    Returns:
        Row numbers and scores, both of length min(k, number of allowed rows).
    """
    scores, rows = _scan_scores(matrix, query, allowed)
    # the error of a float32 product of unit rows is below dimension * 2**-24, and two of them are compared
    margin = matrix.shape[1] * 2.0**-23 * 1.01 + 1e-7
    candidates = find_candidates(scores, k, margin)
    return rank_rows(matrix, query, k, candidates if rows is None else rows[candidates], order)


def to_mask(allowed: NDArray[np.bool_] | RowNumbers, rows: int) -> NDArray[np.bool_]:
    """A mask or row numbers as a mask of (rows,)."""
    if allowed.dtype == np.bool_:
        return allowed.astype(np.bool_, copy=False)
    mask = np.zeros(rows, bool)
    mask[allowed] = True
    return mask


def find_candidates(scores: NDArray[np.float32], k: int, margin: float) -> RowNumbers:
    """Positions of at least all scores down to `slack` below the k-th highest, without those of `-inf`."""
    floor = kth_score_floor(scores, k)
    if floor == -np.inf:
        return np.flatnonzero(scores > -np.inf)
    return np.flatnonzero(scores >= min(floor, 1.0) - margin)  # scores above 1 are clipped to 1, and tie


def rank_rows(
    matrix: Rows, query: Rows, k: int, rows: RowNumbers, order: SortKeys | None
) -> tuple[RowNumbers, NDArray[np.float64]]:
    """The best `k` of some rows by their float64 product with the query; see `find_nearest`."""
    scores = exact_scores(matrix, query, rows)
    if len(rows) <= _FAST_PATH_ROWS and _is_descending(scores.tolist()):  # an index mostly returns them in order
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
    """Whether all scores are in [-1, 1] and strictly descending."""
    return bool(scores) and scores[0] <= 1 and scores[-1] >= -1 and all(map(gt, scores, scores[1:]))


def exact_scores(matrix: Rows, query: Rows, rows: RowNumbers) -> NDArray[np.float64]:
    """The dot products of some rows with the query, in float64; due to rounding, slightly outside [-1, 1] at times."""
    query64 = query.astype(np.float64)
    if len(rows) <= _FEW_ROWS:
        few = matrix.take(rows, axis=0).astype(np.float64)  # a product of mixed types has more overhead
        few *= query64
        return np.asarray(np.add.reduce(few, axis=1))
    scores = np.empty(len(rows))
    for start in range(0, len(rows), _GATHER_ROWS):
        block = matrix[rows[start : start + _GATHER_ROWS]] * query64
        scores[start : start + _GATHER_ROWS] = block.sum(axis=1)  # the same sum at any position of the row
    return scores


def _scan_scores(matrix: Rows, query: Rows, allowed: AllowedRows) -> tuple[NDArray[np.float32], RowNumbers | None]:
    """float32 scores, and their row numbers (None: all rows, in order).

    `vecdot` runs in this thread. A matrix product would use several threads, which gains little, because memory
    bandwidth is the limit, and costs milliseconds whenever another process occupies a core.
    """
    if allowed is None:
        return np.vecdot(matrix, query), None
    is_mask = allowed.dtype == np.bool_
    if (np.count_nonzero(allowed) if is_mask else len(allowed)) <= _GATHER_SHARE * len(matrix):
        rows = np.flatnonzero(allowed) if is_mask else allowed.astype(np.int64, copy=False)
        return _gather_scores(matrix, query, rows), rows
    return np.where(to_mask(allowed, len(matrix)), np.vecdot(matrix, query), np.float32(-np.inf)), None


def _gather_scores(matrix: Rows, query: Rows, rows: RowNumbers) -> NDArray[np.float32]:
    scores = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _GATHER_ROWS):
        scores[start : start + _GATHER_ROWS] = np.vecdot(matrix[rows[start : start + _GATHER_ROWS]], query)
    return scores


def kth_score_floor(scores: NDArray[np.float32], k: int) -> float:
    """A close lower bound of the k-th highest score; -inf for `k` scores or fewer."""
    if len(scores) <= k:
        return -np.inf
    groups = len(scores) // _SCORE_GROUP
    if groups < 4 * k:
        return float(np.partition(scores, len(scores) - k)[-k])
    # If the maxima of k groups are at least t, then k scores are at least t: far fewer numbers to partition.
    # A group is a column of this array, so that the maximum is vectorized.
    highest = scores[: groups * _SCORE_GROUP].reshape(_SCORE_GROUP, groups).max(axis=0)
    return float(np.partition(highest, groups - k)[-k])
