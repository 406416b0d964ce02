"""The vectors that searches compute for chunks that no index run has embedded yet.

They are kept in memory and in a file beside the catalog: records of one size, each with the hash of its text, a
checksum and the vector. Searches append to the file if no other process does so at this moment; what cannot be written
now, or in a directory that cannot be written to, stays in memory. Index runs move the records to the catalog.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from threading import Lock

import numpy as np

from ragkit.embed.base import Row, Rows

KEPT_FILE = "searched.f32"
_MAGIC = b"ragkit searched1"
_HASH_BYTES, _CHECKSUM_BYTES = 16, 8
_HEADER_BYTES = len(_MAGIC) + 16


class KeptVectors:
    """The kept vectors of one embedder in one knowledge base. Safe for several threads and processes."""

    def __init__(self, directory: Path, fingerprint: str, dimension: int) -> None:
        self._path = directory / KEPT_FILE
        self._header = _MAGIC + blake2b(f"{fingerprint} {dimension}".encode(), digest_size=16).digest()
        self._dimension = dimension
        self._lock = Lock()
        self._rows: dict[bytes, Row] = {}
        self._unwritten: dict[bytes, Row] = {}
        self._read_bytes = 0

    def find(self, hashes: Sequence[bytes]) -> dict[bytes, Row]:
        """The known vectors of these texts, also those that other processes have written."""
        with self._lock:
            self._read_new_records()
            return {key: self._rows[key] for key in hashes if key in self._rows}

    def add(self, hashes: Sequence[bytes], rows: Rows) -> None:
        """Keep vectors of texts; they are in the file unless it cannot be written now."""
        with self._lock:
            new = dict(zip(hashes, rows, strict=True))
            self._rows.update(new)
            self._unwritten.update(new)
            with suppress(OSError), _open_locked(self._path, wait=False) as handle:
                self._append(handle)

    @contextmanager
    def take(self) -> Iterator[Mapping[bytes, Row]]:
        """The vectors in the file, which is emptied at the end of the block unless an error ends it.

        The caller holds the writer lock. Searches that compute vectors meanwhile do not wait: they write them later.
        """
        if not self._path.exists():
            yield {}
            return
        with _open_locked(self._path, wait=True) as handle:
            yield self._read_records(handle, 0)
            os.ftruncate(handle, 0)

    def _append(self, handle: int) -> None:
        size = os.fstat(handle).st_size
        if os.pread(handle, _HEADER_BYTES, 0) != self._header:  # new, emptied, or of another embedder
            os.ftruncate(handle, 0)
            os.pwrite(handle, self._header, 0)
            size = _HEADER_BYTES
        end = size - (size - _HEADER_BYTES) % self._record_bytes  # a record that was cut off is replaced
        data = b"".join(_pack(key, row) for key, row in self._unwritten.items())
        if os.pwrite(handle, data, end) == len(data):
            self._unwritten.clear()

    @property
    def _record_bytes(self) -> int:
        return _HASH_BYTES + _CHECKSUM_BYTES + 4 * self._dimension

    def _read_new_records(self) -> None:
        try:
            size = self._path.stat().st_size
        except OSError:
            return
        if size == self._read_bytes:
            return
        with suppress(OSError):
            handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                start = self._read_bytes if size > self._read_bytes else 0
                self._rows.update(self._read_records(handle, start))
                self._read_bytes = size - max(0, size - _HEADER_BYTES) % self._record_bytes
            finally:
                os.close(handle)

    def _read_records(self, handle: int, start: int) -> dict[bytes, Row]:
        """The intact records from a position on; none of another embedder."""
        if os.pread(handle, _HEADER_BYTES, 0) != self._header:
            return {}
        start = max(start, _HEADER_BYTES)
        data = os.pread(handle, max(0, os.fstat(handle).st_size - start), start)
        found: dict[bytes, Row] = {}
        for place in range(0, len(data) - self._record_bytes + 1, self._record_bytes):
            record = data[place : place + self._record_bytes]
            key, checksum, body = record[:16], record[16:24], record[24:]
            if _checksum(key, body) == checksum:
                found[key] = np.frombuffer(body, "<f4")
        return found


def empty_kept_vectors(directory: Path) -> None:
    """Delete the kept vectors of a knowledge base. The caller holds the writer lock."""
    if (directory / KEPT_FILE).exists():
        with _open_locked(directory / KEPT_FILE, wait=True) as handle:
            os.ftruncate(handle, 0)


def _pack(key: bytes, row: Row) -> bytes:
    body = np.ascontiguousarray(row, "<f4").tobytes()
    return key + _checksum(key, body) + body


def _checksum(key: bytes, body: bytes) -> bytes:
    return blake2b(key + body, digest_size=_CHECKSUM_BYTES).digest()


@contextmanager
def _open_locked(path: Path, *, wait: bool) -> Iterator[int]:
    """Open and lock the file. Raises BlockingIOError if another process has locked it, unless `wait` is set."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield handle
    finally:
        os.close(handle)
