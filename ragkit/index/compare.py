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

Given = tuple[str, Document, NDArray[np.float32] | None]
"""(id, document, row); without a row the one that comes back is not looked at."""
Held = tuple[str, Document, Rows]


@dataclass(frozen=True)
class Comparison:
    """Two streams in the order of their ids, laid side by side."""

    given: int
    """Documents that the store has to hold."""
    held: int
    """Documents that it gives back."""
    lacking: int
    foreign: int
    altered: int
    """Of those on both sides: text, source, title or metadata differ."""
    off: int
    """Of those on both sides: the row points elsewhere, by more than a store may round."""
    checksum: str
    """CRC-32 over ids and contents of the documents given, in the order of their ids: eight hexadecimal digits."""
    held_checksum: str
    """The same of what came back."""
    largest_gap: float
    """The largest distance of a row that came back from the row given, as 1 - cosine."""

    @property
    def same(self) -> bool:
        """Whether the store holds exactly what it was given."""
        return not (self.lacking or self.foreign or self.altered or self.off)

    def problems(self) -> Iterator[str]:
        """What differs, a line each."""
        if self.lacking:
            yield f"lacks {self.lacking} chunks"
        if self.foreign:
            yield f"holds {self.foreign} chunks that are not in the catalog"
        if self.altered:
            yield f"holds {self.altered} chunks with another text or other metadata"
        if self.off:
            yield f"holds {self.off} chunks with another vector (1 - cosine is up to {self.largest_gap:.2g})"


def compare(given: Iterable[Given], held: Iterable[Held]) -> Comparison:
    """Compare two streams in the order of their ids. Memory does not grow with their length.

    Args:
        given: what the store has to hold; each id once.
        held: what it gives back.
    """
    tally = _Tally()
    wanted, there = iter(given), iter(held)
    left, right = next(wanted, None), next(there, None)
    while left is not None or right is not None:
        if right is None or (left is not None and left[0] < right[0]):
            assert left is not None  # noqa: S101 - one of the two is there
            tally.only_given(left)
            left = next(wanted, None)
        elif left is None or right[0] < left[0]:
            tally.only_held(right)
            right = next(there, None)
        else:
            tally.both(left, right)
            left, right = next(wanted, None), next(there, None)
    return tally.result()


class _Tally:
    """Counts and sums of a comparison under way."""

    def __init__(self) -> None:
        self.given = self.held = self.lacking = self.foreign = self.altered = self.off = 0
        self.sums = [0, 0]
        self.gap = 0.0

    def only_given(self, one: Given) -> None:
        self.given += 1
        self.lacking += 1
        self.sums[0] = zlib.crc32(_content(one[0], one[1]), self.sums[0])

    def only_held(self, one: Held) -> None:
        self.held += 1
        self.foreign += 1
        self.sums[1] = zlib.crc32(_content(one[0], one[1]), self.sums[1])

    def both(self, one: Given, other: Held) -> None:
        self.given += 1
        self.held += 1
        contents = _content(one[0], one[1]), _content(other[0], other[1])
        self.sums = [zlib.crc32(content, total) for content, total in zip(contents, self.sums, strict=True)]
        self.altered += contents[0] != contents[1]
        if one[2] is not None:
            gap = 1 - float(one[2].astype(np.float64) @ other[2].reshape(-1).astype(np.float64))
            self.gap = max(self.gap, gap)
            self.off += not gap <= UNIT_TOLERANCE

    def result(self) -> Comparison:
        sums = [f"{total:08x}" for total in self.sums]
        counts = (self.given, self.held, self.lacking, self.foreign, self.altered, self.off)
        return Comparison(*counts, sums[0], sums[1], max(self.gap, 0.0))


def _content(identity: str, document: Document) -> bytes:
    """Everything of a document that a store keeps, as bytes."""
    parts = [identity, document.text, document.source, document.title, dict(document.metadata)]
    return json.dumps(parts, sort_keys=True, ensure_ascii=True).encode()
