"""Verify vector rows against their checksums in the catalog, for a knowledge base without a checksum file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import KnowledgeBaseDamaged
from ragkit.index.catalog.checksums import read_checksums
from ragkit.index.catalog.directory import open_catalog, open_vectors, repair_command
from ragkit.index.catalog.sqlite import Catalog
from ragkit.store.native.vector_file import row_checksums


def verify_vector_rows(directory: Path, *, locked: bool = False) -> None:
    """Verify all vectors before a write session, if there is no checksum file.

    An interrupted run leaves no checksum file. The next run must not write checksums of rows damaged since then.

    Args:
        directory: the knowledge base.
        locked: the caller holds the writer lock; otherwise rows may be reported that another process is writing.

    Raises:
        NotAKnowledgeBase, KnowledgeBaseDamaged: as `open_catalog`.
    """
    with closing(open_catalog(directory, locked=locked)) as connection:
        if read_checksums(directory) is not None:
            return
        for embedder in Catalog(connection).embedders():
            with closing(open_vectors(directory, embedder)) as file:
                verify_rows(connection, embedder.key, file.matrix(embedder.rows), file.path, repair_command(directory))


def verify_rows(
    connection: sqlite3.Connection, embedder: int, matrix: NDArray[np.float32], path: Path, fix: str
) -> None:
    """Compare every vector row with its checksum in the catalog. Raises KnowledgeBaseDamaged."""
    bad = find_bad_rows(connection, embedder, matrix)
    if bad:
        raise KnowledgeBaseDamaged(str(path), f"has a checksum mismatch in {len(bad)} rows (first: {bad[0]})", fix)


def find_bad_rows(connection: sqlite3.Connection, embedder: int, matrix: NDArray[np.float32]) -> list[int]:
    """Numbers of the rows whose checksum differs or that the file lacks, ascending."""
    pairs = connection.execute("SELECT row, checksum FROM vectors WHERE embedder = ? ORDER BY row", (embedder,))
    rows, stored = np.ascontiguousarray(np.array(pairs.fetchall(), np.int64).reshape(-1, 2).T)
    present = (rows >= 0) & (rows < len(matrix))
    bad = ~present
    bad[present] = row_checksums(matrix)[rows[present]] != stored[present]
    return [int(row) for row in rows[bad]]
