"""Protocols of retrievers, rerankers, and the index that they search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import EmbeddingProvider, Row, Rows, embed_query
from ragkit.lexical.base import NO_EXTRA_TERMS, Bm25Scores, ExtraTerms
from ragkit.lexical.near_duplicates import Passage
from ragkit.lru_cache import LruCache
from ragkit.records import Chunk, ChunkSpan, Hit, Where

RerankScores: TypeAlias = NDArray[np.float64]
"""(n,), float64."""

ScoredKeys: TypeAlias = list[tuple[int, float]]
"""(chunk key, score), best first; equal scores by key."""

DENSE, LEXICAL, DOCUMENT = "dense", "lexical", "document"
"""Names of the scores of a hit: cosine, BM25, and how well its document's name, title, period and so on match."""


class ChunkIndex(Protocol):
    """The chunks of one generation of a knowledge base. Keys are ints in insertion order."""

    def search_terms(
        self, terms: Sequence[str], top_k: int, where: Where = None, extra: ExtraTerms = NO_EXTRA_TERMS
    ) -> ScoredKeys:
        """The best chunks for these terms by BM25, scores > 0: `min(top_k, number of matches)` chunks."""

    def term_scores(self, terms: Sequence[str], keys: Sequence[int], extra: ExtraTerms = NO_EXTRA_TERMS) -> Bm25Scores:
        """BM25 scores of these chunks, as in `search_terms`: (len(keys),); 0 without a matching term."""

    def find_terms(self, prefixes: Sequence[str]) -> dict[str, int]:
        """The terms that begin with one of the prefixes, each with the number of chunks that contain it."""

    def search_documents(self, question: str, terms: Sequence[str], top_k: int, where: Where = None) -> ScoredKeys:
        """The best chunks of the documents that the question names, with BM25 plus `DOCUMENT_BOOST` times the score of
        their document: at most `top_k` chunks; none if the question names no document."""

    def document_scores(self, question: str, keys: Sequence[int]) -> Bm25Scores:
        """How well the question names the document of each of these chunks: (len(keys),), >= 0, about 1 for each rare
        word that the name of the document shares with the question."""

    def search_dense(self, query: Row, top_k: int, where: Where = None, question: str = "") -> ScoredKeys:
        """The chunks nearest to a unit vector by cosine: `min(top_k, number of chunks that match the filter)`.

        `question`: its text. An index with chunks that have no vector yet finds candidates by it, and embeds them; of
        these chunks the result may have 64 where `top_k` is more.
        """

    def cosines(self, query: Row, keys: Sequence[int]) -> NDArray[np.float32]:
        """Cosine of a unit vector with each of these chunks: (len(keys),)."""

    def embeddings(self, keys: Sequence[int]) -> Rows:
        """The unit vectors of these chunks, in the order of `keys`: (len(keys), dimension)."""

    def chunks(self, keys: Sequence[int]) -> list[Chunk]:
        """These chunks, in the order of `keys`."""

    def chunk_spans(self, chunk: Chunk) -> list[ChunkSpan]:
        """The spans of all chunks of the chunk's document, by start; empty if its text is unknown."""

    def document_text(self, chunk: Chunk) -> str:
        """The complete text of the chunk's document, to which the chunk's offsets refer."""

    def has_groups(self) -> bool:
        """Whether some chunks are known to say the same as others."""

    def find_passages(self, chunk_ids: Sequence[str]) -> list[Passage]:
        """Those of these chunks that have a group, in any order."""

    def group_sources(self, group: int, limit: int, where: Where = None) -> list[str]:
        """The first `limit` sources with a chunk of a group that matches a filter."""

    def without_copies(self) -> ChunkIndex:
        """The same index, whose searches find one chunk of each group: the newest."""


@dataclass(frozen=True)
class RetrieverDependencies:
    """The index and embedder of a retriever."""

    chunk_index: ChunkIndex
    embedder: EmbeddingProvider
    """The embedder of the chunks."""
    question_vectors: LruCache[str, Row] | None = None
    """Keeps the vectors of questions for whoever needs them after the search."""

    def embed_question(self, question: str) -> Row:
        """The vector of a question: (dimension,)."""
        row = embed_query(self.embedder, question)
        if self.question_vectors is not None:
            self.question_vectors.set(question, row)
        return row


@dataclass(frozen=True)
class Explanation:
    """A hit with the ranks and score contributions that determine its position."""

    hit: Hit
    ranks: Mapping[str, int] = field(default_factory=dict)
    """Retriever -> rank of the hit in its list, from 1; without retrievers that did not find the hit."""
    contributions: Mapping[str, float] = field(default_factory=dict)
    """Retriever -> contribution to `hit.score`; the contributions sum up to the score."""


class Retriever(Protocol):
    """Finds chunks for a question. Built as `Retriever(options, parts)`."""

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The best hits among the chunks that match `where`, best first, ranks from 1.

        `top_k` is the maximum number of hits; None: as in the retriever's options. A blank question has no hits.

        Raises:
            InvalidOption: `top_k` is less than 1.
            InvalidFilter: `where` is not a valid filter.
        """
        return [explanation.hit for explanation in self.explain(question, top_k, where)]

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The same hits, with ranks and score contributions."""


class Reranker(Protocol):
    """Scores the first hits of a retriever again. Built as `Reranker(options, embedder)`."""

    @property
    def weight(self) -> float:
        """Default weight of its scores, in [0, 1]; the retriever's scores have the rest."""

    @property
    def diversity(self) -> float:
        """Default penalty for similarity with higher hits, in [0, 1]."""

    def scores(self, question: str, hits: Sequence[Hit]) -> RerankScores:
        """The relevance of each hit, higher is better: (len(hits),). `hits` is not empty.

        Raises:
            ProviderError: the service rejected the request or is unreachable.
        """
