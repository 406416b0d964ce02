"""Where no seal vouches for the files of a knowledge base: each vector row against its checksum in the catalog."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import KnowledgeBaseDamaged
from ragkit.index.catalog.checksums import read_checksums
from ragkit.index.catalog.directory import open_catalog, repair_command
from ragkit.store.native.vector_file import VectorFile, row_checksums


def verify_vector_rows(directory: Path) -> None:
    """Before a knowledge base is written to: hold its vectors against their checksums, where no seal vouches for them.

    A run that was cut off leaves no seal; what rotted since must not be sealed by the next one.

    Raises:
        NotAKnowledgeBase, KnowledgeBaseDamaged: as `open_catalog`.
    """
    with closing(open_catalog(directory)) as connection:
        if read_checksums(directory) is not None:
            return
        fix = repair_command(directory)
        for key, dimension, name, file_id, rows in connection.execute(
            "SELECT key, dimension, file, file_id, rows FROM embedders"
        ).fetchall():
            path = directory / name
            with closing(VectorFile.open(path, dimension=dimension, file_id=file_id, rows=rows, fix=fix)) as file:
                verify_rows(connection, key, file.matrix(rows), path, fix)


def verify_rows(
    connection: sqlite3.Connection, embedder: int, matrix: NDArray[np.float32], path: Path, fix: str
) -> None:
    """Hold every vector row against the checksum that the catalog has of it. Raises KnowledgeBaseDamaged."""
    bad = find_bad_rows(connection, embedder, matrix)
    if bad:
        raise KnowledgeBaseDamaged(str(path), f"is not what was written ({len(bad)} rows, the first is {bad[0]})", fix)


def find_bad_rows(connection: sqlite3.Connection, embedder: int, matrix: NDArray[np.float32]) -> list[int]:
    """The numbers of the rows that differ from their checksum, or that the file does not have, rising."""
    pairs = connection.execute("SELECT row, checksum FROM vectors WHERE embedder = ? ORDER BY row", (embedder,))
    rows, stored = np.ascontiguousarray(np.array(pairs.fetchall(), np.int64).reshape(-1, 2).T)
    there = (rows >= 0) & (rows < len(matrix))
    wrong = ~there
    wrong[there] = row_checksums(matrix)[rows[there]] != stored[there]
    return [int(row) for row in rows[wrong]]
