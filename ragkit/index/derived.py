"""A vector store beside the catalog: filled from it, never asked for the truth, and filled again when in doubt.

The catalog remembers which chunks it has handed over. What a store holds can therefore be brought in line by the
difference alone, and without embedding anything. Before a batch is handed over it is noted as under way, so that a
run that was cut off goes on where it stopped.
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

from ragkit.errors import StoreError
from ragkit.index.catalog import Catalog
from ragkit.index.compare import Comparison, compare
from ragkit.records import Document, Metadata
from ragkit.store.base import Store

Row = TypeVar("Row")

BATCH = 500
"""Documents that are handed over, and noted as handed over, together."""
SAMPLE = 200
"""Documents of a store that are looked at to tell whether they are of this knowledge base."""

Told = Callable[[int, int], None]
"""Called with how many chunks of how many are in the store."""


@dataclass(frozen=True)
class StorePlace:
    """A vector store that a pipeline names."""

    identity: str
    """Name and options: a store with others is another store, and begins empty."""
    open: Callable[[], Store]
    own: bool = False
    """Lies in the knowledge base's own directory, so that nobody else keeps anything in it."""


def _silent(done: int, total: int) -> None:
    """Tells nobody."""


class Derived:
    """One vector store of a knowledge base, opened when it is first needed."""

    def __init__(self, place: StorePlace) -> None:
        self.identity = place.identity
        self._open = place.open
        self._own = place.own
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

    def sync(
        self, catalog: Catalog, matrix: NDArray[np.float32], told: Told = _silent, *, overwrite: bool = False
    ) -> int:
        """Bring the store in line with the live chunks; returns how many were handed over.

        Every step may be repeated, and a run that was cut off is taken up again. The caller holds the writer's lock.

        Args:
            catalog: where the chunks are.
            matrix: (rows, dimension): the vectors that the chunks name by row.
            told: hears of the progress after every batch.
            overwrite: take a store that holds what this knowledge base did not put there, and empty it.

        Raises:
            StoreError: the store holds documents of somebody else, and `overwrite` is not set.
        """
        generation = catalog.generation()
        self._take_up(catalog)
        there, noted = self.store.count(), self._noted(catalog)
        if self.is_current(catalog) and there == noted:
            return 0
        if there != noted:
            self._begin_again(catalog, there, overwrite=overwrite)
        self._remove(catalog)
        added = self._add(catalog, matrix, told)
        with catalog.transaction():
            catalog.set(self._key, str(generation))
        return added

    def forget(self, catalog: Catalog) -> None:
        """Empty the store, and the notes of what is in it."""
        self.store.clear()
        with catalog.transaction():
            catalog.connection.execute("DELETE FROM derived WHERE store = ?", (self.identity,))
            catalog.connection.execute("DELETE FROM meta WHERE key IN (?, ?)", (self._key, self._under_way))

    def compare(self, catalog: Catalog, matrix: NDArray[np.float32]) -> Comparison:
        """Every chunk of the catalog against what the store gives back."""
        return compare(_live(catalog, matrix), self.store.scan())

    def problems(self, catalog: Catalog, matrix: NDArray[np.float32] | None = None) -> Iterator[str]:
        """What of the live chunks the store lacks, holds beside them or holds otherwise, a line each.

        Without a `matrix` vectors are not compared.
        """
        if not self.is_current(catalog):
            yield "is behind the catalog"
            return
        yield from compare(_live(catalog, matrix), self.store.scan()).problems()

    @property
    def _key(self) -> str:
        return f"derived:{self.identity}"

    @property
    def _under_way(self) -> str:
        """Where the ids are noted that are being handed over or taken out."""
        return f"derived-under-way:{self.identity}"

    def _noted(self, catalog: Catalog) -> int:
        query = "SELECT count(DISTINCT chunk_id) FROM derived WHERE store = ?"
        return int(catalog.connection.execute(query, (self.identity,)).fetchone()[0])

    def _take_up(self, catalog: Catalog) -> None:
        """After a run that was cut off: whether its last batch arrived is not known, so take that batch out."""
        ids: list[str] = json.loads(catalog.get(self._under_way) or "[]")
        if not ids:
            return
        self.store.delete(ids)
        with catalog.transaction():
            marks = ",".join("?" * len(ids))
            query = f"DELETE FROM derived WHERE store = ? AND chunk_id IN ({marks})"  # noqa: S608
            catalog.connection.execute(query, (self.identity, *ids))
            self._set_out(catalog, [])

    def _set_out(self, catalog: Catalog, ids: Sequence[str]) -> None:
        """Note which ids are under way; inside a transaction."""
        catalog.set(self._under_way, json.dumps(list(ids)))

    def _begin_again(self, catalog: Catalog, there: int, *, overwrite: bool) -> None:
        """Empty the store: what was noted and what is there do not agree."""
        if there and not (overwrite or self._own or self._is_ours(catalog)):
            raise StoreError(
                f"the store {self.identity.partition(':')[0]!r} holds {there:,} documents that this knowledge base did"
                " not put there: name another collection, table or path, or empty it with `ragkit copy --overwrite`"
            )
        self.forget(catalog)

    def _is_ours(self, catalog: Catalog) -> bool:
        """Whether what the store holds is of this knowledge base, by the ids of some."""
        ids = [identity for identity, _, _ in islice(self.store.scan(), SAMPLE)]
        marks = ",".join("?" * len(ids))
        query = f"SELECT EXISTS (SELECT 1 FROM chunks WHERE id IN ({marks}))"  # noqa: S608
        query += f" OR EXISTS (SELECT 1 FROM derived WHERE chunk_id IN ({marks}))"  # noqa: S608
        return bool(catalog.connection.execute(query, (*ids, *ids)).fetchone()[0])

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
            gone = [chunk_id for chunk_id in ids if chunk_id not in still]
            with catalog.transaction():
                self._set_out(catalog, gone)
            self.store.delete(gone)
            with catalog.transaction():
                catalog.connection.executemany(
                    "DELETE FROM derived WHERE store = ? AND chunk = ?", [(self.identity, key) for key, _ in part]
                )
                self._set_out(catalog, [])

    def _add(self, catalog: Catalog, matrix: NDArray[np.float32], told: Told) -> int:
        missing = f"FROM chunks WHERE live = 1 AND key > ? AND {_NOT_HANDED_OVER}"
        total = catalog.connection.execute("SELECT count(*) FROM chunks WHERE live = 1").fetchone()[0]
        todo = catalog.connection.execute(f"SELECT count(*) {missing}", (0, self.identity)).fetchone()[0]
        step = f"SELECT key {missing} ORDER BY key LIMIT {BATCH}"
        added, last = 0, 0
        while keys := [row[0] for row in catalog.connection.execute(step, (last, self.identity))]:
            documents, rows = _documents(catalog, keys)
            with catalog.transaction():
                self._set_out(catalog, [document.id for document in documents])
            self.store.add_documents(documents, np.ascontiguousarray(matrix[rows]))
            noted = [(self.identity, key, document.id) for key, document in zip(keys, documents, strict=True)]
            with catalog.transaction():
                catalog.connection.executemany("INSERT OR REPLACE INTO derived VALUES (?,?,?)", noted)
                self._set_out(catalog, [])
            last, added = keys[-1], added + len(keys)
            told(total - todo + added, total)
        return added


_NOT_HANDED_OVER = "NOT EXISTS (SELECT 1 FROM derived WHERE store = ? AND chunk = chunks.key)"


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


def _live(
    catalog: Catalog, matrix: NDArray[np.float32] | None
) -> Iterator[tuple[str, Document, NDArray[np.float32] | None]]:
    """Every (id, document, row) that a store has to hold, streamed, in the order of the ids."""
    rows = catalog.connection.execute(
        "SELECT c.id, c.text, c.vector, d.source, d.title, d.metadata FROM chunks c"
        " JOIN documents d ON d.key = c.document WHERE c.live = 1 ORDER BY c.id, c.key"
    )
    before = ""
    for identity, text, row, source, title, metadata in rows:
        if identity != before:
            document = Document(text, filterable(source, title, metadata), source=source, title=title, id=identity)
            yield identity, document, None if matrix is None else matrix[row]
        before = identity


def _parts(rows: Sequence[Row]) -> Iterator[list[Row]]:
    found = iter(rows)
    while part := list(islice(found, BATCH)):
        yield part
