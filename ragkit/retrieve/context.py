"""A hit with what stands around it: neighbouring chunks, or the larger piece that a small chunk is part of.

What is ranked are the chunks of the index; what is handed on is a longer text of the same document, at exact offsets.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ragkit.records import Chunk, ChunkSpan, Hit
from ragkit.retrieve.base import ChunkIndex, Explanation, Retriever, Where
from ragkit.retrieve.explanations import fill_top_k
from ragkit.retrieve.options import ContextOptions, validate_top_k
from ragkit.split.lines import LineNumbers


class ContextRetriever:
    """Widens the hits of another retriever.

    No text comes twice: a hit that lies in the text of a better one is left out, and a text ends where that of a
    better hit begins. Id, page and heading of a chunk stay those of the hit.
    """

    def __init__(self, inner: Retriever, passages: ChunkIndex, options: ContextOptions, top_k: int) -> None:
        """`top_k` is how many hits there are when nobody says."""
        self._inner, self._chunk_index, self._options, self._top_k = inner, passages, options, top_k

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The best hits, in order of what their chunks scored alone."""
        return [one.hit for one in self.explain(question, top_k, where)]

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The same hits, each with the reasons for its place."""
        wanted = validate_top_k(self._top_k if top_k is None else top_k)
        documents: dict[str, _DocumentContext] = {}

        def widened(found: list[Explanation]) -> list[Explanation]:
            for document in documents.values():
                document.covered.clear()
            wide = [(one, self._expand_chunk(one.hit.chunk, documents)) for one in found]
            return [replace(one, hit=replace(one.hit, chunk=chunk)) for one, chunk in wide if chunk is not None]

        return fill_top_k(lambda depth: self._inner.explain(question, depth, where), widened, wanted)

    def _expand_chunk(self, chunk: Chunk, documents: dict[str, _DocumentContext]) -> Chunk | None:
        """The chunk with what is around it; None when it has been shown."""
        if chunk.document_id not in documents:
            documents[chunk.document_id] = _DocumentContext(self._chunk_index, chunk)
        document = documents[chunk.document_id]
        if any(start <= chunk.start and chunk.end <= end for start, end in document.covered):
            return None
        start, end = clip_to_uncovered(
            self._expanded_range(chunk, document.chunk_spans), (chunk.start, chunk.end), document.covered
        )
        if (start, end) == (chunk.start, chunk.end):
            document.covered.append((start, end))
            return chunk
        text = document.text
        start += len(text[start : chunk.start]) - len(text[start : chunk.start].lstrip())
        end -= len(text[chunk.end : end]) - len(text[chunk.end : end].rstrip())
        document.covered.append((start, end))
        lines = document.line_numbers
        return replace(
            chunk,
            text=text[start:end],
            start=start,
            end=end,
            start_line=lines.line_at(start),
            end_line=lines.line_at(end - 1),
        )

    def _expanded_range(self, chunk: Chunk, outline: Sequence[ChunkSpan]) -> tuple[int, int]:
        """From where to where the text of a hit may reach."""
        at = bisect_left(outline, (chunk.start, chunk.end), key=lambda one: (one.start, one.end))
        if at == len(outline) or (outline[at].start, outline[at].end) != (chunk.start, chunk.end):
            return chunk.start, chunk.end
        chunks = self._options.chunk_count
        if self._options.name == "neighbours":
            around = outline[max(0, at - chunks) : at + chunks + 1]
        else:
            around = parent_spans(outline, at, chunks)
        return min(one.start for one in around), max(one.end for one in around)


@dataclass
class _DocumentContext:
    """What is read of a document while one question is answered, and what of it was shown."""

    chunk_index: ChunkIndex
    chunk: Chunk
    covered: list[tuple[int, int]] = field(default_factory=list)

    @cached_property
    def chunk_spans(self) -> list[ChunkSpan]:
        return self.chunk_index.chunk_spans(self.chunk)

    @cached_property
    def text(self) -> str:
        return self.chunk_index.document_text(self.chunk)

    @cached_property
    def line_numbers(self) -> LineNumbers:
        return LineNumbers(self.text)


def parent_spans(outline: Sequence[ChunkSpan], at: int, chunks: int) -> Sequence[ChunkSpan]:
    """The chunks that make up the parent of the one at a place: so many in a row, all under one heading.

    The chunks under a heading are counted off from its first one, so that each chunk has one parent.
    """
    first = at
    while first > 0 and outline[first - 1].heading == outline[at].heading:
        first -= 1
    begin = at - (at - first) % chunks
    family = outline[begin : begin + chunks]
    return [one for one in family if one.heading == outline[at].heading]


def clip_to_uncovered(
    limits: tuple[int, int], core: tuple[int, int], shown: Sequence[tuple[int, int]]
) -> tuple[int, int]:
    """The limits, drawn in to where others were shown; what is in `core` stays in any case. Offsets, all of them."""
    start, end = limits
    for begin, finish in shown:
        if begin > core[0]:
            end = min(end, max(core[1], begin))
        else:
            start = max(start, min(core[0], finish))
    return start, end
