"""Compare the documents in a vector store with the documents written to it. Both sides are streamed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragkit.records import Document
from ragkit.store.base import UNIT_TOLERANCE, Rows

ExpectedDocument = tuple[str, Document, NDArray[np.float32] | None]
"""(id, document, vector); None: the stored vector is not compared."""
StoredDocument = tuple[str, Document, Rows]


@dataclass(frozen=True)
class StoreComparison:
    """Counts and checksums of a comparison."""

    expected: int
    """Number of expected documents."""
    stored: int
    """Number of documents in the store."""
    missing: int
    unexpected: int
    changed: int
    """Documents on both sides that differ in text, source, title or metadata."""
    vector_mismatches: int
    """Documents on both sides whose vectors differ by more than the rounding tolerance."""
    expected_checksum: str
    """CRC-32 of ids and contents of the expected documents, ordered by id: eight hexadecimal digits."""
    stored_checksum: str
    """The same checksum of the stored documents."""
    max_vector_distance: float
    """Maximum of 1 - cosine between an expected vector and the stored one."""

    @property
    def is_equal(self) -> bool:
        """Whether the store holds exactly the expected documents."""
        return not (self.missing or self.unexpected or self.changed or self.vector_mismatches)

    def describe_differences(self) -> Iterator[str]:
        """Yield one message per kind of difference."""
        if self.missing:
            yield f"is missing {self.missing} chunks"
        if self.unexpected:
            yield f"has {self.unexpected} chunks that are not in the catalog"
        if self.changed:
            yield f"has {self.changed} chunks with a different text or metadata"
        if self.vector_mismatches:
            distance = f"1 - cosine is up to {self.max_vector_distance:.2g}"
            yield f"has {self.vector_mismatches} chunks with a different vector ({distance})"


def compare_documents(expected: Iterable[ExpectedDocument], stored: Iterable[StoredDocument]) -> StoreComparison:
    """Compare two streams that are sorted by id, in constant memory.

    Args:
        expected: the documents that the store should hold; ids are unique.
        stored: the documents that it holds.
    """
    counter = _ComparisonCounter()
    expected_items, stored_items = iter(expected), iter(stored)
    left, right = next(expected_items, None), next(stored_items, None)
    while left is not None or right is not None:
        if right is None or (left is not None and left[0] < right[0]):
            assert left is not None  # noqa: S101 - left and right are not both None
            counter.add_missing(left)
            left = next(expected_items, None)
        elif left is None or right[0] < left[0]:
            counter.add_unexpected(right)
            right = next(stored_items, None)
        else:
            counter.add_pair(left, right)
            left, right = next(expected_items, None), next(stored_items, None)
    return counter.result()


class _ComparisonCounter:
    """Accumulates a `StoreComparison`."""

    def __init__(self) -> None:
        self.expected = self.stored = self.missing = self.unexpected = self.changed = self.vector_mismatches = 0
        self.checksums = [0, 0]
        self.max_vector_distance = 0.0

    def add_missing(self, expected: ExpectedDocument) -> None:
        self.expected += 1
        self.missing += 1
        self.checksums[0] = zlib.crc32(_content_bytes(expected[0], expected[1]), self.checksums[0])

    def add_unexpected(self, stored: StoredDocument) -> None:
        self.stored += 1
        self.unexpected += 1
        self.checksums[1] = zlib.crc32(_content_bytes(stored[0], stored[1]), self.checksums[1])

    def add_pair(self, expected: ExpectedDocument, stored: StoredDocument) -> None:
        self.expected += 1
        self.stored += 1
        contents = _content_bytes(expected[0], expected[1]), _content_bytes(stored[0], stored[1])
        self.checksums = [zlib.crc32(content, crc) for content, crc in zip(contents, self.checksums, strict=True)]
        self.changed += contents[0] != contents[1]
        if expected[2] is not None:
            distance = 1 - float(expected[2].astype(np.float64) @ stored[2].reshape(-1).astype(np.float64))
            self.max_vector_distance = max(self.max_vector_distance, distance)
            self.vector_mismatches += not distance <= UNIT_TOLERANCE

    def result(self) -> StoreComparison:
        checksums = [f"{crc:08x}" for crc in self.checksums]
        counts = (self.expected, self.stored, self.missing, self.unexpected, self.changed, self.vector_mismatches)
        return StoreComparison(*counts, checksums[0], checksums[1], max(self.max_vector_distance, 0.0))


def _content_bytes(identity: str, document: Document) -> bytes:
    """All stored fields of a document, serialized."""
    parts = [identity, document.text, document.source, document.title, dict(document.metadata)]
    return json.dumps(parts, sort_keys=True, ensure_ascii=True).encode()
