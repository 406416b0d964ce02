"""The floors beside the stores: a matrix in memory and one product with it, and how fast this machine reads at all."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from ragkit.bench.datasets import FILTER_FIELD
from ragkit.records import Document, SearchResult
from ragkit.store.base import Filter, Rows

REFERENCE_NAME = "numpy"
"""What the floor is called in a settings file. No store has this name."""


class NumpyReference:
    """Exact search as numpy does it: all rows in memory, one product, the best of it. No checks, no texts, no files."""

    persistent = False

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Take everything out."""
        self._matrix: Rows = np.zeros((0, 0), np.float32)
        self._pending: list[Rows] = []
        self._documents: list[Document] = []
        self._live_mask = np.zeros(0, np.bool_)
        self._buckets = np.zeros(0, np.int64)
        self._row_by_id: dict[str, int] = {}

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> None:
        """Put rows with new ids in."""
        start = len(self._documents)
        self._documents.extend(documents)
        self._row_by_id.update((document.id, start + number) for number, document in enumerate(documents))
        self._pending.append(embeddings)
        self._live_mask = np.append(self._live_mask, np.ones(len(documents), np.bool_))
        self._buckets = np.append(
            self._buckets, [cast("int", document.metadata[FILTER_FIELD]) for document in documents]
        )

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """The nearest rows; of filters it knows `{field: {"$lt": n}}` alone."""
        if self._pending:
            self._matrix = np.concatenate([self._matrix.reshape(-1, len(query_embedding)), *self._pending])
            self._pending = []
        keep = self._live_mask
        if filter:
            keep = keep & (self._buckets < cast("Mapping[str, int]", filter[FILTER_FIELD])["$lt"])
        if keep.all():
            rows, scores = None, self._matrix @ query_embedding
        elif keep.mean() > 0.2:  # gathering the rows would cost more than the product with all of them
            rows, scores = None, np.where(keep, self._matrix @ query_embedding, np.float32(-2))
        else:
            rows = np.flatnonzero(keep)
            scores = self._matrix[rows] @ query_embedding
        count = min(top_k, int(keep.sum()))
        at = np.argpartition(-scores, count - 1)[:count] if count else np.zeros(0, np.int64)
        at = at[np.argsort(-scores[at], kind="stable")]
        found = at if rows is None else rows[at]
        return [
            SearchResult(self._documents[row], score)
            for row, score in zip(found.tolist(), scores[at].tolist(), strict=True)
        ]

    def delete(self, ids: Sequence[str]) -> int:
        """Take rows out of what is found."""
        self._live_mask[[self._row_by_id[one] for one in ids]] = False
        return len(ids)

    def count(self) -> int:
        """How many rows are there."""
        return int(self._live_mask.sum())

    def close(self) -> None:
        """Nothing to let go of."""

    def read_seconds(self, times: int = 7) -> float:
        """How long one thread takes to read the matrix once, in seconds: the best of some.

        The product of the matrix with itself, or with one row, reads each number once and does nothing else that takes
        time. No exact search over float32 rows is faster on one thread of this machine.
        """
        flat, row = self._matrix.reshape(-1), self._matrix[0].copy()
        taken = []
        for rows, other in ((flat, flat), (self._matrix, row)):
            np.dot(rows, other)
            for _ in range(times):
                begun = time.perf_counter()
                np.dot(rows, other)
                taken.append(time.perf_counter() - begun)
        return min(taken)
