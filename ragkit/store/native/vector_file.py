"""A matrix of float32 rows in one file that only grows at its end.

The file does not know which of its rows count: whoever owns it (a store, the catalog) keeps the number of
committed rows, the file's id and a checksum for each row in a database. The order of a write is: `append`, `sync`,
then commit the new number of rows. Rows behind that number are left over from a writer that was stopped; the next
`append` overwrites them.

Layout, little-endian: magic (8 bytes), version (4), dimension (4), file id (16), CRC-32 of all that (4), zeros up
to HEADER_BYTES; then the rows, without gaps. The header is one cache line, so that rows stay aligned for SIMD.
"""

from __future__ import annotations

import mmap
import os
import secrets
import struct
import threading
import zlib
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import KnowledgeBaseDamaged, StoreError
from ragkit.store.base import Rows

Checksums = NDArray[np.int64]
"""One signed 64-bit number a row, so that it fits a SQLite integer."""

MAGIC = b"ragkvec\n"
VERSION = 1
HEADER_BYTES = 64
_HEADER = struct.Struct("<8sII16s")
_BLOCK_ROWS = 16_384
_FEW_ROWS = 256


class VectorFile:
    """An open vector file; make one with `create` or `open`.

    One thread may write while others read: `append` never touches rows that `matrix` was asked for before. The
    owner sees to it that there is one writer at a time, across processes as well.
    """

    def __init__(self, path: Path, *, dimension: int, file_id: bytes, rows: int, fix: str, handle: int) -> None:
        """For `create` and `open` alone."""
        self.path = path
        self.dimension = dimension
        self.file_id = file_id
        self.rows = rows
        """Rows that count, appended ones included; set it back to drop what was appended."""
        self._repair_hint = fix
        self._handle = handle
        self._lock = threading.Lock()
        self._mapped: Rows = np.empty((0, max(0, dimension)), np.float32)

    @classmethod
    def create(cls, path: Path, dimension: int, *, fix: str) -> VectorFile:
        """A new, empty file of rows with `dimension` columns; it and its directory entry are on disk.

        Raises:
            FileExistsError: something is at `path`.
            StoreError: it cannot be written.
        """
        file_id = secrets.token_bytes(16)
        head = _HEADER.pack(MAGIC, VERSION, dimension, file_id)
        head += zlib.crc32(head).to_bytes(4, "little")
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            _write_at(handle, memoryview(head.ljust(HEADER_BYTES, b"\0")), 0)
            os.fsync(handle)
            _sync_directory(path.parent)
        except FileExistsError:
            raise
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror}") from error
        return cls(path, dimension=dimension, file_id=file_id, rows=0, fix=fix, handle=handle)

    @classmethod
    def open(
        cls, path: Path, *, dimension: int, file_id: bytes, rows: int, fix: str, writable: bool = False
    ) -> VectorFile:
        """The file that the owner's database speaks of.

        Args:
            path: where it is.
            dimension: columns of a row, as the database has it.
            file_id: the 16 bytes that `create` gave it, as the database has them.
            rows: how many rows are committed.
            fix: the command that helps when the file is damaged; it goes into the error.
            writable: whether `append` will be called.

        Raises:
            KnowledgeBaseDamaged: it is missing, cut short, not a vector file, or another one than the database speaks of.
        """
        try:
            handle = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        except OSError as error:
            reason = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be opened ({error.strerror})"
            raise KnowledgeBaseDamaged(str(path), reason, fix) from error
        file = cls(path, dimension=dimension, file_id=file_id, rows=rows, fix=fix, handle=handle)
        try:
            file._check_header()
            file._check_size(rows)
        except KnowledgeBaseDamaged:
            file.close()
            raise
        return file

    def append(self, rows: Rows) -> int:
        """Write (n, dimension) rows behind the last one that counts; returns the number of the first.

        They are on disk for sure only after `sync`.

        Raises:
            StoreError: the disk is full or fails.
        """
        first = self.rows
        body = np.ascontiguousarray(rows, "<f4").reshape(-1, self.dimension)
        try:
            _write_at(self._handle, body.reshape(-1).view(np.uint8).data, self._offset(first))
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from error
        self.rows = first + len(body)
        return first

    def sync(self) -> None:
        """Return when everything that was appended is on disk."""
        try:
            os.fdatasync(self._handle) if hasattr(os, "fdatasync") else os.fsync(self._handle)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from error

    def truncate(self, rows: int) -> None:
        """Cut the file behind its first `rows` rows; none of what goes may be in use by a reader."""
        os.ftruncate(self._handle, self._offset(rows))
        self.rows = rows
        with self._lock:
            self._mapped = np.empty((0, self.dimension), np.float32)

    def matrix(self, rows: int | None = None) -> Rows:
        """The first `rows` rows (all that count, when None) as a read-only view of the file, (rows, dimension).

        The view stays valid after `close` and after the file is deleted. Raises KnowledgeBaseDamaged when the file is too short.
        """
        wanted = self.rows if rows is None else rows
        with self._lock:
            self._check_size(wanted)
            if len(self._mapped) < wanted:
                self._mapped = self._map(wanted)
            return self._mapped[:wanted]

    def checksums(self, first: int = 0, n: int | None = None) -> Checksums:
        """The checksums of `n` rows from `first` on (up to the last, when None), read from the file."""
        last = self.rows if n is None else first + n
        return row_checksums(self.matrix(last)[first:])

    def verify(self, first: int, expected: Checksums) -> list[int]:
        """The numbers of the rows from `first` on whose checksum is not the expected one."""
        return [int(row) + first for row in np.flatnonzero(self.checksums(first, len(expected)) != expected)]

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)

    def _offset(self, row: int) -> int:
        return HEADER_BYTES + row * self.dimension * 4

    def _check_header(self) -> None:
        try:
            head = os.pread(self._handle, HEADER_BYTES, 0)
        except OSError as error:
            raise KnowledgeBaseDamaged(
                str(self.path), f"cannot be read ({error.strerror})", self._repair_hint
            ) from error
        if len(head) < HEADER_BYTES or head[:8] != MAGIC:
            raise KnowledgeBaseDamaged(str(self.path), "is not a vector file, or lost its head", self._repair_hint)
        _, version, dimension, file_id = _HEADER.unpack_from(head)
        if zlib.crc32(head[: _HEADER.size]) != int.from_bytes(head[_HEADER.size : _HEADER.size + 4], "little"):
            raise KnowledgeBaseDamaged(str(self.path), "has an altered head", self._repair_hint)
        if version != VERSION:
            raise KnowledgeBaseDamaged(
                str(self.path), f"has layout {version} where {VERSION} is known", self._repair_hint
            )
        if file_id != self.file_id or dimension != self.dimension:
            raise KnowledgeBaseDamaged(str(self.path), "belongs to another index", self._repair_hint)

    def _check_size(self, rows: int) -> None:
        size = os.fstat(self._handle).st_size
        if size < self._offset(rows):
            there = max(0, size - HEADER_BYTES) // (self.dimension * 4)
            raise KnowledgeBaseDamaged(
                str(self.path), f"is cut short: {there} of {rows} rows are there", self._repair_hint
            )

    def _map(self, rows: int) -> Rows:
        # the whole file, tail included: a file that grows a little at a time is then mapped again less often
        whole = mmap.mmap(self._handle, 0, access=mmap.ACCESS_READ)
        there = (len(whole) - HEADER_BYTES) // (self.dimension * 4)
        flat: NDArray[np.float32] = np.frombuffer(whole, "<f4", there * self.dimension, HEADER_BYTES)
        return flat.reshape(there, self.dimension)


