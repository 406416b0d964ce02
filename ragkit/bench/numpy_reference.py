"""Reference measurements: exact search with numpy, and the memory bandwidth of this machine."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from ragkit.bench.datasets import FILTER_FIELD
from ragkit.records import Document, SearchResult
from ragkit.store.base import Filter, Rows

REFERENCE_NAME = "numpy"
"""The name of the reference in a settings file. No store has this name."""


class NumpyReference:
    """Exact search with one matrix product over all rows in memory, without validation and files."""

    persistent = False

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all rows."""
        self._matrix: Rows = np.zeros((0, 0), np.float32)
        self._pending: list[Rows] = []
        self._documents: list[Document] = []
        self._live_mask = np.zeros(0, np.bool_)
        self._buckets = np.zeros(0, np.int64)
        self._row_by_id: dict[str, int] = {}

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> None:
        """Add rows with new ids."""
        start = len(self._documents)
        self._documents.extend(documents)
        self._row_by_id.update((document.id, start + number) for number, document in enumerate(documents))
        self._pending.append(embeddings)
        self._live_mask = np.append(self._live_mask, np.ones(len(documents), np.bool_))
        buckets = [cast("int", document.metadata[FILTER_FIELD]) for document in documents]
        self._buckets = np.append(self._buckets, buckets)

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """The nearest rows. The only supported filter is `{FILTER_FIELD: {"$lt": n}}`."""
        if self._pending:
            self._matrix = np.concatenate([self._matrix.reshape(-1, len(query_embedding)), *self._pending])
            self._pending = []
        keep = self._live_mask
        if filter:
            keep = keep & (self._buckets < cast("Mapping[str, int]", filter[FILTER_FIELD])["$lt"])
        if keep.all():
            rows, scores = None, self._matrix @ query_embedding
        elif keep.mean() > 0.2:  # copying the matching rows would cost more than the product with all rows
            rows, scores = None, np.where(keep, self._matrix @ query_embedding, np.float32(-2))
        else:
            rows = np.flatnonzero(keep)
            scores = self._matrix[rows] @ query_embedding
        count = min(top_k, int(keep.sum()))
        best = np.argpartition(-scores, count - 1)[:count] if count else np.zeros(0, np.int64)
        best = best[np.argsort(-scores[best], kind="stable")]
        best_rows = best if rows is None else rows[best]
        found = zip(best_rows.tolist(), scores[best].tolist(), strict=True)
        return [SearchResult(self._documents[row], score) for row, score in found]

    def delete(self, ids: Sequence[str]) -> int:
        """Mark rows as deleted."""
        self._live_mask[[self._row_by_id[row_id] for row_id in ids]] = False
        return len(ids)

    def count(self) -> int:
        """Number of rows."""
        return int(self._live_mask.sum())

    def close(self) -> None:
        """Do nothing: there are no resources to release."""

    def read_seconds(self, times: int = 7) -> float:
        """Time of one thread to read the matrix once, in seconds: the minimum of `times` runs.

        A dot product of the matrix with itself, or with one row, is limited by memory bandwidth. It is a lower bound
        for exact search over float32 rows on one thread.
        """
        flat, row = self._matrix.reshape(-1), self._matrix[0].copy()
        seconds = []
        for rows, other in ((flat, flat), (self._matrix, row)):
            np.dot(rows, other)
            for _ in range(times):
                started_at = time.perf_counter()
                np.dot(rows, other)
                seconds.append(time.perf_counter() - started_at)
        return min(seconds)
