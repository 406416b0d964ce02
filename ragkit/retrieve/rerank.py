"""A second look at the first hits of a retriever: their scores blended with a reranker's, then spread out.

Knows no reranker; `MmrReranker` is the one that changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ragkit.embed.base import EmbeddingProvider
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Hit
from ragkit.retrieve.base import Explanation, Reranker, RerankScores, Retriever, Where
from ragkit.retrieve.fusion import ScoreArray, z_scores
from ragkit.retrieve.options import HybridOptions, RerankOptions, validate_top_k

RERANK_STAGE, RETRIEVE_STAGE = "rerank", "retrieve"


class RerankingRetriever:
    """Ranks the first hits of another retriever once more.

    A hit's score is (1 - weight) * its score there + weight * the reranker's. A retriever's scores count as standard
    deviations: those of `hybrid` with `convex` are, all others are brought to that first. Hits behind the first
    `candidates` keep their order, below all others.
    """

    def __init__(self, inner: Retriever, reranker: Reranker, options: RerankOptions, first: object) -> None:
        """`first` are the options of the inner retriever."""
        self._inner, self._reranker, self._options = inner, reranker, options
        self._top_k = int(getattr(first, "top_k", 8))
        self._is_standardized = isinstance(first, HybridOptions) and first.fusion == "convex"

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The best hits; those that were looked at have the score `rerank` beside the others."""
        return [explanation.hit for explanation in self.explain(question, top_k, where)]

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The same hits, with their place in either stage, and what either adds to the score."""
        top_k = validate_top_k(self._top_k if top_k is None else top_k)
        found = self._inner.explain(question, max(top_k, self._options.candidates), where)
        if not found:
            return []
        near = found[: self._options.candidates]
        scores = np.asarray(self._reranker.scores(question, [one.hit for one in near]), np.float64)
        shares = self._score_contributions(found, scores)
        order = self._rank(near, shares.sum(axis=0)[: len(near)])[:top_k]
        order += range(len(near), min(top_k, len(found)))
        ranks = {int(at): rank for rank, at in enumerate(np.argsort(-scores, kind="stable"), start=1)}
        return [
            _build_explanation(found[at], rank, shares[:, at], (scores[at], ranks[at]) if at < len(near) else None)
            for rank, at in enumerate(order, start=1)
        ]

    def _score_contributions(self, found: Sequence[Explanation], scores: RerankScores) -> ScoreArray:
        """What either stage adds to each hit's score: (2, len(found)). Who was not looked at is as bad as the worst."""
        weight = self._reranker.weight if self._options.weight is None else self._options.weight
        first = np.array([one.hit.score for one in found], np.float64)
        padded = np.concatenate([scores, np.full(len(found) - len(scores), scores.min())])
        return np.stack([(1 - weight) * (first if self._is_standardized else z_scores(first)), weight * padded])

    def _rank(self, near: Sequence[Explanation], scores: ScoreArray) -> list[int]:
        diversity = self._reranker.diversity if self._options.diversity is None else self._options.diversity
        if not diversity:
            return [int(at) for at in np.argsort(-scores, kind="stable")]
        return rank_by_mmr(scores, pairwise_similarity([one.hit.chunk.text for one in near]), diversity)


class MmrReranker:
    """Gives every hit the score that it has: with it, diversity is all that changes the order."""

    weight, diversity = 0.0, 0.3

    def __init__(self, options: RerankOptions, embedder: EmbeddingProvider) -> None:
        """Neither is needed."""

    def scores(self, question: str, hits: Sequence[Hit]) -> RerankScores:
        """As the retriever has them."""
        return np.array([hit.score for hit in hits], np.float64)


def rank_by_mmr(scores: ScoreArray, likeness: ScoreArray, diversity: float) -> list[int]:
    """Places by maximal marginal relevance: good ones first, but not those that are like what stands above them.

    Args:
        scores: (n,), higher is better, on any scale.
        likeness: (n, n), in [0, 1].
        diversity: in [0, 1]; 0 is the order of the scores, 1 looks at nothing but likeness.

    Source: Carbonell and Goldstein, SIGIR 1998, doi:10.1145/290941.291025.
    """
    relevance = (scores - scores.min()) / (float(np.ptp(scores)) or 1.0)
    nearest, left, order = np.zeros(len(scores)), list(range(len(scores))), list[int]()
    while left:
        gains = [(1 - diversity) * relevance[at] - diversity * nearest[at] for at in left]
        best = left.pop(int(np.argmax(gains)))
        order.append(best)
        nearest = np.maximum(nearest, likeness[best])
    return order


def pairwise_similarity(texts: Sequence[str]) -> ScoreArray:
    """How alike texts are: (n, n), the cosine of their counts of terms. No model, and so no cost."""
    counts = [Counter(extract_terms(text)) for text in texts]
    columns = {term: at for at, term in enumerate(dict.fromkeys(term for one in counts for term in one))}
    rows = np.zeros((len(texts), max(1, len(columns))))
    for row, one in zip(rows, counts, strict=True):
        row[[columns[term] for term in one]] = list(one.values())
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(lengths == 0, 1, lengths)
    return np.asarray(rows @ rows.T, np.float64)


def _build_explanation(
    one: Explanation, rank: int, shares: ScoreArray, looked: tuple[float, int] | None
) -> Explanation:
    scores, ranks = dict(one.hit.scores), dict(one.ranks)
    if looked is not None:
        scores[RERANK_STAGE], ranks[RERANK_STAGE] = float(looked[0]), looked[1]
    added = {RETRIEVE_STAGE: float(shares[0]), RERANK_STAGE: float(shares[1])}
    hit = replace(one.hit, score=sum(added.values()), scores=scores, rank=rank)
    return Explanation(hit, ranks, added)
