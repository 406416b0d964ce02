"""A copy of a matrix in 8 bits: a quarter of the bytes to read, and still exactly the nearest rows.

Each row x is kept as s * c, with whole numbers c in [-127, 127] and a scale s, along with the length of the error
e = x - s * c. For a query q, kept in the same way, Cauchy and Schwarz bound what the product of the copies is off by:

    |x . q  -  s s' (c . c')|  <=  |e| |q| + (|x| + |e|) |e'|

Rows whose upper bound is below the k-th highest lower bound cannot be among the k nearest. What is left (some tens of
rows) is scored from the rows themselves, so that the answer is that of an exact search, proven and not estimated.
"""

from __future__ import annotations

import numpy as np
from numkong import cdist
from numpy.typing import NDArray

from ragkit.store.base import UNIT_TOLERANCE, Rows
from ragkit.store.native.exact_search import AllowedRows, RowNumbers, kth_score_floor

Int8Codes = NDArray[np.int8]

_BUILD_ROWS = 2_048
_SCAN_ROWS = 16_384
"""Rows at a time: their scores stay in the processor's cache."""
_GATHER_SHARE = 0.3
"""Up to this share of the rows they are picked out one by one; above it all are scanned."""
_ERROR_MARGIN = (1 + UNIT_TOLERANCE) * 1.001
"""Errors are kept a little too long: for rows that are a little longer than 1, and for rounding."""


class Int8Index:
    """The 8-bit copy of the first rows of a matrix that only grows. One thread may grow it while others search."""

    def __init__(self, codes: Int8Codes, scales: Rows, errors: Rows) -> None:
        """Codes (n, dimension), scales (n,) and errors (n,), as `of` makes them and the properties give them."""
        self.rows = len(codes)
        self._codes, self._scales, self._errors = codes, scales, errors

    @classmethod
    def from_matrix(cls, matrix: Rows) -> Int8Index:
        """The copy of a matrix of (n, dimension). 100,000 x 384 take about 0.15 s."""
        index = cls.empty(matrix.shape[1])
        index.grow(matrix)
        return index

    @classmethod
    def empty(cls, dimension: int) -> Int8Index:
        """The copy of no rows yet."""
        return cls(np.empty((0, dimension), np.int8), np.empty(0, np.float32), np.empty(0, np.float32))

    @property
    def codes(self) -> Int8Codes:
        """(rows, dimension)"""
        return self._codes[: self.rows]

    @property
    def scales(self) -> Rows:
        """(rows,)"""
        return self._scales[: self.rows]

    @property
    def errors(self) -> Rows:
        """(rows,): upper bounds of the lengths of x - s * c."""
        return self._errors[: self.rows]

    def grow(self, matrix: Rows) -> None:
        """Copy the rows of the matrix that are not here yet; the ones that are must be the same as before."""
        first, rows = self.rows, len(matrix)
        self._reserve(rows)
        for start in range(first, rows, _BUILD_ROWS):
            end = min(rows, start + _BUILD_ROWS)
            self._codes[start:end], self._scales[start:end], self._errors[start:end] = quantize(matrix[start:end])
        self.rows = rows

    def find_candidates(self, query: Rows, k: int, allowed: AllowedRows, rows: int) -> RowNumbers:
        """Rows among the first `rows` and the allowed ones that hold the `k` nearest to the query, and few others."""
        code, scale, error = quantize(query[None])
        picked = _select_rows(allowed, rows)
        codes = self._codes[:rows] if picked is None else self._codes.take(picked, axis=0)
        scales = self._scales[:rows] if picked is None else self._scales.take(picked)
        errors = self._errors[:rows] if picked is None else self._errors.take(picked)
        lowest = _lower_bounds(codes, code, scales * scale[0], errors)
        mask = _as_mask(allowed, rows) if picked is None and allowed is not None else None
        if mask is not None:
            np.copyto(lowest, -np.inf, where=~mask)
        longest = float(errors.max(initial=0))
        # what the query's own error may add, to the upper bounds as well as to the lower ones
        room = 2 * float(error[0]) * (_ERROR_MARGIN + longest) + 1e-6
        floor = min(kth_score_floor(lowest, k), 1.0) - room  # all scores above 1 are cut to 1, and tie
        found = np.flatnonzero(lowest >= floor - 2 * longest) if floor > -np.inf else np.flatnonzero(lowest > -np.inf)
        found = found[lowest[found] + 2 * errors[found] >= floor]
        return found if picked is None else picked[found]

    def _reserve(self, rows: int) -> None:
        """Room for so many rows, and for half as many again when there were some before: growing stays cheap."""
        if rows <= len(self._scales):
            return
        size = rows + rows // 2 if self.rows else rows
        codes = np.empty((size, self._codes.shape[1]), np.int8)
        scales, errors = np.empty(size, np.float32), np.empty(size, np.float32)
        codes[: self.rows], scales[: self.rows], errors[: self.rows] = self.codes, self.scales, self.errors
        self._codes, self._scales, self._errors = codes, scales, errors


def quantize(rows: Rows) -> tuple[Int8Codes, Rows, Rows]:
    """Codes (n, dimension), scales (n,) and upper bounds of the errors' lengths (n,) of some rows."""
    peaks = np.maximum(rows.max(axis=1), -rows.min(axis=1))
    peaks[peaks == 0] = 1
    scales: Rows = peaks / np.float32(127)
    scaled = rows * (np.float32(127) / peaks)[:, None]
    np.rint(scaled, out=scaled)
    codes = scaled.astype(np.int8)
    scaled *= scales[:, None]
    scaled -= rows
    errors = np.sqrt(np.einsum("ij,ij->i", scaled, scaled)) * np.float32(_ERROR_MARGIN) + np.float32(1e-7)
    return codes, scales, errors


def _lower_bounds(codes: Int8Codes, code: Int8Codes, scales: Rows, errors: Rows) -> Rows:
    """Lower bounds of the products, but for what the query's error takes off; the upper ones are 2 * errors higher."""
    lowest = np.empty(len(codes), np.float32)
    for start in range(0, len(codes), _SCAN_ROWS):
        part = slice(start, start + _SCAN_ROWS)
        products = np.asarray(cdist(codes[part], code, "dot", out_dtype="float32")).reshape(-1)
        np.multiply(products, scales[part], out=lowest[part])
        np.subtract(lowest[part], errors[part], out=lowest[part])
    return lowest


def _select_rows(allowed: AllowedRows, rows: int) -> RowNumbers | None:
    """The row numbers, when few enough rows are allowed to pick them out one by one."""
    if allowed is None:
        return None
    if allowed.dtype != np.bool_:
        return allowed.astype(np.int64, copy=False) if len(allowed) <= _GATHER_SHARE * rows else None
    return np.flatnonzero(allowed) if np.count_nonzero(allowed) <= _GATHER_SHARE * rows else None


def _as_mask(allowed: NDArray[np.bool_] | RowNumbers, rows: int) -> NDArray[np.bool_]:
    if allowed.dtype == np.bool_:
        return allowed.astype(np.bool_, copy=False)
    mask = np.zeros(rows, bool)
    mask[allowed] = True
    return mask
