"""A vector store beside the catalog: filled from it, never asked for the truth, and filled again when in doubt.

The catalog remembers which chunks it has handed over. What a store holds can therefore be brought in line by the
difference alone, and without embedding anything. Before a batch is handed over it is noted as under way, so that a
run that was cut off goes on where it stopped.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import DimensionMismatch, Locked, RagkitError, StoreError
from ragkit.index.catalog import Catalog
from ragkit.index.compare import Comparison, Given, compare
from ragkit.index.store_seal import read_store_seal, seal_mark, seal_store, store_fault, unseal_store
from ragkit.records import JSON, Document, Metadata, SearchResult
from ragkit.store.at_rest import files_of, remove
from ragkit.store.base import Store
from ragkit.store.shared_lock import SharedLock

Row = TypeVar("Row")

BATCH = 500
"""Documents that are handed over, and noted as handed over, together."""
SAMPLE = 200
"""Documents of a store that are looked at to tell whether they are of this knowledge base."""

Mark = tuple[int, ...]
"""What changes when a writer begins to change a store."""
Told = Callable[[int, int], None]
"""Called with how many chunks of how many are in the store."""


@dataclass(frozen=True)
class StorePlace:
    """A vector store that a pipeline names."""

    identity: str
    """Name and options: a store with others is another store, and begins empty."""
    open: Callable[[], Store]
    files: Path | None = None
    """Where it lies in the knowledge base's own directory, where nobody else keeps anything; None: elsewhere."""


def _silent(done: int, total: int) -> None:
    """Tells nobody."""


