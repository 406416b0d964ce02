"""The splitter `semantic`: breaks between neighbouring sentences that differ most, by the embedder in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import InvalidOption
from ragkit.records import Document
from ragkit.split.base import CharSpan
from ragkit.split.base_splitter import BaseSplitter
from ragkit.split.options import SemanticOptions
from ragkit.split.packing import ChunkLimits, pack_segments
from ragkit.split.segments import Segment, SegmentArray
from ragkit.split.sentence_segmentation import sentence_spans
from ragkit.split.token_index import TokenIndex

EmbedFunction: TypeAlias = Callable[[Sequence[str]], NDArray[np.float32]]
"""Texts -> unit vectors: (len(texts), dimension)."""


class SemanticSplitter(BaseSplitter[SemanticOptions]):
    """Starts a chunk where the sentences before and after are least alike.

    Two neighbouring sentences are compared by the mean vectors of up to `window` sentences on each side. A break is
    made at the distances from `percentile` on, unless the chunk before it has less than `min_tokens`. What is longer
    than `chunk_size` is broken again at its greatest distance.
    """

    def __init__(self, options: SemanticOptions, embed: EmbedFunction | None = None) -> None:
        """`use_embedder` sets `embed` if it is None."""
        super().__init__(options)
        self._embed = embed

    def use_embedder(self, embed: EmbedFunction) -> None:
        """Compare sentences by these vectors."""
        self._embed = embed

    def _split(self, document: Document, token_index: TokenIndex, limits: ChunkLimits) -> list[CharSpan]:
        sentences = sentence_spans(document.text)
        if not sentences:
            return []
        distances = self._distances([document.text[start:end] for start, end in sentences])
        edges = np.array(sentences, np.int64)
        starts, ends = (token_index.token_counts_before(column) for column in (edges[:, 0], edges[:, 1]))
        spans: list[CharSpan] = []
        previous = -1  # the first sentence of the chunk before
        for first, last in self._groups(distances, starts, ends, limits.max_tokens):
            if ends[last - 1] - starts[first] > limits.max_tokens:  # a single sentence
                segment = Segment(*sentences[first], cost=0)
                spans += pack_segments(SegmentArray.from_segments([segment]), token_index, limits)
                previous = first
                continue
            begin = first
            while begin - 1 > previous and starts[first] - starts[begin - 1] <= limits.overlap:
                if ends[last - 1] - starts[begin - 1] > limits.max_tokens:
                    break
                begin -= 1
            previous = begin
            start = sentences[begin][0]
            spans.append((start, sentences[last - 1][1]))
        return spans

    def _distances(self, sentences: Sequence[str]) -> NDArray[np.float64]:
        """1 - cosine of the texts on both sides of each gap between sentences: (len(sentences) - 1,)."""
        if self._embed is None:
            raise InvalidOption("embedder", None, "set: the splitter 'semantic' compares sentences by their vectors")
        if len(sentences) < 2:
            return np.empty(0)
        rows = np.asarray(self._embed(sentences), np.float64)
        sums = np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0)])
        gaps = np.arange(1, len(rows))
        before = sums[gaps] - sums[np.maximum(0, gaps - self._options.window)]
        after = sums[np.minimum(len(rows), gaps + self._options.window)] - sums[gaps]
        lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
        cosines = np.einsum("ij,ij->i", before, after) / np.where(lengths == 0, 1, lengths)
        return np.asarray(np.round(1 - cosines, 6), np.float64)  # rounded: noise of a processor moves no break

    def _groups(
        self, distances: NDArray[np.float64], starts: NDArray[np.int64], ends: NDArray[np.int64], limit: int
    ) -> Iterator[tuple[int, int]]:
        """(first sentence, one past the last) of each chunk, in order."""
        threshold = np.percentile(distances, self._options.percentile) if len(distances) else 0.0
        first = 0
        for last in range(1, len(starts) + 1):
            is_end = last == len(starts)
            is_break = is_end or (distances[last - 1] >= threshold and distances[last - 1] > 0)
            remaining = 0 if is_end else ends[-1] - starts[last]
            if is_end or (
                is_break and min(ends[last - 1] - starts[first], remaining) >= min(self._options.min_tokens, limit)
            ):
                yield from _fit(distances, starts, ends, (first, last), limit)
                first = last


def _fit(
    distances: NDArray[np.float64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    group: tuple[int, int],
    limit: int,
) -> Iterator[tuple[int, int]]:
    """The group in parts of at most `limit` tokens, broken at the greatest distances."""
    waiting = [group]
    while waiting:
        first, last = waiting.pop()
        if last - first == 1 or ends[last - 1] - starts[first] <= limit:
            yield first, last
            continue
        middle = first + 1 + int(np.argmax(distances[first : last - 1]))
        waiting += [(middle, last), (first, middle)]
