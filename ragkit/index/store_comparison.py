"""What a vector store gives back against what it was given, document by document. Both sides are streamed."""

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
"""(id, document, row); without a row the one that comes back is not looked at."""
StoredDocument = tuple[str, Document, Rows]


@dataclass(frozen=True)
class StoreComparison:
    """Two streams in the order of their ids, laid side by side."""

    expected: int
    """Documents that the store has to hold."""
    stored: int
    """Documents that it gives back."""
    missing: int
    unexpected: int
    changed: int
    """Of those on both sides: text, source, title or metadata differ."""
    vector_mismatches: int
    """Of those on both sides: the row points elsewhere, by more than a store may round."""
    expected_checksum: str
    """CRC-32 over ids and contents of the documents given, in the order of their ids: eight hexadecimal digits."""
    stored_checksum: str
    """The same of what came back."""
    max_vector_distance: float
    """The largest distance of a row that came back from the row given, as 1 - cosine."""

    @property
    def is_equal(self) -> bool:
        """Whether the store holds exactly what it was given."""
        return not (self.missing or self.unexpected or self.changed or self.vector_mismatches)

    def describe_differences(self) -> Iterator[str]:
        """What differs, a line each."""
        if self.missing:
            yield f"lacks {self.missing} chunks"
        if self.unexpected:
            yield f"holds {self.unexpected} chunks that are not in the catalog"
        if self.changed:
            yield f"holds {self.changed} chunks with another text or other metadata"
        if self.vector_mismatches:
            yield f"holds {self.vector_mismatches} chunks with another vector (1 - cosine is up to {self.max_vector_distance:.2g})"


def compare_documents(given: Iterable[ExpectedDocument], held: Iterable[StoredDocument]) -> StoreComparison:
    """Compare two streams in the order of their ids. Memory does not grow with their length.

    Args:
        given: what the store has to hold; each id once.
        held: what it gives back.
    """
    tally = _ComparisonCounter()
    wanted, there = iter(given), iter(held)
    left, right = next(wanted, None), next(there, None)
    while left is not None or right is not None:
        if right is None or (left is not None and left[0] < right[0]):
            assert left is not None  # noqa: S101 - one of the two is there
            tally.add_missing(left)
            left = next(wanted, None)
        elif left is None or right[0] < left[0]:
            tally.add_unexpected(right)
            right = next(there, None)
        else:
            tally.add_pair(left, right)
            left, right = next(wanted, None), next(there, None)
    return tally.result()


class _ComparisonCounter:
    """Counts and sums of a comparison under way."""

    def __init__(self) -> None:
        self.expected = self.stored = self.missing = self.unexpected = self.changed = self.vector_mismatches = 0
        self.checksums = [0, 0]
        self.max_vector_distance = 0.0

    def add_missing(self, one: ExpectedDocument) -> None:
        self.expected += 1
        self.missing += 1
        self.checksums[0] = zlib.crc32(_content_bytes(one[0], one[1]), self.checksums[0])

    def add_unexpected(self, one: StoredDocument) -> None:
        self.stored += 1
        self.unexpected += 1
        self.checksums[1] = zlib.crc32(_content_bytes(one[0], one[1]), self.checksums[1])

    def add_pair(self, one: ExpectedDocument, other: StoredDocument) -> None:
        self.expected += 1
        self.stored += 1
        contents = _content_bytes(one[0], one[1]), _content_bytes(other[0], other[1])
        self.checksums = [zlib.crc32(content, total) for content, total in zip(contents, self.checksums, strict=True)]
        self.changed += contents[0] != contents[1]
        if one[2] is not None:
            gap = 1 - float(one[2].astype(np.float64) @ other[2].reshape(-1).astype(np.float64))
            self.max_vector_distance = max(self.max_vector_distance, gap)
            self.vector_mismatches += not gap <= UNIT_TOLERANCE

    def result(self) -> StoreComparison:
        sums = [f"{total:08x}" for total in self.checksums]
        counts = (self.expected, self.stored, self.missing, self.unexpected, self.changed, self.vector_mismatches)
        return StoreComparison(*counts, sums[0], sums[1], max(self.max_vector_distance, 0.0))


def _content_bytes(identity: str, document: Document) -> bytes:
    """Everything of a document that a store keeps, as bytes."""
    parts = [identity, document.text, document.source, document.title, dict(document.metadata)]
    return json.dumps(parts, sort_keys=True, ensure_ascii=True).encode()
