"""Search a matrix that only grows, with an int8 copy of it if it is large.

The results are those of `exact_search.find_nearest`, with or without the copy. The copy of a vector file is cached in a
file (suffix `.i8`), which is verified when it is read, rebuilt if it does not match, and may be deleted at any time.
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
"""Fewer rows are scanned without a copy, in a fraction of a millisecond."""
BUILD_AFTER_SEARCHES = 3
"""The search that builds the copy, so that a process with one or two searches does not pay for it."""
_MAX_UNSAVED_SHARE = 0.1
"""The file is rewritten if it lacks more than this share of the rows."""

_MAGIC = b"ragk-i8\n"
_VERSION = 1
_HEADER = struct.Struct("<8sII16sQq")
"""Magic, version, dimension, id of the vector file, rows, checksum; padded to one cache line."""
_HEADER_BYTES = 64


class Scanner:
    """Finds the nearest rows of one matrix. Safe for several threads; the matrix may grow between calls."""

    def __init__(self, cache: Path | None = None, file_id: bytes = b"") -> None:
        """`cache` is the file for the copy of the matrix with this `file_id` (16 bytes); None for no file."""
        self._cache_path, self._file_id = cache, file_id
        self._lock = threading.Lock()
        self._index: Int8Index | None = None
        self._saved_rows = 0
        self._searches = 0

    def search(
        self, matrix: Rows, query: Rows, k: int, allowed: AllowedRows = None, order: SortKeys | None = None
    ) -> tuple[RowNumbers, NDArray[np.float64]]:
        """See `exact_search.find_nearest`. Rows of earlier calls must be unchanged."""
        index = self._get_index(matrix) if len(matrix) >= MIN_ROWS else None
        if index is None:
            return find_nearest(matrix, query, k, allowed, order)
        candidates = index.find_candidates(query, k, allowed, len(matrix))
        return rank_rows(matrix, query, k, candidates, order)

    def _get_index(self, matrix: Rows) -> Int8Index | None:
        """The copy, grown to the matrix; None if it is not built yet, or another thread is building it."""
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
        """The copy in the file, if it is intact and belongs to this matrix."""
        if self._cache_path is None or self._searches > 1:
            return None
        with suppress(OSError, ValueError, struct.error), self._cache_path.open("rb") as file:
            # the mapping outlives the file handle, as long as the arrays exist
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            magic, version, dimension, file_id, rows, stored = _HEADER.unpack_from(mapping)
            is_match = (magic, version, dimension, file_id) == (_MAGIC, _VERSION, matrix.shape[1], self._file_id)
            if not is_match or rows > len(matrix) or len(mapping) != _codes_offset(rows) + rows * dimension:
                return None
            numbers = np.frombuffer(mapping, "<f4", 2 * rows, _HEADER_BYTES)
            codes = np.frombuffer(mapping, np.int8, rows * dimension, _codes_offset(rows)).reshape(rows, dimension)
            if _checksum(codes, numbers) != stored:
                return None
            self._saved_rows = rows
            return Int8Index(codes, numbers[:rows], numbers[rows:])
        return None

    def _save(self, index: Int8Index) -> None:
        """Save the copy, unless the file has nearly all of it. Errors of the file system are ignored."""
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
                # not synced: the checksum detects a file that a power failure left incomplete
                fresh.replace(self._cache_path)
                self._saved_rows = index.rows
            finally:
                fresh.unlink(missing_ok=True)


def _codes_offset(rows: int) -> int:
    return -(-(_HEADER_BYTES + 8 * rows) // 64) * 64


def _checksum(codes: Int8Codes, numbers: Rows) -> int:
    """A checksum of the copy that, like `row_checksums`, detects every single flipped bit."""
    if codes.shape[1] % 4:
        codes = np.pad(codes, ((0, 0), (0, -codes.shape[1] % 4)))
    checksums = row_checksums(codes.view(np.float32))
    weights = np.arange(1, 2 * len(checksums) + 1, 2, dtype=np.uint64)  # odd and distinct
    total = int(np.dot(checksums.view(np.uint64), weights)) + int(row_checksums(numbers[None])[0])
    return (total + 2**63) % 2**64 - 2**63
