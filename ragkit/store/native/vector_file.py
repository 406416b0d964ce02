"""A matrix of float32 rows in an append-only file.

The owner of the file (a store, the catalog) keeps the number of committed rows, the id of the file and a checksum for
each row in a database. A write is: `append`, `sync`, then commit the new number of rows. Rows beyond that number are
left over from an interrupted writer; the next `append` overwrites them.

Layout, little-endian: magic (8 bytes), version (4), dimension (4), file id (16), CRC-32 of these (4), zeros up to
HEADER_BYTES; then the rows, without gaps. The header is one cache line, so that rows stay aligned for SIMD.
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
"""One signed 64-bit integer per row, so that it fits into a SQLite integer."""

MAGIC = b"ragkvec\n"
VERSION = 1
HEADER_BYTES = 64
_HEADER = struct.Struct("<8sII16s")
_BLOCK_ROWS = 16_384
_FEW_ROWS = 256


class VectorFile:
    """An open vector file, from `create` or `open`.

    One thread may write while others read: `append` never changes rows that `matrix` returned before. The owner
    ensures that there is one writer at a time, across processes too.
    """

    def __init__(self, path: Path, *, dimension: int, file_id: bytes, rows: int, fix: str, handle: int) -> None:
        """Use `create` or `open`."""
        self.path = path
        self.dimension = dimension
        self.file_id = file_id
        self.rows = rows
        """Number of rows, appended ones included; decrease it to discard appended rows."""
        self._repair_hint = fix
        self._handle = handle
        self._lock = threading.Lock()
        self._mapped: Rows = np.empty((0, max(0, dimension)), np.float32)

    @classmethod
    def create(cls, path: Path, dimension: int, *, fix: str) -> VectorFile:
        """A new, empty file for vectors of `dimension`; syncs the file and its directory.

        Raises:
            FileExistsError: `path` exists.
            StoreError: the file cannot be written.
        """
        file_id = secrets.token_bytes(16)
        header = _HEADER.pack(MAGIC, VERSION, dimension, file_id)
        header += zlib.crc32(header).to_bytes(4, "little")
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            _write_at(handle, memoryview(header.ljust(HEADER_BYTES, b"\0")), 0)
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
        """Open an existing file and verify its header and size.

        Args:
            path: the file.
            dimension: expected dimension of the vectors.
            file_id: expected id, 16 bytes.
            rows: number of committed rows.
            fix: the command that repairs a damaged file, for error messages.
            writable: whether `append` will be called.

        Raises:
            KnowledgeBaseDamaged: the file is missing, truncated, not a vector file, or belongs to another index.
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
        """Append rows of (n, dimension); returns the number of the first. They are durable after `sync`.

        Raises:
            StoreError: the disk is full or failing.
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
        """Sync all appended rows to disk. Raises StoreError."""
        try:
            os.fdatasync(self._handle) if hasattr(os, "fdatasync") else os.fsync(self._handle)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from error

    def matrix(self, rows: int | None = None) -> Rows:
        """The first `rows` rows (None: all) as a read-only view of the file, (rows, dimension).

        The view stays valid after `close` and after the file is deleted. Raises KnowledgeBaseDamaged if the file is
        truncated.
        """
        count = self.rows if rows is None else rows
        with self._lock:
            self._check_size(count)
            if len(self._mapped) < count:
                self._mapped = self._map()
            return self._mapped[:count]

    def checksums(self, first: int = 0, n: int | None = None) -> Checksums:
        """The checksums of `n` rows from `first` on (None: up to the last), read from the file."""
        last = self.rows if n is None else first + n
        return row_checksums(self.matrix(last)[first:])

    def close(self) -> None:
        """Close the file; may be called twice."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)

    def _offset(self, row: int) -> int:
        return HEADER_BYTES + row * self.dimension * 4

    def _check_header(self) -> None:
        try:
            header = os.pread(self._handle, HEADER_BYTES, 0)
        except OSError as error:
            raise self._damaged(f"cannot be read ({error.strerror})") from error
        if len(header) < HEADER_BYTES or header[:8] != MAGIC:
            raise self._damaged("is not a vector file, or has a damaged header")
        _, version, dimension, file_id = _HEADER.unpack_from(header)
        if zlib.crc32(header[: _HEADER.size]) != int.from_bytes(header[_HEADER.size : _HEADER.size + 4], "little"):
            raise self._damaged("has a checksum mismatch in its header")
        if version != VERSION:
            raise self._damaged(f"has layout {version}, expected {VERSION}")
        if file_id != self.file_id or dimension != self.dimension:
            raise self._damaged("belongs to another index")

    def _check_size(self, rows: int) -> None:
        size = os.fstat(self._handle).st_size
        if size < self._offset(rows):
            present = max(0, size - HEADER_BYTES) // (self.dimension * 4)
            raise self._damaged(f"is truncated ({present} of {rows} rows)")

    def _damaged(self, reason: str) -> KnowledgeBaseDamaged:
        return KnowledgeBaseDamaged(str(self.path), reason, self._repair_hint)

    def _map(self) -> Rows:
        # the whole file, including uncommitted rows, so that a growing file is remapped less often
        mapping = mmap.mmap(self._handle, 0, access=mmap.ACCESS_READ)
        rows = (len(mapping) - HEADER_BYTES) // (self.dimension * 4)
        flat: NDArray[np.float32] = np.frombuffer(mapping, "<f4", rows * self.dimension, HEADER_BYTES)
        return flat.reshape(rows, self.dimension)


def row_checksums(rows: Rows) -> Checksums:
    """A 64-bit checksum for each row of (n, dimension): its 8-byte words, each times an odd weight, summed mod 2**64.

    One flipped bit changes a word by 2**b, and so the sum by 2**b times an odd number, which is never 0 modulo
    2**64: every such error is detected. Errors of several bits pass with a probability of about 2**-64. The checksum
    detects corruption, not tampering. 150 MB take about 6 ms (28 GB/s; CRC-32: 22 ms).
    """
    rows = np.ascontiguousarray(rows, "<f4")
    n, dimension = rows.shape
    if dimension % 2 == 0 and n <= _FEW_ROWS:  # `einsum` is faster for many rows, but has more overhead
        few: NDArray[np.uint64] = np.vecdot(rows.view("<u8"), _weights(dimension // 2))
        return few.view(np.int64)
    checksums = np.empty(n, np.uint64)
    if dimension % 2 == 0:
        np.einsum("ij,j->i", rows.view("<u8"), _weights(dimension // 2), out=checksums)
    else:
        weights = _weights(dimension)
        for start in range(0, n, _BLOCK_ROWS):  # in blocks, because the uint64 copy is twice as large as the rows
            block = rows[start : start + _BLOCK_ROWS].view("<u4").astype(np.uint64)
            np.einsum("ij,j->i", block, weights, out=checksums[start : start + _BLOCK_ROWS])
    return checksums.view(np.int64)


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
        with suppress(OSError):  # some file systems cannot sync a directory
            os.fsync(handle)
    finally:
        os.close(handle)
