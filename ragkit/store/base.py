"""What every vector store keeps: documents with unit rows in, the nearest of them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import DimensionMismatch, InvalidVector
from ragkit.records import JSON, Document, SearchResult

Rows: TypeAlias = NDArray[np.float32]
Filter: TypeAlias = Mapping[str, JSON]
"""The one filter language (`ragkit.store.filters`); an empty one lets everything through."""

UNIT_TOLERANCE = 1e-3
"""How far a row's length may be from 1; float16 and int8 services round by less than this."""


class Store(Protocol):
    """Holds documents with one unit row each, by id, and finds the nearest.

    A score is the cosine, in [-1, 1]; equal scores are ordered by id. Results are complete:
    `min(top_k, how many match)` of them, whatever the filter.
    """

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """Put documents in, one row of (n, dimension) each; returns their ids in order.

        An id that exists is replaced; of two documents with one id in a call the last one stays.

        Raises:
            DimensionMismatch: the rows are of another width than those that are here.
            InvalidVector: a row is not finite or not of length 1.
        """

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """The nearest documents to a (dimension,) row among those that the filter lets through, best first."""

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents; returns how many of the ids were there."""

    def clear(self) -> None:
        """Remove every document."""

    def count(self) -> int:
        """How many documents are here."""

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """Every (id, document, row), streamed, in the order of the ids."""

    def close(self) -> None:
        """Let go of files and connections; closing twice is fine."""


def checked_rows(embeddings: NDArray[np.floating], documents: int, dimension: int | None) -> Rows:
    """`embeddings` as contiguous float32 of (documents, dimension), or the error that says what is wrong."""
    rows = np.ascontiguousarray(embeddings, np.float32)
    if rows.ndim != 2 or len(rows) != documents:
        raise InvalidVector(0, f"has shape {rows.shape} where ({documents}, dimension) is wanted")
    if dimension is not None and documents and rows.shape[1] != dimension:
        raise DimensionMismatch(rows.shape[1], dimension)
    lengths = np.linalg.norm(rows, axis=1)
    wrong = np.flatnonzero(~(np.abs(lengths - 1) <= UNIT_TOLERANCE))
    if len(wrong):
        raise InvalidVector(int(wrong[0]), f"has length {lengths[wrong[0]]:.4g}")
    return rows


def checked_query(query: NDArray[np.floating], dimension: int | None) -> Rows:
    """`query` as a float32 row of (dimension,), or the error that says what is wrong."""
    row = np.ascontiguousarray(query, np.float32).reshape(-1)
    checked_rows(row[None], 1, dimension)
    return row
