"""Mend a knowledge base: rows, vectors and files that are not what was written are made again."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np

from ragkit.embed.base import Rows
from ragkit.errors import KnowledgeBaseError
from ragkit.index.catalog import Catalog
from ragkit.index.home import CATALOG, MARKER, marked_roots, marker_id
from ragkit.index.schema import UNREADABLE, connect
from ragkit.index.seal import SEAL_FILE, broken_seals, read_seal, sync_directory
from ragkit.store.vectorfile import VectorFile, row_checksums

REBUILD = ".rebuild"
"""The folder in which a knowledge base is built again, inside the damaged one."""


class Salvage:
    """What can still be trusted of a damaged knowledge base: its sources, and vectors that match their checksums."""

    def __init__(self, directory: Path, fingerprint: str) -> None:
        self.roots = marked_roots(directory)
        self.hashes: list[bytes] = []
        self.rows: Rows | None = None
        self.last_file = max((_number(path) for path in directory.glob("vectors-*.f32")), default=0)
        if not (directory / CATALOG).exists():
            return
        try:
            with closing(connect(directory / CATALOG)) as connection:
                if not _is_foreign(connection, directory):
                    if not (self.roots and _is_sealed(directory, MARKER)):
                        self.roots = Catalog(connection).roots() or self.roots
                    self._vectors(connection, directory, fingerprint)
        except (sqlite3.DatabaseError, KnowledgeBaseError, *UNREADABLE):
            return  # whatever cannot be read is made again

    def _vectors(self, connection: sqlite3.Connection, directory: Path, fingerprint: str) -> None:
        embedder = Catalog(connection).embedder(fingerprint)
        if embedder is None:
            return
        file = VectorFile.open(
            directory / embedder.file,
            dimension=embedder.dimension,
            file_id=embedder.file_id,
            rows=embedder.rows,
            fix="",
        )
        matrix = file.matrix(embedder.rows)
        sums = row_checksums(matrix)
        query = "SELECT text_hash, row, checksum FROM vectors WHERE embedder = ? ORDER BY row"
        pairs = connection.execute(query, (embedder.key,))
        good = [(h, row) for h, row, crc in pairs if 0 <= row < len(sums) and sums[row] == crc]
        self.hashes = [text_hash for text_hash, _ in good]
        self.rows = np.array(matrix[[row for _, row in good]])
        file.close()


def _is_sealed(directory: Path, name: str) -> bool:
    """Whether a file is as it was when the last writer ended."""
    return name in (read_seal(directory) or {}) and all(fault.file != name for fault in broken_seals(directory))


def _is_foreign(connection: sqlite3.Connection, directory: Path) -> bool:
    """Whether the catalog was put there from another knowledge base, so that its sources are not the ones wanted.

    The marker then has another id. Which of the two is the stranger, the seal knows; where a writer that was cut off
    left none, the vector files do, each of which is named with its own id in the catalog.
    """
    catalog = Catalog(connection)
    if marker_id(directory) in {None, catalog.get("id")}:
        return False
    if read_seal(directory) is not None:
        return any(fault.file == CATALOG for fault in broken_seals(directory))
    named = connection.execute("SELECT file, dimension, file_id FROM embedders").fetchall()
    return not any(_is_here(directory / file, dimension, file_id) for file, dimension, file_id in named)


def _is_here(path: Path, dimension: int, file_id: bytes) -> bool:
    try:
        VectorFile.open(path, dimension=dimension, file_id=file_id, rows=0, fix="").close()
    except KnowledgeBaseError:
        return False
    return True


def swap_in(directory: Path) -> None:
    """Put the knowledge base that was built in `directory/.rebuild` in the place of the damaged one.

    The new vector files have names of their own; the rename of the catalog is the moment of the change. The old seal
    stays until the new one takes its place: cut off in between, the knowledge base is still known to be damaged.
    """
    new = directory / REBUILD
    old = [*directory.glob("vectors-*.f32"), directory / f"{CATALOG}-wal", directory / f"{CATALOG}-shm"]
    for name in ("-wal", "-shm"):
        # a log that belongs to the old catalog would be replayed into the new one
        (directory / f"{CATALOG}{name}").unlink(missing_ok=True)
    for path in new.glob("vectors-*.f32"):
        path.rename(directory / path.name)
    (new / CATALOG).rename(directory / CATALOG)
    (new / MARKER).rename(directory / MARKER)
    (new / SEAL_FILE).rename(directory / SEAL_FILE)
    sync_directory(directory)
    for path in old:
        path.unlink(missing_ok=True)
    shutil.rmtree(new)


def _number(path: Path) -> int:
    digits = path.stem.removeprefix("vectors-")
    return int(digits) if digits.isdigit() else 0
