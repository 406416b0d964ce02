"""The store that lives in this process's memory and is gone with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ragkit.records import Document, SearchResult
from ragkit.store.base import Filter, Rows, checked_documents, checked_ids, checked_query, checked_rows, checked_top_k
from ragkit.store.columns import Columns
from ragkit.store.facade import VectorStore
from ragkit.store.filters import Always, parse_filter
from ragkit.store.options import MemoryOptions
from ragkit.store.scanner import Scanner

_COMPACT_ROWS = 256
"""Fewer dead rows than this are never worth the work."""


class MemoryStore(VectorStore):
    """Documents and rows in memory, searched exactly. May be used by several threads.

    Rows are only ever added at the end, and die when they are replaced or deleted: a search works on what was there
    when it began, without holding up writers. Dead rows are left behind when they are more than half.
    """

    def __init__(self, options: MemoryOptions | None = None) -> None:
        self._options = options or MemoryOptions()
        self._lock = threading.RLock()
        self._state = _State(self._options.dimension)

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """As `Store.add_documents` says."""
        if not documents:
            return []
        with self._lock:
            state = self._state
            rows = checked_rows(embeddings, len(documents), state.dimension)
            state.append(checked_documents(documents), rows)
            self._compact()
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """As `Store.search` says."""
        node = parse_filter(filter)
        with self._lock:
            state = self._state
            query = checked_query(query_embedding, state.dimension)
            top_k = checked_top_k(top_k)
            if not state.row_of:
                return []
            matrix, allowed = state.matrix(), state.live()
            if not isinstance(node, Always):
                mask = state.filled_columns().mask(node, len(matrix))
                allowed = mask if allowed is None else mask & allowed
        documents = state.documents
        rows, scores = state.scanner.nearest(
            matrix, query, top_k, allowed, lambda rows: [documents[row].id for row in rows]
        )
        return [SearchResult(documents[row], float(score)) for row, score in zip(rows, scores, strict=True)]

    def delete(self, ids: Sequence[str]) -> int:
        """As `Store.delete` says."""
        with self._lock:
            removed = self._state.kill(checked_ids(ids))
            self._compact()
        return removed

    def clear(self) -> None:
        """As `Store.clear` says."""
        with self._lock:
            self._state = _State(self._options.dimension)

    def count(self) -> int:
        """As `Store.count` says."""
        return len(self._state.row_of)

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """As `Store.scan` says; what was there at the first step is gone through."""
        with self._lock:
            state = self._state
            matrix, placed = state.matrix(), sorted(state.row_of.items())
        for name, row in placed:
            yield name, state.documents[row], matrix[row].copy()

    def _compact(self) -> None:
        state = self._state
        dead = len(state.documents) - len(state.row_of)
        if dead < _COMPACT_ROWS or dead * 2 < len(state.documents):
            return
        rows = np.array(sorted(state.row_of.values()), np.int64)
        fresh = _State(state.dimension)
        fresh.append([state.documents[row] for row in rows], state.matrix()[rows])
        self._state = fresh


class _State:
    """What the store holds, up to the next compaction. Only `append` and `kill` change it, under the store's lock."""

    def __init__(self, dimension: int | None) -> None:
        self.dimension = dimension
        self.documents: list[Document] = []
        """By row; a dead row keeps its document, as a search may be about to give it out."""
        self.row_of: dict[str, int] = {}
        self.scanner = Scanner()
        self._columns = Columns()
        self._vectors: Rows = np.empty((0, 0), np.float32)
        self._is_live: NDArray[np.bool_] = np.empty(0, bool)

    def append(self, documents: Sequence[Document], rows: Rows) -> None:
        first = len(self.documents)
        self.dimension = rows.shape[1] if self.dimension is None else self.dimension
        self._reserve(first + len(documents))
        self._vectors[first : first + len(documents)] = rows
        self._is_live[first : first + len(documents)] = True
        self.documents.extend(documents)
        for row, document in enumerate(documents, first):
            self.kill([document.id])
            self.row_of[document.id] = row

    def kill(self, ids: Sequence[str]) -> int:
        rows = [self.row_of.pop(name) for name in ids if name in self.row_of]
        self._is_live[rows] = False
        return len(rows)

    def matrix(self) -> Rows:
        return self._vectors[: len(self.documents)]

    def live(self) -> NDArray[np.bool_] | None:
        """A copy of which rows count; None when all do."""
        rows = len(self.documents)
        return None if rows == len(self.row_of) else self._is_live[:rows].copy()

    def filled_columns(self) -> Columns:
        self._columns.extend(document.metadata for document in self.documents[self._columns.rows :])
        return self._columns

    def _reserve(self, rows: int) -> None:
        """Room for so many rows: twice as much as is needed, so that adding stays cheap."""
        if rows <= len(self._is_live):
            return
        vectors = np.empty((2 * rows, self.dimension or 0), np.float32)
        is_live = np.zeros(2 * rows, bool)
        if self.documents:
            vectors[: len(self.documents)] = self.matrix()
        is_live[: len(self.documents)] = self._is_live[: len(self.documents)]
        self._vectors, self._is_live = vectors, is_live
