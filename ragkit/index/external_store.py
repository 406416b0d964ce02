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

from ragkit.errors import DimensionMismatch, KnowledgeBaseLocked, RagkitError, StoreError
from ragkit.index.catalog.sqlite import Catalog
from ragkit.index.store_checksums import (
    delete_store_checksums,
    find_store_change,
    read_store_checksums,
    store_checksum_version,
    write_store_checksums,
)
from ragkit.index.store_comparison import ExpectedDocument, StoreComparison, compare_documents
from ragkit.records import JSON, Document, Metadata, SearchResult
from ragkit.store.base import Store
from ragkit.store.file_digests import list_files, remove_files
from ragkit.store.read_write_lock import ReadWriteLock

T = TypeVar("T")

SYNC_BATCH_SIZE = 500
"""Documents that are handed over, and noted as handed over, together."""
OWNERSHIP_SAMPLE_SIZE = 200
"""Documents of a store that are looked at to tell whether they are of this knowledge base."""

StoreVersion = tuple[int, ...]
"""What changes when a writer begins to change a store."""
SyncProgress = Callable[[int, int], None]
"""Called with how many chunks of how many are in the store."""


@dataclass(frozen=True)
class StoreLocation:
    """A vector store that a pipeline names."""

    store_id: str
    """Name and options: a store with others is another store, and begins empty."""
    open: Callable[[], Store]
    local_path: Path | None = None
    """Where it lies in the knowledge base's own directory, where nobody else keeps anything; None: elsewhere."""


def _ignore_progress(done: int, total: int) -> None:
    """Tells nobody."""


