"""Search with another query vector than that of the question; `query_rewriting` (HyDE) computes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import Row, Rows
from ragkit.lexical.base import NO_EXTRA_TERMS, Bm25Scores, ExtraTerms
from ragkit.lexical.near_duplicates import Passage
from ragkit.records import Chunk, ChunkSpan, Where
from ragkit.retrieve.base import DENSE, ChunkIndex, Explanation, Retriever, RetrieverDependencies, ScoredKeys

ExpandVector: TypeAlias = Callable[[Row], Row]
"""The unit vector of a question -> the one to search with: (dimension,)."""


class ExpandedChunkIndex:
    """A `ChunkIndex` for one question, which searches with the expanded vector."""

    def __init__(self, index: ChunkIndex, expand: ExpandVector) -> None:
        self._chunk_index, self._expand = index, expand
        self._last_vectors: tuple[Row, Row] | None = None
        self._key_by_chunk_id: dict[str, int] = {}

    def search_terms(
        self, terms: Sequence[str], top_k: int, where: Where = None, extra: ExtraTerms = NO_EXTRA_TERMS
    ) -> ScoredKeys:
        """The chunks of the inner index."""
        return self._chunk_index.search_terms(terms, top_k, where, extra)

    def term_scores(self, terms: Sequence[str], keys: Sequence[int], extra: ExtraTerms = NO_EXTRA_TERMS) -> Bm25Scores:
        """The scores of the inner index."""
        return self._chunk_index.term_scores(terms, keys, extra)

    def find_terms(self, prefixes: Sequence[str]) -> dict[str, int]:
        """The terms of the inner index."""
        return self._chunk_index.find_terms(prefixes)

    def search_documents(self, question: str, terms: Sequence[str], top_k: int, where: Where = None) -> ScoredKeys:
        """The chunks of the inner index."""
        return self._chunk_index.search_documents(question, terms, top_k, where)

    def document_scores(self, question: str, keys: Sequence[int]) -> Bm25Scores:
        """The scores of the inner index."""
        return self._chunk_index.document_scores(question, keys)

    def search_dense(self, query: Row, top_k: int, where: Where = None, question: str = "") -> ScoredKeys:
        """The chunks nearest to the expanded vector."""
        self._last_vectors = (query, self._expand(query))
        return self._chunk_index.search_dense(self._last_vectors[1], top_k, where, question)

    def cosines(self, query: Row, keys: Sequence[int]) -> NDArray[np.float32]:
        """Cosines with the vector of the last search."""
        return self._chunk_index.cosines(self._last_vectors[1] if self._last_vectors else query, keys)

    def embeddings(self, keys: Sequence[int]) -> Rows:
        """The vectors of the inner index."""
        return self._chunk_index.embeddings(keys)

    def chunks(self, keys: Sequence[int]) -> list[Chunk]:
        """These chunks; records their keys for `restore_query_scores`."""
        result = self._chunk_index.chunks(keys)
        self._key_by_chunk_id |= zip((chunk.id for chunk in result), keys, strict=True)
        return result

    def chunk_spans(self, chunk: Chunk) -> list[ChunkSpan]:
        """The spans of the inner index."""
        return self._chunk_index.chunk_spans(chunk)

    def document_text(self, chunk: Chunk) -> str:
        """The text of the inner index."""
        return self._chunk_index.document_text(chunk)

    def has_groups(self) -> bool:
        """As the inner index."""
        return self._chunk_index.has_groups()

    def find_passages(self, chunk_ids: Sequence[str]) -> list[Passage]:
        """The passages of the inner index."""
        return self._chunk_index.find_passages(chunk_ids)

    def group_sources(self, group: int, limit: int, where: Where = None) -> list[str]:
        """The sources of the inner index."""
        return self._chunk_index.group_sources(group, limit, where)

    def without_copies(self) -> ExpandedChunkIndex:
        """An expansion of the inner index without copies."""
        return ExpandedChunkIndex(self._chunk_index.without_copies(), self._expand)

    def restore_query_scores(self, explanations: Sequence[Explanation]) -> list[Explanation]:
        """Replace the score `dense` of hits by that of the original question.

        Callers use it to judge how well a passage answers the question.
        """
        if self._last_vectors is None or not explanations:
            return list(explanations)
        keys = [self._key_by_chunk_id[explanation.hit.chunk.id] for explanation in explanations]
        cosines = self._chunk_index.cosines(self._last_vectors[0], keys).tolist()
        return [
            replace(e, hit=replace(e.hit, scores={**e.hit.scores, DENSE: cosine})) if DENSE in e.hit.scores else e
            for e, cosine in zip(explanations, cosines, strict=True)
        ]


class QueryExpandingRetriever(Retriever):
    """A retriever that searches with an expanded query."""

    def __init__(
        self,
        build: Callable[[RetrieverDependencies], Retriever],
        parts: RetrieverDependencies,
        expander: Callable[[str], ExpandVector],
    ) -> None:
        """`build` creates the inner retriever; `expander` returns what expands the vector of a question."""
        self._build, self._dependencies, self._create_expander = build, parts, expander

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The best hits. Their score `dense` is that of the original question, ranks and contributions those of the
        expanded query."""
        if not question.strip():
            return []
        index = ExpandedChunkIndex(self._dependencies.chunk_index, self._create_expander(question))
        explanations = self._build(replace(self._dependencies, chunk_index=index)).explain(question, top_k, where)
        return index.restore_query_scores(explanations)
