"""Remove unused vectors from the vector file of a knowledge base when there are too many.

Vectors of deleted texts are kept for a while, because texts come back: a file is moved, a change is undone. A vector
file is append-only, so compaction writes a new file under a new name; open readers keep using the old one.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import StoreError
from ragkit.index.catalog.sqlite import Catalog, EmbedderRow
from ragkit.index.catalog.write_session import WriteSession
from ragkit.store.native.vector_file import VectorFile

MIN_UNUSED_VECTORS = 1_000
"""No compaction below this number of unused vectors, nor while there are fewer unused vectors than used ones."""
_COPY_BATCH_ROWS = 8_192
"""Rows copied at a time."""


def compact_vectors(session: WriteSession, embedder: EmbedderRow, vectors: VectorFile) -> VectorFile:
    """Copy the used rows to a new vector file if too many rows are unused; returns the file to use.

    Nothing is embedded. If the disk is full, the old file stays; a crash leaves either the old file or the new one.

    Args:
        session: the write session, with no open transaction.
        embedder: owner of the file; ignored unless it is the embedder of the current chunks.
        vectors: its file, with every row committed.
    """
    catalog = session.catalog
    if vectors.rows < MIN_UNUSED_VECTORS or catalog.get_meta("embedder") != embedder.fingerprint:
        return vectors
    used = _used_rows(catalog)
    if vectors.rows - len(used) < max(MIN_UNUSED_VECTORS, len(used) + 1):
        return vectors
    compacted = session.create_vectors(embedder.dimension)
    try:
        matrix = vectors.matrix()
        for start in range(0, len(used), _COPY_BATCH_ROWS):
            compacted.append(matrix[used[start : start + _COPY_BATCH_ROWS]])
        compacted.sync()
    except StoreError:
        with suppress(OSError):
            compacted.path.unlink()
        return vectors
    _renumber_rows(catalog, embedder, compacted, used)
    return compacted


def _used_rows(catalog: Catalog) -> NDArray[np.int64]:
    """Row numbers that chunks refer to, ascending."""
    rows = catalog.connection.execute("SELECT DISTINCT vector FROM chunks WHERE vector >= 0 ORDER BY vector")
    return np.fromiter((row for (row,) in rows), np.int64)


def _renumber_rows(catalog: Catalog, embedder: EmbedderRow, file: VectorFile, used: NDArray[np.int64]) -> None:
    """Point the catalog at the new file, in one transaction: its row i is row used[i] of the old file."""
    connection = catalog.connection
    with catalog.transaction():
        connection.execute("CREATE TEMP TABLE moved (old INTEGER PRIMARY KEY, new INTEGER NOT NULL)")
        connection.executemany("INSERT INTO moved VALUES (?, ?)", ((old, new) for new, old in enumerate(used.tolist())))
        own = (embedder.key,)
        connection.execute("DELETE FROM vectors WHERE embedder = ? AND row NOT IN (SELECT old FROM moved)", own)
        connection.execute("UPDATE vectors SET row = (SELECT new FROM moved WHERE old = row) WHERE embedder = ?", own)
        connection.execute("UPDATE chunks SET vector = (SELECT new FROM moved WHERE old = vector) WHERE vector >= 0")
        connection.execute(
            "UPDATE embedders SET file = ?, file_id = ?, rows = ? WHERE key = ?",
            (file.path.name, file.file_id, file.rows, embedder.key),
        )
        catalog.set_meta("generation", str(catalog.generation() + 1))
        connection.execute("DROP TABLE moved")
