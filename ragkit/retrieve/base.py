"""What every retriever keeps (a question in, ranked hits out), and what it asks of an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import EmbeddingProvider, Row, Rows
from ragkit.records import JSON, Chunk, ChunkSpan, Hit

Where: TypeAlias = Mapping[str, JSON] | None
"""A filter in the one filter language; None or an empty one lets everything through."""

RerankScores: TypeAlias = NDArray[np.float64]
"""(n,), float64."""

ScoredKeys: TypeAlias = list[tuple[int, float]]
"""(chunk key, score), best first; equal scores by key."""

ExtraTerms: TypeAlias = Mapping[str, float]
"""Terms that are searched beside those of the question -> what each counts, where one of the question counts 1."""

NO_EXTRA_TERMS: ExtraTerms = MappingProxyType({})


class ChunkIndex(Protocol):
    """The chunks of one generation of a knowledge base. Keys are ints in the order in which chunks came in."""

    def search_terms(
        self, terms: Sequence[str], top_k: int, where: Where = None, extra: ExtraTerms = NO_EXTRA_TERMS
    ) -> ScoredKeys:
        """The best chunks for these terms by BM25: scores > 0, and `min(top_k, how many match)` of them."""

    def term_scores(
        self, terms: Sequence[str], keys: Sequence[int], extra: ExtraTerms = NO_EXTRA_TERMS
    ) -> NDArray[np.float32]:
        """BM25 of these chunks as `search_terms` gives it: (len(keys),); 0 where no term matches."""

    def search_dense(self, query: Row, top_k: int, where: Where = None) -> ScoredKeys:
        """The chunks nearest to a unit row by cosine: `min(top_k, how many the filter lets through)` of them."""

    def cosines(self, query: Row, keys: Sequence[int]) -> NDArray[np.float32]:
        """Cosine of a unit row with each of these chunks: (len(keys),)."""

    def embeddings(self, keys: Sequence[int]) -> Rows:
        """The unit rows of these chunks, in the order asked for: (len(keys), dimension)."""

    def chunks(self, keys: Sequence[int]) -> list[Chunk]:
        """These chunks, in the order asked for."""

    def chunk_spans(self, chunk: Chunk) -> list[ChunkSpan]:
        """The places of all chunks of the document that a chunk is from, by start; none without its text."""

    def document_text(self, chunk: Chunk) -> str:
        """The whole text of the document that a chunk is from: its offsets are offsets into it."""


@dataclass(frozen=True)
class RetrieverDependencies:
    """What a retriever works with beside its options."""

    chunk_index: ChunkIndex
    embedder: EmbeddingProvider
    """The one that the passages were embedded with."""


@dataclass(frozen=True)
class Explanation:
    """Why a hit stands where it stands."""

    hit: Hit
    ranks: Mapping[str, int] = field(default_factory=dict)
    """By retriever: its place in that one's own list, counted from 1; retrievers that did not list it are left out."""
    contributions: Mapping[str, float] = field(default_factory=dict)
    """By retriever: what it adds to `hit.score`. They sum up to it."""


class Retriever(Protocol):
    """Finds the chunks that speak of a question. Built as `Retriever(options, parts)`."""

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The best hits among the chunks that `where` lets through, best first, ranks from 1.

        `top_k` is how many at most; None takes the number of the retriever's options. A question of white space
        finds nothing.

        Raises:
            InvalidOption: `top_k` is less than 1.
            InvalidFilter: `where` is not a filter.
        """

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The same hits, each with the reasons for its place."""


class Reranker(Protocol):
    """Looks again, and closer, at the first hits of a retriever. Built as `Reranker(options, embedder)`."""

    @property
    def weight(self) -> float:
        """Its share of a hit's score, in [0, 1], where the options say nothing; the retriever has the rest."""

    @property
    def diversity(self) -> float:
        """How much a hit loses by being like those above it, in [0, 1], where the options say nothing."""

    def scores(self, question: str, hits: Sequence[Hit]) -> RerankScores:
        """How well each hit answers the question: (len(hits),), higher is better; at least one hit.

        Raises:
            ProviderError: it is a service that refused, or cannot be reached.
        """
