"""What the store `qdrant` asks of an engine, and how a document lies in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from ragkit.store.base import Rows
from ragkit.store.filters.pushdown import Condition

DOCUMENT_KEY = "document"
"""The key of the payload that holds the document."""
NAME_KEY = "name"
"""The key of the payload that holds the document's id, escaped where it has lone surrogates."""
NUMBER_PREFIX = "n_"
"""What stands before a column's name in the key of the payload that holds its numbers."""

Payload: TypeAlias = Mapping[str, str | Sequence[str] | Sequence[float]]


class QdrantEngine(Protocol):
    """What the store asks of an engine. Keys are UUIDs as text; errors are StoreErrors."""

    def dimension(self) -> int:
        """Columns of a row; 0 when there is no collection. Raises StoreError when it is not ours."""

    def create(self, dimension: int) -> None:
        """Make the collection."""

    def drop(self) -> None:
        """Remove the collection, if it is there."""

    def delete_all(self) -> None:
        """Take all points out; the collection and its indexes stay."""

    def indexed_fields(self) -> set[str]:
        """The keys of the payload that have an index."""

    def create_index(self, name: str, kind: str) -> None:
        """Have an index for a key of the payload; `kind` is `keyword` or `float`."""

    def upsert(self, keys: Sequence[str], rows: Rows, payloads: Sequence[Payload]) -> None:
        """Put points in, those that are there are replaced."""

    def search(self, query: Rows, limit: int, condition: Condition) -> list[tuple[str, float]]:
        """(document, score) of the nearest points that the condition lets through; the score is the engine's own."""

    def filter_existing(self, keys: Sequence[str]) -> list[str]:
        """Those of the keys that are there."""

    def delete(self, keys: Sequence[str]) -> None:
        """Take points out."""

    def scroll_names(self) -> Iterator[tuple[str, str]]:
        """(name, key) of every point, in any order."""

    def retrieve(self, keys: Sequence[str]) -> list[tuple[str, list[float]]]:
        """(document, row) of those of the keys that are there, in any order."""

    def count(self) -> int:
        """How many points there are."""

    def close(self) -> None:
        """Let go; closing twice is fine."""
