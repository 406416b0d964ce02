"""Search from another place than the question's: with a row that was moved, and with further terms.

Knows nothing of where either comes from: feedback and hypothetical passages both do it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import Row, Rows
from ragkit.records import Chunk, ChunkSpan, Hit
from ragkit.retrieve.base import (
    NO_EXTRA_TERMS,
    ChunkIndex,
    Explanation,
    ExtraTerms,
    Retriever,
    RetrieverDependencies,
    ScoredKeys,
    Where,
)

DENSE, LEXICAL = "dense", "lexical"


class QueryExpander(Protocol):
    """Says where a question is searched from. Made anew for each question."""

    def expand_vector(self, query: Row, passages: ChunkIndex, where: Where) -> Row:
        """The unit row that is searched with: (dimension,)."""

    def expand_terms(self, terms: Sequence[str], passages: ChunkIndex, where: Where) -> ExtraTerms:
        """The terms that are searched beside those of the question."""


class ExpandedChunkIndex:
    """Keeps `ChunkIndex`, for one question: searches with the moved row and with the further terms."""

    def __init__(self, passages: ChunkIndex, moves: Sequence[QueryExpander]) -> None:
        self._chunk_index, self._expanders = passages, moves
        self._last_vectors: tuple[Row, Row] | None = None
        self._last_terms: tuple[Sequence[str], ExtraTerms] | None = None
        self._key_by_chunk_id: dict[str, int] = {}

    def search_terms(
        self, terms: Sequence[str], top_k: int, where: Where = None, extra: ExtraTerms = NO_EXTRA_TERMS
    ) -> ScoredKeys:
        """The best chunks for these terms and the further ones."""
        found = dict(extra)
        for move in self._expanders:
            found |= move.expand_terms(terms, self._chunk_index, where)
        self._last_terms = (terms, found)
        return self._chunk_index.search_terms(terms, top_k, where, found)

    def term_scores(
        self, terms: Sequence[str], keys: Sequence[int], extra: ExtraTerms = NO_EXTRA_TERMS
    ) -> NDArray[np.float32]:
        """As the last search scores them."""
        return self._chunk_index.term_scores(terms, keys, self._last_terms[1] if self._last_terms else extra)

    def search_dense(self, query: Row, top_k: int, where: Where = None) -> ScoredKeys:
        """The chunks nearest to the moved row."""
        moved = query
        for move in self._expanders:
            moved = move.expand_vector(moved, self._chunk_index, where)
        self._last_vectors = (query, moved)
        return self._chunk_index.search_dense(moved, top_k, where)

    def cosines(self, query: Row, keys: Sequence[int]) -> NDArray[np.float32]:
        """With the row of the last search."""
        return self._chunk_index.cosines(self._last_vectors[1] if self._last_vectors else query, keys)

    def embeddings(self, keys: Sequence[int]) -> Rows:
        """As they are."""
        return self._chunk_index.embeddings(keys)

    def chunks(self, keys: Sequence[int]) -> list[Chunk]:
        """These chunks; their keys are remembered."""
        found = self._chunk_index.chunks(keys)
        self._key_by_chunk_id |= zip((chunk.id for chunk in found), keys, strict=True)
        return found

    def chunk_spans(self, chunk: Chunk) -> list[ChunkSpan]:
        """As it is."""
        return self._chunk_index.chunk_spans(chunk)

    def document_text(self, chunk: Chunk) -> str:
        """As it is."""
        return self._chunk_index.document_text(chunk)

    def restore_query_scores(self, found: Sequence[Explanation]) -> list[Explanation]:
        """The same hits, whose `dense` and `lexical` are those of the question itself.

        Whoever judges by them how well a passage answers must not be told how near it is to something else.
        """
        keys = [self._key_by_chunk_id[one.hit.chunk.id] for one in found]
        given: dict[str, list[float]] = {}
        if self._last_vectors is not None and keys:
            given[DENSE] = self._chunk_index.cosines(self._last_vectors[0], keys).tolist()
        if self._last_terms is not None and keys:
            given[LEXICAL] = self._chunk_index.term_scores(self._last_terms[0], keys).tolist()
        return [
            replace(one, hit=_with_scores(one.hit, {name: values[at] for name, values in given.items()}))
            for at, one in enumerate(found)
        ]


class QueryExpandingRetriever:
    """A retriever that searches from another place than the question's."""

    def __init__(
        self,
        build: Callable[[RetrieverDependencies], Retriever],
        parts: RetrieverDependencies,
        moves: Callable[[str], Sequence[QueryExpander]],
    ) -> None:
        """`build` makes the retriever; `moves` says for a question where it is searched from."""
        self._build, self._dependencies, self._build_expanders = build, parts, moves

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The best hits; their `dense` and `lexical` scores are those of the question itself."""
        return [one.hit for one in self.explain(question, top_k, where)]

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The same hits; ranks and shares are those of the search that was moved."""
        if not question.strip():
            return []
        passages = ExpandedChunkIndex(self._dependencies.chunk_index, self._build_expanders(question))
        found = self._build(replace(self._dependencies, chunk_index=passages)).explain(question, top_k, where)
        return passages.restore_query_scores(found)


def _with_scores(hit: Hit, scores: dict[str, float]) -> Hit:
    return replace(hit, scores={**hit.scores, **{name: scores[name] for name in scores if name in hit.scores}})
