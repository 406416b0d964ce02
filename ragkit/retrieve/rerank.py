"""Rerank the first hits of a retriever: blend its scores with those of a reranker, then diversify the order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ragkit.embed.base import EmbeddingProvider
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Hit, Where
from ragkit.retrieve.base import Explanation, Reranker, RerankScores, Retriever
from ragkit.retrieve.fusion import ScoreArray, z_scores
from ragkit.retrieve.options import HybridOptions, RerankOptions, validate_top_k

RERANK_STAGE, RETRIEVE_STAGE = "rerank", "retrieve"


class RerankingRetriever(Retriever):
    """Reranks the first hits of another retriever.

    The new score is (1 - weight) * retriever score + weight * reranker score. Retriever scores are standard scores:
    those of `hybrid` with `convex` are already, all others are normalized first. Hits after the first `candidates`
    keep their order and stay below the reranked ones.
    """

    def __init__(self, inner: Retriever, reranker: Reranker, options: RerankOptions, first: object) -> None:
        """`first` holds the options of the inner retriever."""
        self._inner, self._reranker, self._options = inner, reranker, options
        self._top_k = int(getattr(first, "top_k", 8))
        self._is_standardized = isinstance(first, HybridOptions) and first.fusion == "convex"

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The best hits, with ranks and score contributions of both stages; reranked ones have the score `rerank`."""
        top_k = validate_top_k(self._top_k if top_k is None else top_k)
        hits = self._inner.explain(question, max(top_k, self._options.candidates), where)
        if not hits:
            return []
        candidates = hits[: self._options.candidates]
        scores = np.asarray(self._reranker.scores(question, [entry.hit for entry in candidates]), np.float64)
        shares = self._score_contributions(hits, scores)
        order = self._rank(candidates, shares.sum(axis=0)[: len(candidates)])[:top_k]
        order += range(len(candidates), min(top_k, len(hits)))
        ranks = {int(i): rank for rank, i in enumerate(np.argsort(-scores, kind="stable"), start=1)}
        return [
            _build_explanation(hits[i], rank, shares[:, i], (scores[i], ranks[i]) if i < len(candidates) else None)
            for rank, i in enumerate(order, start=1)
        ]

    def _score_contributions(self, hits: Sequence[Explanation], scores: RerankScores) -> ScoreArray:
        """Score contributions of both stages, (2, len(hits)). Other hits get the lowest score of the reranker."""
        weight = self._reranker.weight if self._options.weight is None else self._options.weight
        first = np.array([entry.hit.score for entry in hits], np.float64)
        padded = np.concatenate([scores, np.full(len(hits) - len(scores), scores.min())])
        return np.stack([(1 - weight) * (first if self._is_standardized else z_scores(first)), weight * padded])

    def _rank(self, candidates: Sequence[Explanation], scores: ScoreArray) -> list[int]:
        diversity = self._reranker.diversity if self._options.diversity is None else self._options.diversity
        if not diversity:
            return [int(i) for i in np.argsort(-scores, kind="stable")]
        return rank_by_mmr(scores, pairwise_similarity([entry.hit.chunk.text for entry in candidates]), diversity)


class MmrReranker:
    """Returns the scores of the retriever: only diversity changes the order."""

    weight, diversity = 0.0, 0.3

    def __init__(self, options: RerankOptions, embedder: EmbeddingProvider) -> None:
        """Ignores its arguments."""

    def scores(self, question: str, hits: Sequence[Hit]) -> RerankScores:
        """The scores of the retriever."""
        return np.array([hit.score for hit in hits], np.float64)


def rank_by_mmr(scores: ScoreArray, similarity: ScoreArray, diversity: float) -> list[int]:
    """Order of indexes by maximal marginal relevance: relevant items first, unless similar to higher ones.

    Args:
        scores: (n,), higher is better, on any scale.
        similarity: (n, n), in [0, 1].
        diversity: in [0, 1]; 0 orders by score only, 1 by dissimilarity only.

    Source: Carbonell and Goldstein, SIGIR 1998, doi:10.1145/290941.291025.
    """
    relevance = (scores - scores.min()) / (float(np.ptp(scores)) or 1.0)
    nearest, left, order = np.zeros(len(scores)), list(range(len(scores))), list[int]()
    while left:
        gains = [(1 - diversity) * relevance[i] - diversity * nearest[i] for i in left]
        best = left.pop(int(np.argmax(gains)))
        order.append(best)
        nearest = np.maximum(nearest, similarity[best])
    return order


def pairwise_similarity(texts: Sequence[str]) -> ScoreArray:
    """Pairwise similarity of texts: (n, n), the cosine of their term counts. Uses no model."""
    counts = [Counter(extract_terms(text)) for text in texts]
    columns = {term: i for i, term in enumerate(dict.fromkeys(term for count in counts for term in count))}
    rows = np.zeros((len(texts), max(1, len(columns))))
    for row, count in zip(rows, counts, strict=True):
        row[[columns[term] for term in count]] = list(count.values())
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(lengths == 0, 1, lengths)
    return np.asarray(rows @ rows.T, np.float64)


def _build_explanation(
    inner: Explanation, rank: int, shares: ScoreArray, reranked: tuple[float, int] | None
) -> Explanation:
    """`reranked` is the score and rank of the reranker; None if the hit was not reranked."""
    scores, ranks = dict(inner.hit.scores), dict(inner.ranks)
    if reranked is not None:
        scores[RERANK_STAGE], ranks[RERANK_STAGE] = float(reranked[0]), reranked[1]
    contributions = {RETRIEVE_STAGE: float(shares[0]), RERANK_STAGE: float(shares[1])}
    hit = replace(inner.hit, score=sum(contributions.values()), scores=scores, rank=rank)
    return Explanation(hit, ranks, contributions)
