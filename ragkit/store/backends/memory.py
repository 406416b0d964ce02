"""The store `memory`: documents and vectors in the memory of this process, without persistence."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ragkit.records import Document, SearchResult
from ragkit.store.base import (
    Filter,
    Rows,
    validate_documents,
    validate_ids,
    validate_query,
    validate_rows,
    validate_top_k,
)
from ragkit.store.filters.language import Always, parse_filter
from ragkit.store.native.metadata_index import MetadataIndex
from ragkit.store.native.scanner import Scanner
from ragkit.store.options import MemoryOptions
from ragkit.store.vector_store import VectorStore

_MIN_DEAD_ROWS = 256
"""Minimum number of dead rows for a compaction."""


class MemoryStore(VectorStore):
    """Documents and vectors in memory, searched exactly. Safe for several threads.

    Rows are append-only; replaced and deleted rows are marked dead. A search works on the rows at its start, without
    blocking writers. When more than half of the rows are dead, they are removed.
    """

    def __init__(self, options: MemoryOptions | None = None) -> None:
        self._options = options or MemoryOptions()
        self._lock = threading.RLock()
        self._state = _MemoryState(self._options.dimension)

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """See `Store.add_documents`."""
        if not documents:
            return []
        with self._lock:
            state = self._state
            rows = validate_rows(embeddings, len(documents), state.dimension)
            state.append(validate_documents(documents), rows)
            self._compact()
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """See `Store.search`."""
        node = parse_filter(filter)
        with self._lock:
            state = self._state
            query = validate_query(query_embedding, state.dimension)
            top_k = validate_top_k(top_k)
            if not state.rows_by_id:
                return []
            matrix, allowed = state.matrix(), state.live_mask()
            if not isinstance(node, Always):
                mask = state.update_metadata_index().mask(node, len(matrix))
                allowed = mask if allowed is None else mask & allowed
        documents = state.documents
        rows, scores = state.scanner.search(
            matrix, query, top_k, allowed, lambda rows: [documents[row].id for row in rows]
        )
        return [SearchResult(documents[row], float(score)) for row, score in zip(rows, scores, strict=True)]

    def delete(self, ids: Sequence[str]) -> int:
        """See `Store.delete`."""
        with self._lock:
            removed = self._state.mark_dead(validate_ids(ids))
            self._compact()
        return removed

    def clear(self) -> None:
        """See `Store.clear`."""
        with self._lock:
            self._state = _MemoryState(self._options.dimension)

    def count(self) -> int:
        """See `Store.count`."""
        return len(self._state.rows_by_id)

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """See `Store.scan`; iterates over a snapshot taken at the first step."""
        with self._lock:
            state = self._state
            matrix, sorted_rows = state.matrix(), sorted(state.rows_by_id.items())
        for name, row in sorted_rows:
            yield name, state.documents[row], matrix[row].copy()

    def _compact(self) -> None:
        state = self._state
        dead = len(state.documents) - len(state.rows_by_id)
        if dead < _MIN_DEAD_ROWS or dead * 2 < len(state.documents):
            return
        rows = np.array(sorted(state.rows_by_id.values()), np.int64)
        fresh = _MemoryState(state.dimension)
        fresh.append([state.documents[row] for row in rows], state.matrix()[rows])
        self._state = fresh


class _MemoryState:
    """The rows of the store until the next compaction. Only `append` and `mark_dead` change it, under the lock."""

    def __init__(self, dimension: int | None) -> None:
        self.dimension = dimension
        self.documents: list[Document] = []
        """By row; a dead row keeps its document, because a running search may return it."""
        self.rows_by_id: dict[str, int] = {}
        self.scanner = Scanner()
        self._metadata_index = MetadataIndex()
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
            self.mark_dead([document.id])
            self.rows_by_id[document.id] = row

    def mark_dead(self, ids: Sequence[str]) -> int:
        rows = [self.rows_by_id.pop(name) for name in ids if name in self.rows_by_id]
        self._is_live[rows] = False
        return len(rows)

    def matrix(self) -> Rows:
        return self._vectors[: len(self.documents)]

    def live_mask(self) -> NDArray[np.bool_] | None:
        """A copy of the mask of live rows; None if all are live."""
        rows = len(self.documents)
        return None if rows == len(self.rows_by_id) else self._is_live[:rows].copy()

    def update_metadata_index(self) -> MetadataIndex:
        self._metadata_index.extend(document.metadata for document in self.documents[self._metadata_index.rows :])
        return self._metadata_index

    def _reserve(self, rows: int) -> None:
        """Allocate memory for twice as many rows if `rows` do not fit."""
        if rows <= len(self._is_live):
            return
        vectors = np.empty((2 * rows, self.dimension or 0), np.float32)
        is_live = np.zeros(2 * rows, bool)
        if self.documents:
            vectors[: len(self.documents)] = self.matrix()
        is_live[: len(self.documents)] = self._is_live[: len(self.documents)]
        self._vectors, self._is_live = vectors, is_live
