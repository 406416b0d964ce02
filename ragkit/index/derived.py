"""A vector store beside the catalog: filled from it, never asked for the truth, and filled again when in doubt.

The catalog remembers which chunks it has handed over. What a store holds can therefore be brought in line by the
difference alone, and without embedding anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ragkit.index.catalog import Catalog
from ragkit.records import Document, Metadata
from ragkit.store.base import Store

Row = TypeVar("Row")

BATCH = 500
"""Documents that are handed over, and noted as handed over, together."""


@dataclass(frozen=True)
class StorePlace:
    """A vector store that a pipeline names."""

    identity: str
    """Name and options: a store with others is another store, and begins empty."""
    open: Callable[[], Store]


class Derived:
    """One vector store of a knowledge base, opened when it is first needed."""

    def __init__(self, place: StorePlace) -> None:
        self.identity = place.identity
        self._open = place.open
        self._lock = Lock()
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """The open store. Raises what its adapter raises: MissingExtra, StoreError."""
        with self._lock:
            if self._store is None:
                self._store = self._open()
            return self._store

    def close(self) -> None:
        """Let go of the store."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

    def is_current(self, catalog: Catalog) -> bool:
        """Whether the store was brought in line with the generation that `catalog` sees."""
        return catalog.get(self._key) == str(catalog.generation())

    def sync(self, catalog: Catalog, matrix: NDArray[np.float32]) -> int:
        """Bring the store in line with the live chunks; returns how many were handed over.

        Every step may be repeated. The caller holds the writer's lock.
        """
        generation = catalog.generation()
        if self.is_current(catalog) and self.store.count() == self._noted(catalog):
            return 0
        if self.store.count() != self._noted(catalog):
            self._forget(catalog)
        self._remove(catalog)
        added = self._add(catalog, matrix)
        with catalog.transaction():
            catalog.set(self._key, str(generation))
        return added

    def problems(self, catalog: Catalog) -> Iterator[str]:
        """What of the live chunks the store lacks, and what it holds beside them, a line each."""
        if not self.is_current(catalog):
            yield "is behind the catalog"
            return
        wanted = {row[0] for row in catalog.connection.execute("SELECT id FROM chunks WHERE live = 1")}
        there = {identity for identity, _, _ in self.store.scan()}
        if wanted - there:
            yield f"lacks {len(wanted - there)} chunks"
        if there - wanted:
            yield f"holds {len(there - wanted)} chunks that are not in the catalog"

    @property
    def _key(self) -> str:
        return f"derived:{self.identity}"

    def _noted(self, catalog: Catalog) -> int:
        query = "SELECT count(DISTINCT chunk_id) FROM derived WHERE store = ?"
        return int(catalog.connection.execute(query, (self.identity,)).fetchone()[0])

    def _forget(self, catalog: Catalog) -> None:
        """Begin again: what was noted and what is there do not agree."""
        self.store.clear()
        with catalog.transaction():
            catalog.connection.execute("DELETE FROM derived WHERE store = ?", (self.identity,))

    def _remove(self, catalog: Catalog) -> None:
        rows = catalog.connection.execute(
            "SELECT chunk, chunk_id FROM derived WHERE store = ?"
            " AND chunk NOT IN (SELECT key FROM chunks WHERE live = 1)",
            (self.identity,),
        ).fetchall()
        for part in _parts(rows):
            ids = [chunk_id for _, chunk_id in part]
            marks = ",".join("?" * len(ids))
            still = {row[0] for row in catalog.connection.execute(
                f"SELECT id FROM chunks WHERE live = 1 AND id IN ({marks})", ids)}  # noqa: S608  # fmt: skip
            self.store.delete([chunk_id for chunk_id in ids if chunk_id not in still])
            with catalog.transaction():
                catalog.connection.executemany(
                    "DELETE FROM derived WHERE store = ? AND chunk = ?", [(self.identity, key) for key, _ in part]
                )

    def _add(self, catalog: Catalog, matrix: NDArray[np.float32]) -> int:
        missing = [row[0] for row in catalog.connection.execute(
            "SELECT key FROM chunks WHERE live = 1 AND key NOT IN (SELECT chunk FROM derived WHERE store = ?)"
            " ORDER BY key", (self.identity,))]  # fmt: skip
        for keys in _parts(missing):
            documents, rows = _documents(catalog, keys)
            self.store.add_documents(documents, np.ascontiguousarray(matrix[rows]))
            noted = [(self.identity, key, document.id) for key, document in zip(keys, documents, strict=True)]
            with catalog.transaction():
                catalog.connection.executemany("INSERT OR REPLACE INTO derived VALUES (?,?,?)", noted)
        return len(missing)


def filterable(source: str, title: str, metadata: str) -> Metadata:
    """What filters see of a document: its metadata (JSON), and its source and title beneath."""
    return {"source": source, "title": title, **json.loads(metadata)}


def _documents(catalog: Catalog, keys: Sequence[int]) -> tuple[list[Document], list[int]]:
    """Chunks as a store takes them, and the rows of their vectors, in the order of the keys."""
    marks = ",".join("?" * len(keys))
    rows = catalog.connection.execute(
        "SELECT c.id, c.text, c.vector, d.source, d.title, d.metadata FROM chunks c"  # noqa: S608
        f" JOIN documents d ON d.key = c.document WHERE c.key IN ({marks}) ORDER BY c.key",
        tuple(keys),
    ).fetchall()
    documents = [
        Document(text, filterable(source, title, metadata), source=source, title=title, id=identity)
        for identity, text, _, source, title, metadata in rows
    ]
    return documents, [row[2] for row in rows]


def _parts(rows: Sequence[Row]) -> Iterator[list[Row]]:
    found = iter(rows)
    while part := list(islice(found, BATCH)):
        yield part
