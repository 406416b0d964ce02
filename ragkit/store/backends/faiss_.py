"""The store of the faiss library: a directory of documents and rows (`DirectoryStore`), and an index beside.

The index is over the rows of the vector file, which only grows: what is replaced or deleted is passed over, and once
more than a third is dead the file and its index are made anew. Nothing depends on the index: rows that it lacks are
scanned, a filter that lets few rows through is answered from those alone, an index that finds too few is left aside,
and every score is computed from the row itself. Recall@10 on 20,000 x 384 clustered rows was
1.00 with `hnsw` and 0.98 with `ivfpq`, as their options are by default.

Searches never build. An index that is missing, damaged or behind is made up for when the store is opened, and after
each write.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragkit.records import Document
from ragkit.store.backends.faiss_index import FaissIndex, min_index_rows
from ragkit.store.base import Rows
from ragkit.store.native.directory_store import DirectoryStore
from ragkit.store.native.directory_tables import StoreState
from ragkit.store.native.exact_search import AllowedRows, RowNumbers, SortKeys, find_nearest, rank_rows
from ragkit.store.native.scanner import Scanner
from ragkit.store.native.vector_file import VectorFile
from ragkit.store.options import FaissOptions
from ragkit.store.read_write_lock import ReadWriteLock

_MAX_UNINDEXED_ROWS = 256
"""Up to so many rows may be missing in the index: they are scanned, in a tenth of the time that it takes to ask it."""
_RELOAD_ROWS = 1_000
_RELOAD_SHARE = 0.2
"""When more rows than both are missing, another process may have written a newer index."""
_ADD_BATCH_ROWS = 1_000
"""Rows that go into an index at a time while nobody searches it; else _TAIL_ROWS, and searches come in between."""
_MAX_UNSAVED_SHARE = 0.1
"""The file is written anew when more than this share of the rows is missing in it, and when the store is closed."""
_EXTRA_CANDIDATES = 16


class FaissStore(DirectoryStore):
    """Documents and rows in a directory with a faiss index. Safe for several threads and processes; one writes."""

    max_dead_share = 1 / 3
    """More dead rows than this, and the file and its index are made anew."""

    def __init__(self, options: FaissOptions) -> None:
        """Open the directory, or make it, and see to it that the index is there. Raises as `DirectoryStore` does."""
        self._options = options
        self._scanner: FaissScanner | None = None
        self._scanner_lock = threading.Lock()
        super().__init__(Path(options.path), options.dimension, options.busy_seconds)
        self._update_index()

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """As `DirectoryStore.add_documents` says; the index is grown afterwards."""
        names = super().add_documents(documents, embeddings)
        if names:
            self._update_index()
        return names

    def delete(self, ids: Sequence[str]) -> int:
        """As `Store.delete` says."""
        removed = super().delete(ids)
        if removed:
            self._update_index()
        return removed

    def close(self) -> None:
        """As `Store.close` says; an index that has grown is kept."""
        super().close()
        with self._scanner_lock:
            scanner, self._scanner = self._scanner, None
        if scanner is not None:
            scanner.save(share=0.0)

    def _update_index(self) -> None:
        with self._read_transaction() as (_, view):
            scanner, matrix = view.scanner, view.matrix
        if isinstance(scanner, FaissScanner):
            scanner.update(matrix)

    def _create_scanner(self, file: VectorFile, state: StoreState) -> Scanner:
        """The one for this vector file; a search that began before a newer one was made scans exactly."""
        with self._scanner_lock:
            now = self._scanner
            if now is None or (now.file_id != state.file_id and now.first_generation < state.generation):
                now = FaissScanner(file.path.with_suffix(".faiss"), state, self._options)
                self._scanner = now
            return now if now.file_id == state.file_id else Scanner()


class FaissScanner(Scanner):
    """Finds the nearest rows of one vector file. Several threads may use it; the matrix may have grown at each call."""

    def __init__(self, path: Path, state: StoreState, options: FaissOptions) -> None:
        """`path` is where the index is kept; the state is that of the store when the vector file was first met."""
        super().__init__()
        self.file_id, self.first_generation = state.file_id, state.generation
        self._path, self._options = path, options
        self._update_lock = threading.Lock()
        self._index_lock = ReadWriteLock()
        self._faiss_index: FaissIndex | None = None
        self._written_rows = self._loaded_mtime_ns = 0

    def search(
        self, matrix: Rows, query: Rows, k: int, allowed: AllowedRows = None, order: SortKeys | None = None
    ) -> tuple[RowNumbers, NDArray[np.float64]]:
        """As `exact.nearest` says, but for what the index may miss."""
        self._reload_if_stale(matrix)
        mask = _as_mask(allowed, len(matrix))
        number = len(matrix) if mask is None else int(np.count_nonzero(mask))
        candidates = None
        if number >= self._options.exact_share * len(matrix) and number > k:
            candidates = self._find_candidates(matrix, query, k, mask, order)
        if candidates is None or len(candidates) < k:
            return find_nearest(matrix, query, k, allowed, order)
        return rank_rows(matrix, query, k, candidates, order)

    def _find_candidates(
        self, matrix: Rows, query: Rows, k: int, mask: NDArray[np.bool_] | None, order: SortKeys | None
    ) -> RowNumbers | None:
        """Rows that hold the nearest, or nearly all of them; None without an index, or when it runs dry."""
        with self._index_lock.read():
            index = self._faiss_index
            rows = min(index.rows, len(matrix)) if index is not None else 0
            if index is None:
                return None
            if rows < index.rows and mask is None:  # it has grown since this search began
                mask = np.ones(rows, bool)
            head = None if mask is None else mask[:rows]
            number = rows if head is None else int(np.count_nonzero(head))
            found = _search_index(index, query, k, head, number) if number else np.empty(0, np.int64)
        if found is None or len(matrix) == rows:
            return found
        ids = None if order is None else (lambda numbers: order(numbers + rows))
        tail, _ = find_nearest(matrix[rows:], query, k, None if mask is None else mask[rows:], ids)
        return np.concatenate([found, tail + rows])

    def _reload_if_stale(self, matrix: Rows) -> None:
        """Take the index that another process has written, when this one has none, or one that lacks many rows."""
        missing = len(matrix) - (self._faiss_index.rows if self._faiss_index else 0)
        if (
            missing <= _RELOAD_ROWS
            or missing <= _RELOAD_SHARE * len(matrix)
            or len(matrix) < min_index_rows(self._options)
        ):
            return
        if self._update_lock.acquire(blocking=False):
            try:
                self._load(matrix)
            finally:
                self._update_lock.release()

    def _load(self, matrix: Rows) -> None:
        try:
            written = self._path.stat().st_mtime_ns
        except OSError:
            return
        if written == self._loaded_mtime_ns:
            return
        self._loaded_mtime_ns = written
        index = FaissIndex.load(self._path, self.file_id, matrix, self._options)
        if index is not None and (self._faiss_index is None or index.rows > self._faiss_index.rows):
            self._faiss_index, self._written_rows = index, index.rows

    def update(self, matrix: Rows) -> None:
        """See to it that the index is there and lacks few of the rows; waits for another thread that is at it."""
        if len(matrix) < min_index_rows(self._options):
            return
        with self._update_lock:
            if self._faiss_index is None:
                self._load(matrix)
            index = self._faiss_index
            if index is None or index.is_outgrown(len(matrix)):
                index = FaissIndex.create(matrix, self._options)
            if len(matrix) - index.rows > _MAX_UNINDEXED_ROWS or index is not self._faiss_index:
                self._add_missing_rows(index, matrix)
        self.save(share=_MAX_UNSAVED_SHARE)

    def _add_missing_rows(self, index: FaissIndex, matrix: Rows) -> None:
        if index is not self._faiss_index:  # nobody else has it yet
            for start in range(index.rows, len(matrix), _ADD_BATCH_ROWS):
                index.add(matrix[start : start + _ADD_BATCH_ROWS])
        for start in range(index.rows, len(matrix), _MAX_UNINDEXED_ROWS):
            with self._index_lock.write():
                index.add(matrix[start : start + _MAX_UNINDEXED_ROWS])
        self._faiss_index = index

    def save(self, share: float) -> None:
        """Write the index to its file, when more than this share of its rows is missing there."""
        with self._update_lock:
            index = self._faiss_index
            if index is not None and index.rows - self._written_rows > share * index.rows:
                with self._index_lock.read():
                    if index.save(self._path, self.file_id):
                        self._written_rows = index.rows


def _search_index(
    index: FaissIndex, query: Rows, k: int, allowed: NDArray[np.bool_] | None, number: int
) -> RowNumbers | None:
    """Candidates for the `k` nearest of the `number` rows that are allowed; None when the index runs dry."""
    slack = len(query) * 2.0**-23 * 1.01 + 1e-6
    asked = k * index.refine_factor + _EXTRA_CANDIDATES
    while True:
        asked = min(asked, number)
        rows, scores = index.search(query, asked, allowed, number / index.rows)
        if len(rows) < asked:
            return None
        if not index.has_exact_scores:
            return rows
        rising = scores[::-1].tolist()
        # what ties with the k-th counts too: when the last one does, there may be more of them, with lower ids
        floor = min(rising[-min(k, asked)], 1.0) - slack  # scores above 1 are cut to 1, and tie
        if asked == number or rising[0] < floor:
            return rows[: asked - bisect_left(rising, floor)]
        asked *= 4


def _as_mask(allowed: AllowedRows, rows: int) -> NDArray[np.bool_] | None:
    if allowed is None or allowed.dtype == np.bool_:
        return None if allowed is None else allowed.astype(np.bool_, copy=False)
    mask = np.zeros(rows, bool)
    mask[allowed] = True
    return mask
