"""Searches a matrix that only grows, and makes itself an 8-bit copy of it when there is enough to search.

The answers are those of `exact.nearest`, whether the copy is there or not. Beside a vector file the copy is kept in a
file as well (suffix `.i8`), which is nothing but a saving of time: it is checked when it is read, made anew when it
does not fit, and may be deleted at any time.
"""

from __future__ import annotations

import mmap
import secrets
import struct
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragkit.store.base import Rows
from ragkit.store.native.exact_search import AllowedRows, RowNumbers, SortKeys, find_nearest, rank_rows
from ragkit.store.native.int8_index import Int8Codes, Int8Index
from ragkit.store.native.vector_file import row_checksums

MIN_ROWS = 10_000
"""Fewer rows are searched in a fraction of a millisecond as they are."""
BUILD_AFTER_SEARCHES = 3
"""The search that makes the copy: a process that asks once or twice does not pay for it."""
_MAX_UNSAVED_SHARE = 0.1
"""The file is written anew when more than this share of the rows is missing in it."""

_MAGIC = b"ragk-i8\n"
_VERSION = 1
_HEADER = struct.Struct("<8sII16sQq")
"""Magic, version, dimension, id of the vector file, rows, checksum; padded to one line of cache."""
_HEADER_BYTES = 64


class Scanner:
    """Finds the nearest rows of one matrix. Several threads may use it; the matrix may have grown at each call."""

    def __init__(self, cache: Path | None = None, file_id: bytes = b"") -> None:
        """`cache` is where the copy is kept, for the matrix that `file_id` (16 bytes) names; None keeps none."""
        self._cache_path, self._file_id = cache, file_id
        self._lock = threading.Lock()
        self._index: Int8Index | None = None
        self._saved_rows = 0
        self._searches = 0

    def search(
        self, matrix: Rows, query: Rows, k: int, allowed: AllowedRows = None, order: SortKeys | None = None
    ) -> tuple[RowNumbers, NDArray[np.float64]]:
        """As `exact.nearest` says. The rows that were in the matrix at an earlier call must be the same."""
        index = self._get_index(matrix) if len(matrix) >= MIN_ROWS else None
        if index is None:
            return find_nearest(matrix, query, k, allowed, order)
        found = index.find_candidates(query, k, allowed, len(matrix))
        return rank_rows(matrix, query, k, found, order)

    def _get_index(self, matrix: Rows) -> Int8Index | None:
        """The copy, grown to the matrix; None when there is none yet, or another thread is at work on it."""
        if self._index is not None and self._index.rows >= len(matrix):
            return self._index
        if not self._lock.acquire(blocking=False):
            return None
        try:
            self._searches += 1
            if self._index is None:
                self._index = self._load(matrix)
            if self._index is None and self._searches >= BUILD_AFTER_SEARCHES:
                self._index = Int8Index.empty(matrix.shape[1])
            if self._index is not None and self._index.rows < len(matrix):
                self._index.grow(matrix)
                self._save(self._index)
            return self._index
        finally:
            self._lock.release()

    def _load(self, matrix: Rows) -> Int8Index | None:
        """The copy in the file, if it is whole and of this matrix."""
        if self._cache_path is None or self._searches > 1:
            return None
        with suppress(OSError, ValueError, struct.error), self._cache_path.open("rb") as file:
            # closed here, mapped for as long as the arrays live
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            magic, version, dimension, file_id, rows, stored = _HEADER.unpack_from(whole)
            fits = (magic, version, dimension, file_id) == (_MAGIC, _VERSION, matrix.shape[1], self._file_id)
            if not fits or rows > len(matrix) or len(whole) != _file_size(rows, dimension):
                return None
            numbers = np.frombuffer(whole, "<f4", 2 * rows, _HEADER_BYTES)
            codes = np.frombuffer(whole, np.int8, rows * dimension, _codes_offset(rows)).reshape(rows, dimension)
            if _checksum(codes, numbers) != stored:
                return None
            self._saved_rows = rows
            return Int8Index(codes, numbers[:rows], numbers[rows:])
        return None

    def _save(self, index: Int8Index) -> None:
        """Keep the copy, unless what is kept is nearly all of it. A directory that cannot be written is no error."""
        missing = index.rows - self._saved_rows
        if self._cache_path is None or missing <= _MAX_UNSAVED_SHARE * index.rows:
            return
        numbers = np.concatenate([index.scales, index.errors])
        dimension, stored = index.codes.shape[1], _checksum(index.codes, numbers)
        head = _HEADER.pack(_MAGIC, _VERSION, dimension, self._file_id, index.rows, stored).ljust(_HEADER_BYTES, b"\0")
        fresh = self._cache_path.with_name(f"{self._cache_path.name}.{secrets.token_hex(4)}")
        with suppress(OSError):
            try:
                with fresh.open("xb") as file:
                    file.write(head)
                    file.write(numbers.data)
                    file.write(bytes(_codes_offset(index.rows) - file.tell()))
                    file.write(np.ascontiguousarray(index.codes).data)
                # not synced: a file that a power cut left in pieces has a wrong checksum
                fresh.replace(self._cache_path)
                self._saved_rows = index.rows
            finally:
                fresh.unlink(missing_ok=True)


def _codes_offset(rows: int) -> int:
    return -(-(_HEADER_BYTES + 8 * rows) // 64) * 64


def _file_size(rows: int, dimension: int) -> int:
    return _codes_offset(rows) + rows * dimension


def _checksum(codes: Int8Codes, numbers: Rows) -> int:
    """One number over all of the copy; like `row_checksums`, it notices every single flipped bit."""
    if codes.shape[1] % 4:
        codes = np.pad(codes, ((0, 0), (0, -codes.shape[1] % 4)))
    sums = row_checksums(codes.view(np.float32))
    weights = np.arange(1, 2 * len(sums) + 1, 2, dtype=np.uint64)  # odd, and another one for each row
    total = int(np.dot(sums.view(np.uint64), weights)) + int(row_checksums(numbers[None])[0])
    return (total + 2**63) % 2**64 - 2**63
