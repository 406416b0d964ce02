"""The files of an embedded store while nobody has it open: their digests, bringing them to disk, taking them away.

No vector store that runs inside this process keeps checksums of all that it holds, and some never sync what they write
(measured: one flipped bit in three, or most power cuts, gave wrong or no answers without an error). So the files are
told by digests from outside. What a store changes when it is merely opened is left out of them, by file name.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

from ragkit.store.sqlite_files import open_shared_handle

BLOCK_BYTES = 1 << 20
"""Bytes that are read at a time; a block of zeros counts nothing, so that holes need not be read."""
LOCK_FILES = frozenset({"ragkit.lock", "LOCK", "store.lock"})
"""Files that hold nothing."""
CHROMA_DATABASE = "chroma.sqlite3"
_CHROMA_GRAPH_SUFFIXES, _CHROMA_GRAPH_METADATA = frozenset({".bin"}), "index_metadata.pickle"

FileDigests = dict[str, list[int]]
"""File, as a path from the store's own -> [size, CRC-32]."""


def list_files(place: Path) -> list[Path]:
    """Every file of a store: those in its directory, or the file itself and what lies beside it under its name."""
    found = place.rglob("*") if place.is_dir() else place.parent.glob(f"{place.name}*")
    return sorted(path for path in found if path.is_file())


def compute_digests(place: Path) -> FileDigests:
    """What the files hold now. Raises OSError."""
    return {
        str(path.relative_to(place.parent)): _compute_digest(path) for path in list_files(place) if _is_digested(path)
    }


def sync_files(place: Path) -> None:
    """Return when every file and every name is on disk, whatever the store itself has done. Raises OSError."""
    paths = [*list_files(place), *(path for path in place.rglob("*") if path.is_dir())]
    for path in [*paths, *([place] if place.is_dir() else []), place.parent]:
        with open_shared_handle(path) as handle:
            os.fsync(handle)


def remove_files(place: Path) -> None:
    """Take the store away."""
    if place.is_dir():
        shutil.rmtree(place)
    else:
        for path in list_files(place):
            path.unlink()


def _is_digested(path: Path) -> bool:
    """Whether what is in a file matters to the next who opens the store."""
    if path.name in LOCK_FILES or path.name.endswith("-shm"):
        return False
    if path.name.endswith("-wal"):  # a reader makes one, and leaves it empty
        return path.stat().st_size > 0
    if path.suffix in _CHROMA_GRAPH_SUFFIXES and (path.parent.parent / CHROMA_DATABASE).exists():
        # a graph that was never saved is built anew each time; what is in these files is then nobody's word
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
    """Where blocks begin that are not wholly a hole."""
    start = 0
    while start < size:
        try:
            data = os.lseek(handle, start, os.SEEK_DATA)
        except OSError:  # nothing but a hole is left
            return
        start = max(start, data // BLOCK_BYTES * BLOCK_BYTES)
        yield start
        start += BLOCK_BYTES


_HEADER_COUNTERS = (slice(24, 40), slice(92, 100))
"""In SQLite's first page: change counter, size in pages, free pages; and the counter's copy and writer's version."""


def _chroma_checksum(path: Path) -> int:
    """CRC-32 over the pages of Chroma's database, but for what each opening changes.

    Chroma writes a row into its table `acquire_write` whenever it is opened, and with it counters of the file's head.
    Source of the layout: sqlite.org/fileformat2.html, sections 1.3 and 1.6.
    """
    data = path.read_bytes()
    try:
        database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            row = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'acquire_write'").fetchone()
            [size] = database.execute("PRAGMA page_size").fetchone()
        finally:
            database.close()
    except sqlite3.DatabaseError:
        return zlib.crc32(data)
    left_out = _table_pages(data, size, row[0]) if row else set()
    head = bytearray(data[:size])
    for part in _HEADER_COUNTERS:
        head[part] = bytes(part.stop - part.start)
    crc = zlib.crc32(head)
    for number in range(2, len(data) // size + 1):
        page = memoryview(data)[(number - 1) * size : number * size]
        if number not in left_out:
            crc = zlib.crc32(page, zlib.crc32(number.to_bytes(8, "little"), crc))
    return crc


_INTERIOR_PAGE = 5
"""The first byte of a page that holds the numbers of the pages below it."""


def _table_pages(data: bytes, size: int, root: int) -> set[int]:
    """The pages of a table."""
    found, waiting = set[int](), [root]
    while waiting:
        number = waiting.pop()
        page = data[(number - 1) * size : number * size]
        if number in found or len(page) < size:
            continue
        found.add(number)
        if page[0] == _INTERIOR_PAGE:
            count = int.from_bytes(page[3:5], "big")
            cells = [int.from_bytes(page[12 + 2 * i : 14 + 2 * i], "big") for i in range(count)]
            waiting += [int.from_bytes(page[8:12], "big"), *(int.from_bytes(page[at : at + 4], "big") for at in cells)]
    return found
