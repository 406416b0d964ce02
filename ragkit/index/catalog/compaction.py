"""Leave vectors behind that no chunk has any more, when they are too many.

Vectors of texts that went are kept for a while, since texts come back: a file that is moved, a change that is undone.
A vector file only grows; a new one is made, under a name of its own, and readers of the old one keep what they have.
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
"""Fewer vectors without a chunk are never worth the work. Above that, as many as have one are kept."""
_COPY_BATCH_ROWS = 8_192
"""Rows that are copied at a time."""


def compact_vectors(session: WriteSession, embedder: EmbedderRow, vectors: VectorFile) -> VectorFile:
    """The vector file of the embedder in use, made anew without the rows that no chunk has where those are too many.

    Nothing is embedded. A full disk puts it off; a crash leaves the old file or the new one.

    Args:
        session: the writer's, with nothing under way.
        embedder: whose file it is; another one than that of the chunks is left as it is.
        vectors: its file, with every row committed.
    """
    catalog = session.catalog
    if vectors.rows < MIN_UNUSED_VECTORS or catalog.get_meta("embedder") != embedder.fingerprint:
        return vectors
    used = _used_rows(catalog)
    if vectors.rows - len(used) < max(MIN_UNUSED_VECTORS, len(used) + 1):
        return vectors
    fresh = session.create_vectors(embedder.dimension)
    try:
        matrix = vectors.matrix()
        for at in range(0, len(used), _COPY_BATCH_ROWS):
            fresh.append(matrix[used[at : at + _COPY_BATCH_ROWS]])
        fresh.sync()
    except StoreError:
        with suppress(OSError):
            fresh.path.unlink()
        return vectors
    _renumber_rows(catalog, embedder, fresh, used)
    return fresh


def _used_rows(catalog: Catalog) -> NDArray[np.int64]:
    """The rows that chunks have, rising."""
    rows = catalog.connection.execute("SELECT DISTINCT vector FROM chunks ORDER BY vector")
    return np.fromiter((row for (row,) in rows), np.int64)


def _renumber_rows(catalog: Catalog, embedder: EmbedderRow, file: VectorFile, used: NDArray[np.int64]) -> None:
    """Number everything anew, in one transaction: row i of the new file is row used[i] of the old one."""
    connection = catalog.connection
    with catalog.transaction():
        connection.execute("CREATE TEMP TABLE moved (old INTEGER PRIMARY KEY, new INTEGER NOT NULL)")
        connection.executemany("INSERT INTO moved VALUES (?, ?)", ((row, at) for at, row in enumerate(used.tolist())))
        connection.execute(
            "DELETE FROM vectors WHERE embedder = ? AND row NOT IN (SELECT old FROM moved)", (embedder.key,)
        )
        connection.execute(
            "UPDATE vectors SET row = (SELECT new FROM moved WHERE old = row) WHERE embedder = ?", (embedder.key,)
        )
        connection.execute("UPDATE chunks SET vector = (SELECT new FROM moved WHERE old = vector)")
        connection.execute(
            "UPDATE embedders SET file = ?, file_id = ?, rows = ? WHERE key = ?",
            (file.path.name, file.file_id, file.rows, embedder.key),
        )
        catalog.set_meta("generation", str(catalog.generation() + 1))
        connection.execute("DROP TABLE moved")
