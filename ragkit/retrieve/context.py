"""Extend hits with context: neighboring chunks, or the parent section of a small chunk.

The index ranks chunks; this stage returns a longer text of the same document, with exact offsets.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ragkit.places import format_lines
from ragkit.records import Chunk, ChunkSpan, Where
from ragkit.retrieve.base import ChunkIndex, Explanation, Retriever
from ragkit.retrieve.explanations import fill_top_k
from ragkit.retrieve.options import ContextOptions, validate_top_k
from ragkit.split.lines import LineNumbers


class ContextRetriever(Retriever):
    """Extends the text of the hits of another retriever.

    Texts never overlap: a hit inside the text of a higher hit is dropped, and a text ends where the text of a higher
    hit begins. A chunk keeps the id, page and heading of the hit, and its place unless lines are counted.
    """

    def __init__(self, inner: Retriever, passages: ChunkIndex, options: ContextOptions, top_k: int) -> None:
        """`top_k` is the default number of hits."""
        self._inner, self._chunk_index, self._options, self._top_k = inner, passages, options, top_k

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The best hits by the scores of their original chunks, with ranks and score contributions."""
        top_k = validate_top_k(self._top_k if top_k is None else top_k)
        documents: dict[str, _DocumentContext] = {}

        def expand(explanations: list[Explanation]) -> list[Explanation]:
            for document in documents.values():
                document.covered.clear()
            pairs = [(entry, self._expand_chunk(entry.hit.chunk, documents)) for entry in explanations]
            return [replace(entry, hit=replace(entry.hit, chunk=chunk)) for entry, chunk in pairs if chunk is not None]

        return fill_top_k(lambda depth: self._inner.explain(question, depth, where), expand, top_k)

    def _expand_chunk(self, chunk: Chunk, documents: dict[str, _DocumentContext]) -> Chunk | None:
        """The chunk with its context; None if a higher hit covers it."""
        if chunk.document_id not in documents:
            documents[chunk.document_id] = _DocumentContext(self._chunk_index, chunk)
        document = documents[chunk.document_id]
        if any(start <= chunk.start and chunk.end <= end for start, end in document.covered):
            return None
        core, limits = (chunk.start, chunk.end), self._expanded_range(chunk, document.chunk_spans)
        start, end = clip_to_uncovered(limits, core, document.covered)
        if (start, end) == core:
            document.covered.append((start, end))
            return chunk
        text = document.text
        start += len(text[start : chunk.start]) - len(text[start : chunk.start].lstrip())
        end -= len(text[chunk.end : end]) - len(text[chunk.end : end].rstrip())
        document.covered.append((start, end))
        lines = document.line_numbers
        first, last = lines.line_at(start), lines.line_at(end - 1)
        by_line = chunk.place == format_lines(chunk.start_line, chunk.end_line)
        place = format_lines(first, last) if by_line else chunk.place
        return replace(chunk, text=text[start:end], start=start, end=end, start_line=first, end_line=last, place=place)

    def _expanded_range(self, chunk: Chunk, spans: Sequence[ChunkSpan]) -> tuple[int, int]:
        """Maximum range of the extended text: (start, end)."""
        index = bisect_left(spans, (chunk.start, chunk.end), key=lambda span: (span.start, span.end))
        if index == len(spans) or (spans[index].start, spans[index].end) != (chunk.start, chunk.end):
            return chunk.start, chunk.end
        count = self._options.chunk_count
        if self._options.name == "neighbours":
            context = spans[max(0, index - count) : index + count + 1]
        else:
            context = parent_spans(spans, index, count)
        return min(span.start for span in context), max(span.end for span in context)


@dataclass
class _DocumentContext:
    """Lazily loaded data of a document for one question, and the ranges that higher hits cover."""

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


def parent_spans(spans: Sequence[ChunkSpan], index: int, count: int) -> Sequence[ChunkSpan]:
    """The spans of the parent of a chunk: up to `count` consecutive chunks under one heading.

    The chunks under a heading are grouped from the first one, so that each chunk has exactly one parent.
    """
    first = index
    while first > 0 and spans[first - 1].heading == spans[index].heading:
        first -= 1
    begin = index - (index - first) % count
    return [span for span in spans[begin : begin + count] if span.heading == spans[index].heading]


def clip_to_uncovered(
    limits: tuple[int, int], core: tuple[int, int], covered: Sequence[tuple[int, int]]
) -> tuple[int, int]:
    """Clip `limits` so that they overlap no covered range; `core` is always kept. All are (start, end) offsets."""
    start, end = limits
    for covered_start, covered_end in covered:
        if covered_start > core[0]:
            end = min(end, max(core[1], covered_start))
        else:
            start = max(start, min(core[0], covered_end))
    return start, end
