"""Synchronize a vector store with the catalog and search it.

The catalog is the source of truth: it records which chunks the store received, so that a sync transfers only the
difference and embeds nothing. Each batch is recorded as pending first, so that an interrupted sync can resume.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
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
from ragkit.index.catalog.sqlite import Catalog, filter_metadata
from ragkit.index.store_checksums import (
    delete_store_checksums,
    find_store_change,
    read_store_checksums,
    store_checksum_version,
    write_store_checksums,
)
from ragkit.index.store_comparison import ExpectedDocument, StoreComparison, compare_documents
from ragkit.records import JSON, Document, SearchResult
from ragkit.store.base import Store
from ragkit.store.file_digests import list_files, remove_files
from ragkit.store.read_write_lock import ReadWriteLock

T = TypeVar("T")

SYNC_BATCH_SIZE = 500
"""Documents transferred and recorded per batch."""
OWNERSHIP_SAMPLE_SIZE = 200
"""Documents of a store that are checked to decide whether it belongs to this knowledge base."""

_ChunkRow = tuple[str, str, int, str, str, str]
"""(id, text, vector row, source, title, metadata as JSON)."""
StoreVersion = tuple[int, ...]
"""Changes as soon as a writer starts to change the store."""
SyncProgress = Callable[[int, int], None]
"""Called with (chunks in the store, all chunks)."""


@dataclass(frozen=True)
class StoreLocation:
    """A vector store that a pipeline names."""

    store_id: str
    """Name and options. Different options denote a different, initially empty store."""
    open: Callable[[], Store]
    local_path: Path | None = None
    """Its path inside the directory of the knowledge base; None: the store is elsewhere."""


def _ignore_progress(done: int, total: int) -> None:
    """The default: no progress report."""


class ExternalStore:
    """A vector store of a knowledge base, opened on first use."""

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
        """Search the store; None if it does not hold the generation of `catalog` during the whole search.

        A writer deletes chunks before it adds others, so results may be incomplete if a sync starts during the
        search. Therefore the version of the store is compared before and after.

        Args:
            query: a unit vector, (dimension,).
            top_k: maximum number of results.
            where: a filter.
            catalog: the caller's snapshot of the catalog.
            newest: opens the latest state of the catalog.

        Raises:
            StoreError: and any other error of the adapter.
        """
        version = self._current_version(catalog)
        if version is None:
            return None
        try:
            with self._usage_lock.read():
                results = self.store.search(query, top_k, where)
        except KnowledgeBaseLocked:  # some stores allow one process at a time
            return None
        except RagkitError:
            if self._is_unchanged(version, newest):
                raise
            return None
        return results if self._is_unchanged(version, newest) else None

    def close(self) -> None:
        """Close the store."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

    def is_current(self, catalog: Catalog) -> bool:
        """Whether the store is synchronized with the generation of `catalog` and unchanged since.

        The files of a store inside the knowledge base are compared with their checksums, once per generation.
        """
        return self._current_version(catalog) is not None

    def _current_version(self, catalog: Catalog) -> StoreVersion | None:
        """Constant until a writer changes the store; None if the store is not synchronized with `catalog`."""
        generation = catalog.generation()
        if catalog.get_meta(self._generation_key) != str(generation):
            return None
        if self._local_path is None:
            return (generation,)
        version = store_checksum_version(self._local_path)
        check = self._last_check
        if check is None or check[:2] != (generation, version):
            self._close_if_recreated(catalog)
            check = self._last_check = (generation, version, self._find_file_change(catalog) == "")
        return version if check[2] else None

    def _is_unchanged(self, version: StoreVersion, newest: Callable[[], AbstractContextManager[Catalog]]) -> bool:
        """Whether no writer has started to change the store since."""
        if self._local_path is not None:
            return store_checksum_version(self._local_path) == version
        with newest() as catalog:
            return self._current_version(catalog) == version

    def sync(
        self,
        catalog: Catalog,
        matrix: NDArray[np.float32],
        progress: SyncProgress = _ignore_progress,
        *,
        overwrite: bool = False,
    ) -> int:
        """Synchronize the store with the live chunks; returns the number of added chunks.

        Idempotent; an interrupted sync is resumed. The caller holds the writer lock.

        Args:
            catalog: the catalog.
            matrix: (rows, dimension): the vectors that chunks refer to by row.
            progress: called after every batch.
            overwrite: clear a store that holds documents from elsewhere.

        Raises:
            StoreError: the store holds documents from elsewhere, and `overwrite` is not set.
        """
        generation = catalog.generation()
        if self._local_path is not None:
            self._last_check = None
            if self.is_current(catalog):
                return 0
            self._invalidate_checksums(catalog, matrix)
        self._undo_pending_batch(catalog)
        stored, recorded = self.store.count(), self._count_recorded(catalog)
        if self._local_path is None and self.is_current(catalog) and stored == recorded:
            return 0
        self._mark_outdated(catalog)
        if stored != recorded:
            self._reset_mismatched(catalog, stored, overwrite=overwrite)
        self._delete_stale(catalog)
        added = self._add_missing(catalog, matrix, progress)
        if self._local_path is not None:
            self.close()
            self.store.count()  # some stores merge their journal on the next open: do it before computing checksums
            self.close()
            write_store_checksums(self._local_path, catalog.get_meta("id") or "", generation)
        with catalog.transaction():
            catalog.set_meta(self._generation_key, str(generation))
        return added

    def reset(self, catalog: Catalog) -> None:
        """Clear the store and the records of its content. The files of a local store are deleted."""
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
        """Compare every chunk of the catalog with the content of the store."""
        return compare_documents(_expected_documents(catalog, matrix), self.store.scan())

    def find_problems(self, catalog: Catalog, matrix: NDArray[np.float32] | None = None) -> Iterator[str]:
        """Yield a message per difference between the live chunks and the store. `matrix` None: ignore vectors."""
        if catalog.get_meta(self._generation_key) != str(catalog.generation()):
            if self._count_recorded(catalog) or next(_expected_documents(catalog, None), None) is not None:
                yield "is not synchronized with the catalog"
            return
        if change := self._find_file_change(catalog):
            yield change
            return
        yield from compare_documents(_expected_documents(catalog, matrix), self.store.scan()).describe_differences()

    @property
    def _generation_key(self) -> str:
        return f"derived:{self.store_id}"

    @property
    def _pending_ids_key(self) -> str:
        """Meta key of the ids in the batch that is being written or deleted."""
        return f"derived-under-way:{self.store_id}"

    @property
    def _revision_key(self) -> str:
        """Meta key of a token that changes when the store is recreated."""
        return f"derived-made:{self.store_id}"

    def _mark_outdated(self, catalog: Catalog) -> None:
        """Mark the store as not synchronized. Called before the store is changed."""
        with catalog.transaction():
            catalog.connection.execute("DELETE FROM meta WHERE key = ?", (self._generation_key,))

    def _close_if_recreated(self, catalog: Catalog) -> None:
        """Close the store if it was recreated since it was opened: its old files are deleted."""
        revision = catalog.get_meta(self._revision_key) or ""
        if self._opened_revision not in {None, revision}:
            with self._usage_lock.write():
                self.close()
        self._opened_revision = revision

    def _find_file_change(self, catalog: Catalog) -> str:
        """The first mismatch between files and checksums, as a message; '' if there is none."""
        if self._local_path is None:
            return ""
        checksums = read_store_checksums(self._local_path)
        if checksums is None:
            return "has no checksums: a run was interrupted"
        if (checksums.catalog_id, checksums.generation) != (catalog.get_meta("id"), catalog.generation()):
            return "has checksums of another generation or knowledge base"
        return find_store_change(self._local_path, checksums)

    def _invalidate_checksums(self, catalog: Catalog, matrix: NDArray[np.float32]) -> None:
        """Before a change: delete the checksums, and also the store unless it holds the recorded chunks.

        Files with a checksum mismatch are never opened. Without checksums, after an interrupted run, the content of
        the store is compared: a power failure may have lost writes that the store had acknowledged.
        """
        if self._local_path is None:
            return
        checksums = read_store_checksums(self._local_path)
        if checksums is not None:
            same_catalog = checksums.catalog_id == catalog.get_meta("id")
            intact = same_catalog and find_store_change(self._local_path, checksums) == ""
            delete_store_checksums(self._local_path)
        else:
            intact = self._matches_recorded_chunks(catalog, matrix)
        if not intact:
            self.reset(catalog)

    def _matches_recorded_chunks(self, catalog: Catalog, matrix: NDArray[np.float32]) -> bool:
        if self._local_path is None or not list_files(self._local_path):
            return False
        if not self._count_recorded(catalog):  # files that are left although nothing is recorded may be damaged
            return False
        stale = {row[0] for row in catalog.connection.execute(_STALE_IDS_SQL, (self.store_id,))}
        try:
            self._undo_pending_batch(catalog)
            stored = (entry for entry in self.store.scan() if entry[0] not in stale)
            return compare_documents(_recorded_documents(catalog, matrix, self.store_id), stored).is_equal
        except (StoreError, DimensionMismatch):
            return False
        except (RagkitError, sqlite3.Error):  # of the catalog, or an option
            raise
        except Exception:  # noqa: BLE001 - for damaged files, the libraries of stores raise anything
            return False

    def _count_recorded(self, catalog: Catalog) -> int:
        query = "SELECT count(DISTINCT chunk_id) FROM derived WHERE store = ?"
        return int(catalog.connection.execute(query, (self.store_id,)).fetchone()[0])

    def _undo_pending_batch(self, catalog: Catalog) -> None:
        """After an interrupted run, delete its pending batch: whether it was written is unknown."""
        ids: list[str] = json.loads(catalog.get_meta(self._pending_ids_key) or "[]")
        if not ids:
            return
        self.store.delete(ids)
        with catalog.transaction():
            query = "DELETE FROM derived WHERE store = ? AND chunk_id IN (SELECT value FROM json_each(?))"
            catalog.connection.execute(query, (self.store_id, json.dumps(ids)))
            self._record_pending_ids(catalog, [])

    def _record_pending_ids(self, catalog: Catalog, ids: Sequence[str]) -> None:
        """Record the pending ids. Must run inside a transaction."""
        catalog.set_meta(self._pending_ids_key, json.dumps(list(ids)))

    def _reset_mismatched(self, catalog: Catalog, stored: int, *, overwrite: bool) -> None:
        """Clear a store whose number of documents differs from the recorded one."""
        if stored and not (overwrite or self._local_path is not None or self._is_owned(catalog)):
            raise StoreError(
                f"the store {self.store_id.partition(':')[0]!r} has {stored:,} documents that this knowledge base did"
                " not write: use another collection, table or path, or clear it with `ragkit copy --overwrite`"
            )
        self.reset(catalog)

    def _is_owned(self, catalog: Catalog) -> bool:
        """Whether the store belongs to this knowledge base, by a sample of its ids."""
        ids = json.dumps([identity for identity, _, _ in islice(self.store.scan(), OWNERSHIP_SAMPLE_SIZE)])
        query = "SELECT EXISTS (SELECT 1 FROM chunks WHERE id IN (SELECT value FROM json_each(?1)))"
        query += " OR EXISTS (SELECT 1 FROM derived WHERE chunk_id IN (SELECT value FROM json_each(?1)))"
        return bool(catalog.connection.execute(query, (ids,)).fetchone()[0])

    def _delete_stale(self, catalog: Catalog) -> None:
        rows = catalog.connection.execute(
            "SELECT chunk, chunk_id FROM derived WHERE store = ?"
            " AND chunk NOT IN (SELECT key FROM chunks WHERE live = 1)",
            (self.store_id,),
        ).fetchall()
        live_query = "SELECT id FROM chunks WHERE live = 1 AND id IN (SELECT value FROM json_each(?))"
        for batch in _batched(rows):
            ids = [chunk_id for _, chunk_id in batch]
            live = {row[0] for row in catalog.connection.execute(live_query, (json.dumps(ids),))}
            deleted = [chunk_id for chunk_id in ids if chunk_id not in live]
            with catalog.transaction():
                self._record_pending_ids(catalog, deleted)
            self.store.delete(deleted)
            with catalog.transaction():
                catalog.connection.executemany(
                    "DELETE FROM derived WHERE store = ? AND chunk = ?", [(self.store_id, key) for key, _ in batch]
                )
                self._record_pending_ids(catalog, [])

    def _add_missing(self, catalog: Catalog, matrix: NDArray[np.float32], progress: SyncProgress) -> int:
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
            recorded = [(self.store_id, key, document.id) for key, document in zip(keys, documents, strict=True)]
            with catalog.transaction():
                catalog.connection.executemany("INSERT OR REPLACE INTO derived VALUES (?,?,?)", recorded)
                self._record_pending_ids(catalog, [])
            last, added = keys[-1], added + len(keys)
            progress(total - todo + added, total)
        return added