class ExternalStore:
    """One vector store of a knowledge base, opened when it is first needed."""

    def __init__(self, place: StoreLocation) -> None:
        self.store_id = place.store_id
        self._open_store = place.open
        self._local_path = place.local_path
        self._last_check: tuple[int, StoreVersion, bool] | None = None
        self._lock = Lock()
        self._usage_lock = ReadWriteLock()
        self._store: Store | None = None
        self._opened_revision: str | None = None

    @property
    def store(self) -> Store:
        """The open store. Raises what its adapter raises: MissingExtra, StoreError."""
        with self._lock:
            if self._store is None:
                self._store = self._open_store()
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
        mark = self._current_version(catalog)
        if mark is None:
            return None
        try:
            with self._usage_lock.read():
                found = self.store.search(query, top_k, where)
        except KnowledgeBaseLocked:  # some stores are open in one process at a time
            return None
        except RagkitError:
            if self._is_unchanged(mark, newest):
                raise
            return None
        return found if self._is_unchanged(mark, newest) else None

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
        return self._current_version(catalog) is not None

    def _current_version(self, catalog: Catalog) -> StoreVersion | None:
        """What stays as it is until a writer changes the store; None when the store is not in line with `catalog`."""
        generation = catalog.generation()
        if catalog.get_meta(self._generation_key) != str(generation):
            return None
        if self._local_path is None:
            return (generation,)
        mark = store_checksum_version(self._local_path)
        looked_at = self._last_check
        if looked_at is None or looked_at[:2] != (generation, mark):
            self._close_if_recreated(catalog)
            looked_at = self._last_check = (generation, mark, self._find_file_change(catalog) == "")
        return mark if looked_at[2] else None

    def _is_unchanged(self, mark: StoreVersion, newest: Callable[[], AbstractContextManager[Catalog]]) -> bool:
        """Whether no writer has begun to change the store since."""
        if self._local_path is not None:
            return store_checksum_version(self._local_path) == mark
        with newest() as catalog:
            return self._current_version(catalog) == mark

    def sync(
        self,
        catalog: Catalog,
        matrix: NDArray[np.float32],
        told: SyncProgress = _ignore_progress,
        *,
        overwrite: bool = False,
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
        if self._local_path is not None:
            self._last_check = None
            if self.is_current(catalog):
                return 0
            self._invalidate_checksums(catalog, matrix)
        self._undo_pending_batch(catalog)
        there, noted = self.store.count(), self._count_recorded(catalog)
        if self._local_path is None and self.is_current(catalog) and there == noted:
            return 0
        self._mark_outdated(catalog)
        if there != noted:
            self._reset_mismatched(catalog, there, overwrite=overwrite)
        self._delete_stale(catalog)
        added = self._add_missing(catalog, matrix, told)
        if self._local_path is not None:
            self.close()
            self.store.count()  # some fold their journals in when they are opened next; sealed is what is left then
            self.close()
            write_store_checksums(self._local_path, catalog.get_meta("id") or "", generation)
        with catalog.transaction():
            catalog.set_meta(self._generation_key, str(generation))
        return added

    def reset(self, catalog: Catalog) -> None:
        """Empty the store, and the notes of what is in it. One in the knowledge base's own directory is taken away."""
        self._mark_outdated(catalog)
        if self._local_path is None:
            self.store.clear()
        else:
            self.close()
            delete_store_checksums(self._local_path)
            remove_files(self._local_path)
        with catalog.transaction():
            catalog.connection.execute("DELETE FROM derived WHERE store = ?", (self.store_id,))
            catalog.connection.execute("DELETE FROM meta WHERE key = ?", (self._pending_ids_key,))
            catalog.set_meta(self._revision_key, secrets.token_hex(8))

    def compare(self, catalog: Catalog, matrix: NDArray[np.float32]) -> StoreComparison:
        """Every chunk of the catalog against what the store gives back."""
        return compare_documents(_expected_documents(catalog, matrix), self.store.scan())

    def find_problems(self, catalog: Catalog, matrix: NDArray[np.float32] | None = None) -> Iterator[str]:
        """What of the live chunks the store lacks, holds beside them or holds otherwise, a line each.

        Without a `matrix` vectors are not compared.
        """
        if catalog.get_meta(self._generation_key) != str(catalog.generation()):
            if self._count_recorded(catalog) or next(_expected_documents(catalog, None), None) is not None:
                yield "is behind the catalog"
            return
        if fault := self._find_file_change(catalog):
            yield fault
            return
        yield from compare_documents(_expected_documents(catalog, matrix), self.store.scan()).describe_differences()

    @property
    def _generation_key(self) -> str:
        return f"derived:{self.store_id}"

    @property
    def _pending_ids_key(self) -> str:
        """Where the ids are noted that are being handed over or taken out."""
        return f"derived-under-way:{self.store_id}"

    @property
    def _revision_key(self) -> str:
        """Where a number is kept that changes when the store is taken away and made anew."""
        return f"derived-made:{self.store_id}"

    def _mark_outdated(self, catalog: Catalog) -> None:
        """Before the store is changed: who looks now, or again after a search, sees that it is not in line."""
        with catalog.transaction():
            catalog.connection.execute("DELETE FROM meta WHERE key = ?", (self._generation_key,))

    def _close_if_recreated(self, catalog: Catalog) -> None:
        """A store that was made anew since it was opened here is opened again; the files of the old one are gone."""
        made = catalog.get_meta(self._revision_key) or ""
        if self._opened_revision not in {None, made}:
            with self._usage_lock.write():
                self.close()
        self._opened_revision = made

    def _find_file_change(self, catalog: Catalog) -> str:
        """What is wrong with the files by their seal; '' when nothing is, and where there is no seal to be."""
        if self._local_path is None:
            return ""
        seal = read_store_checksums(self._local_path)
        if seal is None:
            return "was not sealed: a run was cut off"
        if (seal.catalog_id, seal.generation) != (catalog.get_meta("id"), catalog.generation()):
            return "was sealed with another content"
        return find_store_change(self._local_path, seal)

    def _invalidate_checksums(self, catalog: Catalog, matrix: NDArray[np.float32]) -> None:
        """Before the store is changed: take its seal away, and the store too unless it holds what is noted.

        Files that are not as they were sealed are never opened. Without a seal, after a run that was cut off, the
        store is read and compared: a power cut may have taken what it had said to hold.
        """
        if self._local_path is None:
            return
        seal = read_store_checksums(self._local_path)
        if seal is not None:
            good = seal.catalog_id == catalog.get_meta("id") and find_store_change(self._local_path, seal) == ""
            delete_store_checksums(self._local_path)
        else:
            good = self._matches_recorded_chunks(catalog, matrix)
        if not good:
            self.reset(catalog)

    def _matches_recorded_chunks(self, catalog: Catalog, matrix: NDArray[np.float32]) -> bool:
        if self._local_path is None or not list_files(self._local_path):
            return False
        dead = {row[0] for row in catalog.connection.execute(_STALE_IDS_SQL, (self.store_id,))}
        try:
            self._undo_pending_batch(catalog)
            held = (one for one in self.store.scan() if one[0] not in dead)
            return compare_documents(_recorded_documents(catalog, matrix, self.store_id), held).is_equal
        except (StoreError, DimensionMismatch):
            return False

    def _count_recorded(self, catalog: Catalog) -> int:
        query = "SELECT count(DISTINCT chunk_id) FROM derived WHERE store = ?"
        return int(catalog.connection.execute(query, (self.store_id,)).fetchone()[0])

    def _undo_pending_batch(self, catalog: Catalog) -> None:
        """After a run that was cut off: whether its last batch arrived is not known, so take that batch out."""
        ids: list[str] = json.loads(catalog.get_meta(self._pending_ids_key) or "[]")
        if not ids:
            return
        self.store.delete(ids)
        with catalog.transaction():
            marks = ",".join("?" * len(ids))
            query = f"DELETE FROM derived WHERE store = ? AND chunk_id IN ({marks})"  # noqa: S608
            catalog.connection.execute(query, (self.store_id, *ids))
            self._record_pending_ids(catalog, [])

    def _record_pending_ids(self, catalog: Catalog, ids: Sequence[str]) -> None:
        """Note which ids are under way; inside a transaction."""
        catalog.set_meta(self._pending_ids_key, json.dumps(list(ids)))

    def _reset_mismatched(self, catalog: Catalog, there: int, *, overwrite: bool) -> None:
        """Empty the store: what was noted and what is there do not agree."""
        if there and not (overwrite or self._local_path is not None or self._is_owned(catalog)):
            raise StoreError(
                f"the store {self.store_id.partition(':')[0]!r} holds {there:,} documents that this knowledge base did"
                " not put there: name another collection, table or path, or empty it with `ragkit copy --overwrite`"
            )
        self.reset(catalog)

    def _is_owned(self, catalog: Catalog) -> bool:
        """Whether what the store holds is of this knowledge base, by the ids of some."""
        ids = [identity for identity, _, _ in islice(self.store.scan(), OWNERSHIP_SAMPLE_SIZE)]
        marks = ",".join("?" * len(ids))
        query = f"SELECT EXISTS (SELECT 1 FROM chunks WHERE id IN ({marks}))"  # noqa: S608
        query += f" OR EXISTS (SELECT 1 FROM derived WHERE chunk_id IN ({marks}))"  # noqa: S608
        return bool(catalog.connection.execute(query, (*ids, *ids)).fetchone()[0])

    def _delete_stale(self, catalog: Catalog) -> None:
        rows = catalog.connection.execute(
            "SELECT chunk, chunk_id FROM derived WHERE store = ?"
            " AND chunk NOT IN (SELECT key FROM chunks WHERE live = 1)",
            (self.store_id,),
        ).fetchall()
        for part in _batched(rows):
            ids = [chunk_id for _, chunk_id in part]
            marks = ",".join("?" * len(ids))
            still = {row[0] for row in catalog.connection.execute(
                f"SELECT id FROM chunks WHERE live = 1 AND id IN ({marks})", ids)}  # noqa: S608  # fmt: skip
            gone = [chunk_id for chunk_id in ids if chunk_id not in still]
            with catalog.transaction():
                self._record_pending_ids(catalog, gone)
            self.store.delete(gone)
            with catalog.transaction():
                catalog.connection.executemany(
                    "DELETE FROM derived WHERE store = ? AND chunk = ?", [(self.store_id, key) for key, _ in part]
                )
                self._record_pending_ids(catalog, [])

    def _add_missing(self, catalog: Catalog, matrix: NDArray[np.float32], told: SyncProgress) -> int:
        missing = f"FROM chunks WHERE live = 1 AND key > ? AND {_NOT_SYNCED_SQL}"
        total = catalog.connection.execute("SELECT count(*) FROM chunks WHERE live = 1").fetchone()[0]
        todo = catalog.connection.execute(f"SELECT count(*) {missing}", (0, self.store_id)).fetchone()[0]
        step = f"SELECT key {missing} ORDER BY key LIMIT {SYNC_BATCH_SIZE}"
        added, last = 0, 0
        while keys := [row[0] for row in catalog.connection.execute(step, (last, self.store_id))]:
            documents, rows = _load_documents(catalog, keys)
            with catalog.transaction():
                self._record_pending_ids(catalog, [document.id for document in documents])
            self.store.add_documents(documents, np.ascontiguousarray(matrix[rows]))
            noted = [(self.store_id, key, document.id) for key, document in zip(keys, documents, strict=True)]
            with catalog.transaction():
                catalog.connection.executemany("INSERT OR REPLACE INTO derived VALUES (?,?,?)", noted)
                self._record_pending_ids(catalog, [])
            last, added = keys[-1], added + len(keys)
            told(total - todo + added, total)
        return added


_NOT_SYNCED_SQL = "NOT EXISTS (SELECT 1 FROM derived WHERE store = ? AND chunk = chunks.key)"


def filter_metadata(source: str, title: str, metadata: str) -> Metadata:
    """What filters see of a document: its metadata (JSON), and its source and title beneath."""
    return {"source": source, "title": title, **json.loads(metadata)}


def _load_documents(catalog: Catalog, keys: Sequence[int]) -> tuple[list[Document], list[int]]:
    """Chunks as a store takes them, and the rows of their vectors, in the order of the keys."""
    marks = ",".join("?" * len(keys))
    rows = catalog.connection.execute(
        "SELECT c.id, c.text, c.vector, d.source, d.title, d.metadata FROM chunks c"  # noqa: S608
        f" JOIN documents d ON d.key = c.document WHERE c.key IN ({marks}) ORDER BY c.key",
        tuple(keys),
    ).fetchall()
    documents = [
        Document(text, filter_metadata(source, title, metadata), source=source, title=title, id=identity)
        for identity, text, _, source, title, metadata in rows
    ]
    return documents, [row[2] for row in rows]


_LIVE_CHUNKS_SQL = (
    "SELECT c.id, c.text, c.vector, d.source, d.title, d.metadata FROM chunks c"
    " JOIN documents d ON d.key = c.document WHERE c.live = 1"
)
_STALE_IDS_SQL = (
    "SELECT chunk_id FROM derived WHERE store = ? AND chunk_id NOT IN (SELECT id FROM chunks WHERE live = 1)"
)
"""Ids that were handed over and are no chunks any more."""


def _expected_documents(catalog: Catalog, matrix: NDArray[np.float32] | None) -> Iterator[ExpectedDocument]:
    """Every (id, document, row) that a store has to hold, streamed, in the order of the ids."""
    return _iter_documents(catalog.connection.execute(f"{_LIVE_CHUNKS_SQL} ORDER BY c.id, c.key"), matrix)


def _recorded_documents(catalog: Catalog, matrix: NDArray[np.float32], store: str) -> Iterator[ExpectedDocument]:
    """Those of them that were handed over already."""
    noted = f"{_LIVE_CHUNKS_SQL} AND c.id IN (SELECT chunk_id FROM derived WHERE store = ?) ORDER BY c.id, c.key"  # noqa: S608
    return _iter_documents(catalog.connection.execute(noted, (store,)), matrix)


def _iter_documents(
    rows: Iterable[tuple[str, str, int, str, str, str]], matrix: NDArray[np.float32] | None
) -> Iterator[ExpectedDocument]:
    before = ""
    for identity, text, row, source, title, metadata in rows:
        if identity != before:
            document = Document(text, filter_metadata(source, title, metadata), source=source, title=title, id=identity)
            yield identity, document, None if matrix is None else matrix[row]
        before = identity


def _batched(rows: Sequence[T]) -> Iterator[list[T]]:
    found = iter(rows)
    while part := list(islice(found, SYNC_BATCH_SIZE)):
        yield part
