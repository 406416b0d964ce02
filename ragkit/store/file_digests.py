"""Digest, sync and remove the files of an embedded store that is closed.

No embedded vector store keeps checksums of all its data, and some never sync their writes (measured: one flipped bit
in three, or most power failures, gave wrong or no results without an error). Digests of the files detect that. Bytes
that a store changes whenever it is opened are excluded from the digests.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragkit.sqlite_errors import DATABASE_ERRORS
from ragkit.store.sqlite_files import open_shared_handle

BLOCK_BYTES = 1 << 20
"""Bytes read at a time. Blocks of zeros do not change a digest, so that holes of sparse files can be skipped."""
LOCK_FILES = frozenset({"ragkit.lock", "LOCK", "store.lock"})
"""Files without content, excluded from the digests."""
_SQLITE_LOGS = ("-wal", "-shm")
CHROMA_DATABASE = "chroma.sqlite3"
_CHROMA_GRAPH_SUFFIXES, _CHROMA_GRAPH_METADATA = frozenset({".bin"}), "index_metadata.pickle"

FileDigests = dict[str, list[int]]
"""Path, relative to the parent of the store -> [size, CRC-32]."""


def list_files(location: Path) -> list[Path]:
    """Every file of a store: the files in its directory, or the files whose names start with that of its file."""
    paths = location.rglob("*") if location.is_dir() else location.parent.glob(f"{location.name}*")
    return sorted(path for path in paths if path.is_file())


def compute_digests(location: Path) -> FileDigests:
    """The digests of the current files. Raises OSError."""
    digests: FileDigests = {}
    for path in list_files(location):
        with _deleted_logs_ignored(path):
            if _is_digested(path):
                digests[str(path.relative_to(location.parent))] = _compute_digest(path)
    return digests


def sync_files(location: Path) -> None:
    """Sync every file and directory of the store to disk. Raises OSError."""
    paths = [*list_files(location), *(path for path in location.rglob("*") if path.is_dir())]
    for path in [*paths, *([location] if location.is_dir() else []), location.parent]:
        with _deleted_logs_ignored(path), open_shared_handle(path) as handle:
            os.fsync(handle)


def remove_files(location: Path) -> None:
    """Delete the store."""
    if location.is_dir():
        shutil.rmtree(location)
    else:
        for path in list_files(location):
            path.unlink()


@contextmanager
def _deleted_logs_ignored(path: Path) -> Iterator[None]:
    """Ignore that a file is gone if it is SQLite's log: a reader that closes the database last deletes it."""
    try:
        yield
    except FileNotFoundError:
        if not path.name.endswith(_SQLITE_LOGS):
            raise


def _is_digested(path: Path) -> bool:
    if path.name in LOCK_FILES or path.name.endswith("-shm"):
        return False
    if path.name.endswith("-wal"):  # readers create an empty one
        return path.stat().st_size > 0
    if path.suffix in _CHROMA_GRAPH_SUFFIXES and (path.parent.parent / CHROMA_DATABASE).exists():
        # without its metadata, Chroma rebuilds the graph whenever it is opened: the content is excluded from the digest
        return (path.parent / _CHROMA_GRAPH_METADATA).exists()
    return True


def _compute_digest(path: Path) -> list[int]:
    if path.name == CHROMA_DATABASE:
        return [0, _chroma_checksum(path)]
    with open_shared_handle(path) as handle:
        size, crc = os.fstat(handle).st_size, 0
        for start in _data_blocks(handle, size):
            block = os.pread(handle, BLOCK_BYTES, start)
            if block.count(0) < len(block):
                crc = zlib.crc32(block, zlib.crc32(start.to_bytes(8, "little"), crc))
    return [size, crc]


def _data_blocks(handle: int, size: int) -> Iterator[int]:
    """The offsets of the blocks that contain data, not only a hole."""
    start = 0
    while start < size:
        try:
            data = os.lseek(handle, start, os.SEEK_DATA)
        except OSError:  # the rest is a hole
            return
        start = max(start, data // BLOCK_BYTES * BLOCK_BYTES)
        yield start
        start += BLOCK_BYTES


_HEADER_COUNTERS = (slice(24, 40), slice(92, 100))
"""In SQLite's header: change counter, size, free pages; and the copy of the counter with the writer's version."""


def _chroma_checksum(path: Path) -> int:
    """CRC-32 over the pages of Chroma's database, except for what every opening changes.

    Whenever Chroma opens the database, it inserts a row into the table `acquire_write`, which changes counters in the
    header too. Source of the layout: sqlite.org/fileformat2.html, sections 1.3 and 1.6.
    """
    data = path.read_bytes()
    try:
        database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            row = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'acquire_write'").fetchone()
            [size] = database.execute("PRAGMA page_size").fetchone()
        finally:
            database.close()
    except DATABASE_ERRORS:
        return zlib.crc32(data)
    excluded = _table_pages(data, size, row[0]) if row else set()
    first_page = bytearray(data[:size])
    for counters in _HEADER_COUNTERS:
        first_page[counters] = bytes(counters.stop - counters.start)
    crc = zlib.crc32(first_page)
    for number in range(2, len(data) // size + 1):
        page = memoryview(data)[(number - 1) * size : number * size]
        if number not in excluded:
            crc = zlib.crc32(page, zlib.crc32(number.to_bytes(8, "little"), crc))
    return crc


_INTERIOR_PAGE = 5
"""The first byte of an interior page of a B-tree, which holds the numbers of its child pages."""


def _table_pages(data: bytes, size: int, root: int) -> set[int]:
    """The numbers of the pages of a table."""
    numbers, pending = set[int](), [root]
    while pending:
        number = pending.pop()
        page = data[(number - 1) * size : number * size]
        if number in numbers or len(page) < size:
            continue
        numbers.add(number)
        if page[0] == _INTERIOR_PAGE:
            count = int.from_bytes(page[3:5], "big")
            cells = [int.from_bytes(page[12 + 2 * i : 14 + 2 * i], "big") for i in range(count)]
            pending += [int.from_bytes(page[8:12], "big"), *(int.from_bytes(page[at : at + 4], "big") for at in cells)]
    return numbers
