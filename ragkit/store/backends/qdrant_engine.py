"""The protocol of the engines of the store `qdrant`, and the keys of its payloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from ragkit.store.base import Rows
from ragkit.store.filters.pushdown import Condition

DOCUMENT_KEY = "document"
"""Payload key of the document."""
NAME_KEY = "name"
"""Payload key of the document's id, escaped by `escape_text`."""
NUMBER_PREFIX = "n_"
"""Prefix of the payload key of a column's numbers."""

Payload: TypeAlias = Mapping[str, str | Sequence[str] | Sequence[float]]


class QdrantEngine(Protocol):
    """A collection of points. Keys are UUIDs as text; errors are StoreErrors."""

    def dimension(self) -> int:
        """The dimension of the collection; 0 if there is none. Raises StoreError if it has another layout."""

    def create(self, dimension: int) -> None:
        """Create the collection."""

    def drop(self) -> None:
        """Delete the collection if it exists."""

    def delete_all(self) -> None:
        """Delete all points; the collection and its indexes remain."""

    def indexed_fields(self) -> set[str]:
        """The payload keys that have an index."""

    def create_index(self, name: str, kind: str) -> None:
        """Create an index for a payload key; `kind` is `keyword` or `float`."""

    def upsert(self, keys: Sequence[str], rows: Rows, payloads: Sequence[Payload]) -> None:
        """Insert or replace points."""

    def search(self, query: Rows, limit: int, condition: Condition) -> list[tuple[str, float]]:
        """(document, score) of the nearest points that match the condition, with the scores of the engine."""

    def filter_existing(self, keys: Sequence[str]) -> list[str]:
        """The keys of existing points."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete points."""

    def scroll_names(self) -> Iterator[tuple[str, str]]:
        """(name, key) of every point, in any order."""

    def retrieve(self, keys: Sequence[str]) -> list[tuple[str, list[float]]]:
        """(document, vector) of the existing points among the keys, in any order."""

    def count(self) -> int:
        """The number of points."""

    def close(self) -> None:
        """Close the engine; may be called twice."""