class Derived:
    """One vector store of a knowledge base, opened when it is first needed."""

    def __init__(self, place: StorePlace) -> None:
        self.identity = place.identity
        self._open = place.open
        self._files = place.files
        self._looked_at: tuple[int, Mark, bool] | None = None
        self._lock = Lock()
        self._use = SharedLock()
        self._store: Store | None = None
        self._made_of_open: str | None = None

    @property
    def store(self) -> Store:
        """The open store. Raises what its adapter raises: MissingExtra, StoreError."""
        with self._lock:
            if self._store is None:
                self._store = self._open()
            return self._store

    def search(
        self,
        query: NDArray[np.float32],
        top_k: int,
        where: Mapping[str, JSON] | None,
        catalog: Catalog,
        newest: Callable[[], AbstractContextManager[Catalog]],
    ) -> list[SearchResult] | None:
        """As the store's own search; None when it does not hold the generation that `catalog` sees, all along.

        A writer that begins in the middle takes chunks out before it puts others in: what was found by then may be
        too little, and nothing in it tells. So it is looked at once more when the store has answered.

        Args:
            query: a unit row.
            top_k: how many at most.
            where: a filter.
            catalog: as the one who asks sees it.
            newest: the catalog as it is at the moment of the call.

        Raises:
            StoreError: and whatever else its adapter raises.
        """
        mark = self._mark(catalog)
        if mark is None:
            return None
        try:
            with self._use.together():
                found = self.store.search(query, top_k, where)
        except Locked:  # some stores are open in one process at a time
            return None
        except RagkitError:
            if self._is_as_marked(mark, newest):
                raise
            return None
        return found if self._is_as_marked(mark, newest) else None

    def close(self) -> None:
        """Let go of the store."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

    def is_current(self, catalog: Catalog) -> bool:
        """Whether the store was brought in line with the generation that `catalog` sees, and is as it was left then.

        The files of a store in the knowledge base's own directory are held against their seal, once a generation.
        """
        return self._mark(catalog) is not None

    def _mark(self, catalog: Catalog) -> Mark | None:
        """What stays as it is until a writer changes the store; None when the store is not in line with `catalog`."""
        generation = catalog.generation()
        if catalog.get(self._key) != str(generation):
            return None
        if self._files is None:
            return (generation,)
        mark = seal_mark(self._files)
        looked_at = self._looked_at
        if looked_at is None or looked_at[:2] != (generation, mark):
            self._let_go_of_an_old_one(catalog)
            looked_at = self._looked_at = (generation, mark, self._seal_fault(catalog) == "")
        return mark if looked_at[2] else None

    def _is_as_marked(self, mark: Mark, newest: Callable[[], AbstractContextManager[Catalog]]) -> bool:
        """Whether no writer has begun to change the store since."""
        if self._files is not None:
            return seal_mark(self._files) == mark
        with newest() as catalog:
            return self._mark(catalog) == mark

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
        if self._files is not None:
            self._looked_at = None
            if self.is_current(catalog):
                return 0
            self._break_seal(catalog, matrix)
        self._take_up(catalog)
        there, noted = self.store.count(), self._noted(catalog)
        if self._files is None and self.is_current(catalog) and there == noted:
            return 0
        self._set_aside(catalog)
        if there != noted:
            self._begin_again(catalog, there, overwrite=overwrite)
        self._remove(catalog)
        added = self._add(catalog, matrix, told)
        if self._files is not None:
            self.close()
            self.store.count()  # some fold their journals in when they are opened next; sealed is what is left then
            self.close()
            seal_store(self._files, catalog.get("id") or "", generation)
        with catalog.transaction():
            catalog.set(self._key, str(generation))
        return added

    def forget(self, catalog: Catalog) -> None:
        """Empty the store, and the notes of what is in it. One in the knowledge base's own directory is taken away."""
        self._set_aside(catalog)
        if self._files is None:
            self.store.clear()
        else:
            self.close()
            unseal_store(self._files)
            remove(self._files)
        with catalog.transaction():
            catalog.connection.execute("DELETE FROM derived WHERE store = ?", (self.identity,))
            catalog.connection.execute("DELETE FROM meta WHERE key = ?", (self._under_way,))
            catalog.set(self._made, secrets.token_hex(8))

    def compare(self, catalog: Catalog, matrix: NDArray[np.float32]) -> Comparison:
        """Every chunk of the catalog against what the store gives back."""
        return compare(_live(catalog, matrix), self.store.scan())

    def problems(self, catalog: Catalog, matrix: NDArray[np.float32] | None = None) -> Iterator[str]:
        """What of the live chunks the store lacks, holds beside them or holds otherwise, a line each.

        Without a `matrix` vectors are not compared.
        """
        if catalog.get(self._key) != str(catalog.generation()):
            if self._noted(catalog) or next(_live(catalog, None), None) is not None:
                yield "is behind the catalog"
            return
        if fault := self._seal_fault(catalog):
            yield fault
            return
        yield from compare(_live(catalog, matrix), self.store.scan()).problems()

    @property
    def _key(self) -> str:
        return f"derived:{self.identity}"

    @property
    def _under_way(self) -> str:
        """Where the ids are noted that are being handed over or taken out."""
        return f"derived-under-way:{self.identity}"

    @property
    def _made(self) -> str:
        """Where a number is kept that changes when the store is taken away and made anew."""
        return f"derived-made:{self.identity}"

    def _set_aside(self, catalog: Catalog) -> None:
        """Before the store is changed: who looks now, or again after a search, sees that it is not in line."""
        with catalog.transaction():
            catalog.connection.execute("DELETE FROM meta WHERE key = ?", (self._key,))

    def _let_go_of_an_old_one(self, catalog: Catalog) -> None:
        """A store that was made anew since it was opened here is opened again; the files of the old one are gone."""
        made = catalog.get(self._made) or ""
        if self._made_of_open not in {None, made}:
            with self._use.alone():
                self.close()
        self._made_of_open = made

    def _seal_fault(self, catalog: Catalog) -> str:
        """What is wrong with the files by their seal; '' when nothing is, and where there is no seal to be."""
        if self._files is None:
            return ""
        seal = read_store_seal(self._files)
        if seal is None:
            return "was not sealed: a run was cut off"
        if (seal.catalog, seal.generation) != (catalog.get("id"), catalog.generation()):
            return "was sealed with another content"
        return store_fault(self._files, seal)

    def _break_seal(self, catalog: Catalog, matrix: NDArray[np.float32]) -> None:
        """Before the store is changed: take its seal away, and the store too unless it holds what is noted.

        Files that are not as they were sealed are never opened. Without a seal, after a run that was cut off, the
        store is read and compared: a power cut may have taken what it had said to hold.
        """
        if self._files is None:
            return
        seal = read_store_seal(self._files)
        if seal is not None:
            good = seal.catalog == catalog.get("id") and store_fault(self._files, seal) == ""
            unseal_store(self._files)
        else:
            good = self._holds_what_is_noted(catalog, matrix)
        if not good:
            self.forget(catalog)

    def _holds_what_is_noted(self, catalog: Catalog, matrix: NDArray[np.float32]) -> bool:
        if self._files is None or not files_of(self._files):
            return False
        dead = {row[0] for row in catalog.connection.execute(_NOTED_ONLY, (self.identity,))}
        try:
            self._take_up(catalog)
            held = (one for one in self.store.scan() if one[0] not in dead)
            return compare(_noted_live(catalog, matrix, self.identity), held).same
        except (StoreError, DimensionMismatch):
            return False

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
        if there and not (overwrite or self._files is not None or self._is_ours(catalog)):
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


_CHUNKS = (
    "SELECT c.id, c.text, c.vector, d.source, d.title, d.metadata FROM chunks c"
    " JOIN documents d ON d.key = c.document WHERE c.live = 1"
)
_NOTED_ONLY = "SELECT chunk_id FROM derived WHERE store = ? AND chunk_id NOT IN (SELECT id FROM chunks WHERE live = 1)"
"""Ids that were handed over and are no chunks any more."""


def _live(catalog: Catalog, matrix: NDArray[np.float32] | None) -> Iterator[Given]:
    """Every (id, document, row) that a store has to hold, streamed, in the order of the ids."""
    return _given(catalog.connection.execute(f"{_CHUNKS} ORDER BY c.id, c.key"), matrix)


def _noted_live(catalog: Catalog, matrix: NDArray[np.float32], store: str) -> Iterator[Given]:
    """Those of them that were handed over already."""
    noted = f"{_CHUNKS} AND c.id IN (SELECT chunk_id FROM derived WHERE store = ?) ORDER BY c.id, c.key"  # noqa: S608
    return _given(catalog.connection.execute(noted, (store,)), matrix)


def _given(rows: Iterable[tuple[str, str, int, str, str, str]], matrix: NDArray[np.float32] | None) -> Iterator[Given]:
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
