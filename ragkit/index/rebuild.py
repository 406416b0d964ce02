"""Mend a knowledge base: rows, vectors and files that are not what was written are made again."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np

from ragkit.embed.base import Rows
from ragkit.errors import KnowledgeBaseError
from ragkit.index.catalog.checksums import CHECKSUM_FILE, find_changed_files, fsync_directory, read_checksums
from ragkit.index.catalog.directory import CATALOG_FILE, MARKER_FILE, read_marker_id, read_marker_roots
from ragkit.index.catalog.schema import CORRUPT_DATA_ERRORS, open_connection
from ragkit.index.catalog.sqlite import Catalog
from ragkit.store.native.vector_file import VectorFile, row_checksums

REBUILD_FOLDER = ".rebuild"
"""The folder in which a knowledge base is built again, inside the damaged one."""


class RecoveredState:
    """What can still be trusted of a damaged knowledge base: its sources, and vectors that match their checksums."""

    def __init__(self, directory: Path, fingerprint: str) -> None:
        self.roots = read_marker_roots(directory)
        self.text_hashes: list[bytes] = []
        self.vectors: Rows | None = None
        self.last_file_number = max((_file_number(path) for path in directory.glob("vectors-*.f32")), default=0)
        if not (directory / CATALOG_FILE).exists():
            return
        try:
            with closing(open_connection(directory / CATALOG_FILE)) as connection:
                if not _is_foreign_catalog(connection, directory):
                    if not (self.roots and _is_intact(directory, MARKER_FILE)):
                        self.roots = Catalog(connection).roots() or self.roots
                    self._recover_vectors(connection, directory, fingerprint)
        except (sqlite3.DatabaseError, KnowledgeBaseError, *CORRUPT_DATA_ERRORS):
            return  # whatever cannot be read is made again

    def _recover_vectors(self, connection: sqlite3.Connection, directory: Path, fingerprint: str) -> None:
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
        self.text_hashes = [text_hash for text_hash, _ in good]
        self.vectors = np.array(matrix[[row for _, row in good]])
        file.close()


def _is_intact(directory: Path, name: str) -> bool:
    """Whether a file is as it was when the last writer ended."""
    return name in (read_checksums(directory) or {}) and all(
        fault.file != name for fault in find_changed_files(directory)
    )


def _is_foreign_catalog(connection: sqlite3.Connection, directory: Path) -> bool:
    """Whether the catalog was put there from another knowledge base, so that its sources are not the ones wanted.

    The marker then has another id. Which of the two is the stranger, the seal knows; where a writer that was cut off
    left none, the vector files do, each of which is named with its own id in the catalog.
    """
    catalog = Catalog(connection)
    if read_marker_id(directory) in {None, catalog.get_meta("id")}:
        return False
    if read_checksums(directory) is not None:
        return any(fault.file == CATALOG_FILE for fault in find_changed_files(directory))
    named = connection.execute("SELECT file, dimension, file_id FROM embedders").fetchall()
    return not any(_has_vector_file(directory / file, dimension, file_id) for file, dimension, file_id in named)


def _has_vector_file(path: Path, dimension: int, file_id: bytes) -> bool:
    try:
        VectorFile.open(path, dimension=dimension, file_id=file_id, rows=0, fix="").close()
    except KnowledgeBaseError:
        return False
    return True


def replace_with_rebuilt(directory: Path) -> None:
    """Put the knowledge base that was built in `directory/.rebuild` in the place of the damaged one.

    The new vector files have names of their own; the rename of the catalog is the moment of the change. The old seal
    stays until the new one takes its place: cut off in between, the knowledge base is still known to be damaged.
    """
    new = directory / REBUILD_FOLDER
    old = [*directory.glob("vectors-*.f32"), directory / f"{CATALOG_FILE}-wal", directory / f"{CATALOG_FILE}-shm"]
    for name in ("-wal", "-shm"):
        # a log that belongs to the old catalog would be replayed into the new one
        (directory / f"{CATALOG_FILE}{name}").unlink(missing_ok=True)
    for path in new.glob("vectors-*.f32"):
        path.rename(directory / path.name)
    (new / CATALOG_FILE).rename(directory / CATALOG_FILE)
    (new / MARKER_FILE).rename(directory / MARKER_FILE)
    (new / CHECKSUM_FILE).rename(directory / CHECKSUM_FILE)
    fsync_directory(directory)
    for path in old:
        path.unlink(missing_ok=True)
    shutil.rmtree(new)


def _file_number(path: Path) -> int:
    digits = path.stem.removeprefix("vectors-")
    return int(digits) if digits.isdigit() else 0
