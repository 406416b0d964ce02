"""Query expansion: search with a modified query vector and with additional terms.

`relevance_feedback` and `query_rewriting` (HyDE) implement `QueryExpander`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import Row, Rows
from ragkit.lexical.base import NO_EXTRA_TERMS, Bm25Scores, ExtraTerms
from ragkit.lexical.near_duplicates import Passage
from ragkit.records import Chunk, ChunkSpan, Hit, Where
from ragkit.retrieve.base import DENSE, LEXICAL, ChunkIndex, Explanation, Retriever, RetrieverDependencies, ScoredKeys


class QueryExpander(Protocol):
    """Expands the query of one question."""

    def expand_vector(self, query: Row, index: ChunkIndex, where: Where) -> Row:
        """The unit vector to search with: (dimension,)."""

    def expand_terms(self, terms: Sequence[str], index: ChunkIndex, where: Where) -> ExtraTerms:
        """The additional terms to search for."""


class ExpandedChunkIndex:
    """A `ChunkIndex` for one question, which searches with the expanded vector and terms."""

    def __init__(self, index: ChunkIndex, expanders: Sequence[QueryExpander]) -> None:
        self._chunk_index, self._expanders = index, expanders
        self._last_vectors: tuple[Row, Row] | None = None
        self._last_terms: tuple[Sequence[str], ExtraTerms] | None = None
        self._key_by_chunk_id: dict[str, int] = {}

    def search_terms(
        self, terms: Sequence[str], top_k: int, where: Where = None, extra: ExtraTerms = NO_EXTRA_TERMS
    ) -> ScoredKeys:
        """The best chunks for these terms and, at the first search, which is for the question, the additional ones."""
        if self._last_terms is not None and self._last_terms[0] != terms:
            return self._chunk_index.search_terms(terms, top_k, where, extra)
        all_terms = dict(extra)
        for expander in self._expanders:
            all_terms |= expander.expand_terms(terms, self._chunk_index, where)
        self._last_terms = (terms, all_terms)
        return self._chunk_index.search_terms(terms, top_k, where, all_terms)

    def term_scores(self, terms: Sequence[str], keys: Sequence[int], extra: ExtraTerms = NO_EXTRA_TERMS) -> Bm25Scores:
        """BM25 scores with the terms of the last search."""
        return self._chunk_index.term_scores(terms, keys, self._last_terms[1] if self._last_terms else extra)

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
        expanded = query
        for expander in self._expanders:
            expanded = expander.expand_vector(expanded, self._chunk_index, where)
        self._last_vectors = (query, expanded)
        return self._chunk_index.search_dense(expanded, top_k, where, question)

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
        return ExpandedChunkIndex(self._chunk_index.without_copies(), self._expanders)

    def restore_query_scores(self, explanations: Sequence[Explanation]) -> list[Explanation]:
        """Replace the scores `dense` and `lexical` of hits by those of the original question.

        Callers use these scores to judge how well a passage answers the question.
        """
        keys = [self._key_by_chunk_id[explanation.hit.chunk.id] for explanation in explanations]
        scores: dict[str, list[float]] = {}
        if self._last_vectors is not None and keys:
            scores[DENSE] = self._chunk_index.cosines(self._last_vectors[0], keys).tolist()
        if self._last_terms is not None and keys:
            scores[LEXICAL] = self._chunk_index.term_scores(self._last_terms[0], keys).tolist()
        return [
            replace(explanation, hit=_with_scores(explanation.hit, {name: scores[name][i] for name in scores}))
            for i, explanation in enumerate(explanations)
        ]


class QueryExpandingRetriever(Retriever):
    """A retriever that searches with an expanded query."""

    def __init__(
        self,
        build: Callable[[RetrieverDependencies], Retriever],
        parts: RetrieverDependencies,
        expanders: Callable[[str], Sequence[QueryExpander]],
    ) -> None:
        """`build` creates the inner retriever; `expanders` returns the expanders of a question."""
        self._build, self._dependencies, self._build_expanders = build, parts, expanders

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The best hits. Their scores `dense` and `lexical` are those of the original question, ranks and contributions
        those of the expanded query."""
        if not question.strip():
            return []
        index = ExpandedChunkIndex(self._dependencies.chunk_index, self._build_expanders(question))
        explanations = self._build(replace(self._dependencies, chunk_index=index)).explain(question, top_k, where)
        return index.restore_query_scores(explanations)


def _with_scores(hit: Hit, scores: dict[str, float]) -> Hit:
    return replace(hit, scores={**hit.scores, **{name: scores[name] for name in scores if name in hit.scores}})
