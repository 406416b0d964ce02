"""An int8 copy of a matrix: a quarter of the memory traffic, and still exact results.

Each row x is approximated by s * c, with integers c in [-127, 127] and a scale s, together with the length of the
error e = x - s * c. With the query q quantized in the same way (s', c', e'), the Cauchy-Schwarz inequality bounds the
error of the product:

    |x . q  -  s s' (c . c')|  <=  |e| |q| + (|x| + |e|) |e'|

Rows whose upper bound is below the k-th highest lower bound cannot be among the k nearest. The remaining rows, a few
dozen, are scored from the original rows, so that the results are exactly those of an exact search.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from simsimd import cdist

from ragkit.store.base import UNIT_TOLERANCE, Rows
from ragkit.store.native.exact_search import AllowedRows, RowNumbers, kth_score_floor, to_mask

Int8Codes = NDArray[np.int8]

_BUILD_ROWS = 2_048
_SCAN_ROWS = 16_384
"""Rows per block, so that the scores stay in the CPU cache."""
_GATHER_SHARE = 0.3
"""Up to this share of the rows, the allowed rows are gathered; above it, all rows are scanned."""
_ERROR_MARGIN = (1 + UNIT_TOLERANCE) * 1.001
"""Factor for the error lengths: covers rows slightly longer than 1, and rounding."""


class Int8Index:
    """The int8 copy of the first rows of a matrix that only grows. One thread may grow it while others search."""

    def __init__(self, codes: Int8Codes, scales: Rows, errors: Rows) -> None:
        """Codes (n, dimension), scales (n,) and errors (n,), as `quantize` returns them."""
        self.rows = len(codes)
        self._codes, self._scales, self._errors = codes, scales, errors

    @classmethod
    def from_matrix(cls, matrix: Rows) -> Int8Index:
        """The copy of a matrix of (n, dimension); 100,000 x 384 takes about 0.15 s."""
        index = cls.empty(matrix.shape[1])
        index.grow(matrix)
        return index

    @classmethod
    def empty(cls, dimension: int) -> Int8Index:
        """A copy without rows."""
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
        """Copy the new rows of the matrix; the rows before must be unchanged."""
        first, rows = self.rows, len(matrix)
        self._reserve(rows)
        for start in range(first, rows, _BUILD_ROWS):
            end = min(rows, start + _BUILD_ROWS)
            self._codes[start:end], self._scales[start:end], self._errors[start:end] = quantize(matrix[start:end])
        self.rows = rows

    def find_candidates(self, query: Rows, k: int, allowed: AllowedRows, rows: int) -> RowNumbers:
        """A superset of the `k` nearest among the first `rows` rows that are allowed, with few others."""
        code, scale, error = quantize(query[None])
        gathered = _select_rows(allowed, rows)
        codes = self._codes[:rows] if gathered is None else self._codes.take(gathered, axis=0)
        scales = self._scales[:rows] if gathered is None else self._scales.take(gathered)
        errors = self._errors[:rows] if gathered is None else self._errors.take(gathered)
        lowest = _lower_bounds(codes, code, scales * scale[0], errors)
        if gathered is None and allowed is not None:
            np.copyto(lowest, -np.inf, where=~to_mask(allowed, rows))
        longest = float(errors.max(initial=0))
        # the error of the query, which affects both the upper and the lower bounds
        margin = 2 * float(error[0]) * (_ERROR_MARGIN + longest) + 1e-6
        floor = min(kth_score_floor(lowest, k), 1.0) - margin  # scores above 1 are clipped to 1, and tie
        best = np.flatnonzero(lowest >= floor - 2 * longest) if floor > -np.inf else np.flatnonzero(lowest > -np.inf)
        best = best[lowest[best] + 2 * errors[best] >= floor]
        return best if gathered is None else gathered[best]

    def _reserve(self, rows: int) -> None:
        """Allocate memory for `rows` rows, and for half as many again if the index is not empty."""
        if rows <= len(self._scales):
            return
        size = rows + rows // 2 if self.rows else rows
        codes = np.empty((size, self._codes.shape[1]), np.int8)
        scales, errors = np.empty(size, np.float32), np.empty(size, np.float32)
        codes[: self.rows], scales[: self.rows], errors[: self.rows] = self.codes, self.scales, self.errors
        self._codes, self._scales, self._errors = codes, scales, errors


def quantize(rows: Rows) -> tuple[Int8Codes, Rows, Rows]:
    """Codes (n, dimension), scales (n,) and upper bounds of the lengths of the errors (n,)."""
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
    """Lower bounds of the products without the error of the query; the upper bounds are 2 * errors higher."""
    lowest = np.empty(len(codes), np.float32)
    for start in range(0, len(codes), _SCAN_ROWS):
        block = slice(start, start + _SCAN_ROWS)
        products = np.asarray(cdist(codes[block], code, "dot", out_dtype="float32")).reshape(-1)
        np.multiply(products, scales[block], out=lowest[block])
        np.subtract(lowest[block], errors[block], out=lowest[block])
    return lowest


def _select_rows(allowed: AllowedRows, rows: int) -> RowNumbers | None:
    """The numbers of the allowed rows if they are few enough to be gathered, otherwise None."""
    if allowed is None:
        return None
    if allowed.dtype != np.bool_:
        return allowed.astype(np.int64, copy=False) if len(allowed) <= _GATHER_SHARE * rows else None
    return np.flatnonzero(allowed) if np.count_nonzero(allowed) <= _GATHER_SHARE * rows else None