_NOT_SYNCED_SQL = "NOT EXISTS (SELECT 1 FROM derived WHERE store = ? AND chunk = chunks.key)"


def _load_documents(catalog: Catalog, keys: Sequence[int]) -> tuple[list[Document], list[int]]:
    """Chunks as documents of a store, and the rows of their vectors, by key."""
    query = f"{_LIVE_CHUNKS_SQL} AND c.key IN (SELECT value FROM json_each(?)) ORDER BY c.key"  # noqa: S608
    rows = catalog.connection.execute(query, (json.dumps(list(keys)),)).fetchall()
    return [_to_document(row) for row in rows], [row[2] for row in rows]


def _to_document(row: _ChunkRow) -> Document:
    identity, text, _, source, title, metadata = row
    return Document(text, filter_metadata(source, title, metadata), source=source, title=title, id=identity)


_LIVE_CHUNKS_SQL = (
    "SELECT c.id, c.text, c.vector, d.source, d.title, d.metadata FROM chunks c"
    " JOIN documents d ON d.key = c.document WHERE c.live = 1"
)
_STALE_IDS_SQL = (
    "SELECT chunk_id FROM derived WHERE store = ? AND chunk_id NOT IN (SELECT id FROM chunks WHERE live = 1)"
)
"""Ids in the store whose chunks were deleted."""


def _expected_documents(catalog: Catalog, matrix: NDArray[np.float32] | None) -> Iterator[ExpectedDocument]:
    """Stream the documents that a store must hold, by id."""
    return _iter_documents(catalog.connection.execute(f"{_LIVE_CHUNKS_SQL} ORDER BY c.id, c.key"), matrix)


def _recorded_documents(catalog: Catalog, matrix: NDArray[np.float32], store: str) -> Iterator[ExpectedDocument]:
    """Stream the expected documents that were already written to the store, by id."""
    query = f"{_LIVE_CHUNKS_SQL} AND c.id IN (SELECT chunk_id FROM derived WHERE store = ?) ORDER BY c.id, c.key"  # noqa: S608
    return _iter_documents(catalog.connection.execute(query, (store,)), matrix)


def _iter_documents(rows: Iterable[_ChunkRow], matrix: NDArray[np.float32] | None) -> Iterator[ExpectedDocument]:
    previous_id = ""
    for row in rows:
        if row[0] != previous_id:
            yield row[0], _to_document(row), None if matrix is None else matrix[row[2]]
        previous_id = row[0]


def _batched(rows: Sequence[T]) -> Iterator[list[T]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, SYNC_BATCH_SIZE)):
        yield batch