def row_checksums(rows: Rows) -> Checksums:
    """A 64-bit sum for each row of (n, dimension): its words of 8 bytes, each times an odd weight, modulo 2**64.

    One flipped bit changes a word by 2**b, and so the sum by 2**b times an odd number, which is never 0 modulo
    2**64: every such error is found. Errors of several bits pass with a chance of about 2**-64 unless they are made
    on purpose; this is a guard against decay, not against forgery. 150 MB take about 6 ms (28 GB/s; CRC-32: 22 ms).
    """
    rows = np.ascontiguousarray(rows, "<f4")
    n, dimension = rows.shape
    if dimension % 2 == 0 and n <= _FEW_ROWS:  # `einsum` takes less for many rows, but longer to begin
        few: NDArray[np.uint64] = np.vecdot(rows.view("<u8"), _weights(dimension // 2))
        return few.view(np.int64)
    sums = np.empty(n, np.uint64)
    if dimension % 2 == 0:
        np.einsum("ij,j->i", rows.view("<u8"), _weights(dimension // 2), out=sums)
    else:
        weights = _weights(dimension)
        for start in range(0, n, _BLOCK_ROWS):  # in blocks: the widened copy is twice as large as the rows
            block = rows[start : start + _BLOCK_ROWS].view("<u4").astype(np.uint64)
            np.einsum("ij,j->i", block, weights, out=sums[start : start + _BLOCK_ROWS])
    return sums.view(np.int64)


@lru_cache(maxsize=16)
def _weights(n: int) -> NDArray[np.uint64]:
    """`n` fixed odd numbers: the stream of SplitMix64 (Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195)."""
    state = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (state ^ (state >> np.uint64(31))) | np.uint64(1)


def _write_at(handle: int, data: memoryview, offset: int) -> None:
    while len(data):
        written = os.pwrite(handle, data[: 1 << 28], offset)
        data, offset = data[written:], offset + written


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some file systems cannot sync a directory; the file itself is synced
            os.fsync(handle)
    finally:
        os.close(handle)
