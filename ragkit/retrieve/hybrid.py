"""Hybrid retrieval: BM25 and cosine scores, fused. The default retriever."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ragkit.embed.base import Row
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Hit
from ragkit.retrieve.base import DENSE, LEXICAL, Explanation, Retriever, RetrieverDependencies, ScoredKeys, Where
from ragkit.retrieve.fusion import ScoreArray, convex_combination, reciprocal_rank_fusion
from ragkit.retrieve.options import HybridOptions, validate_top_k


@dataclass(frozen=True)
class _Candidates:
    """The candidates of both retrievers, with both scores."""

    keys: list[int]
    """Ascending."""
    scores: ScoreArray
    """(2, len(keys)): cosines, then BM25."""
    rankings: tuple[list[int], list[int]]
    """The keys found by each retriever, best first."""


class HybridRetriever(Retriever):
    """Fuses BM25 and cosine scores of the candidates of both retrievers.

    With `convex`, a score is the weighted mean of two z-scores among the candidates: 0 is an average candidate, and
    there is no fixed upper bound. With `rrf`, it lies in (0, 2 / 61].
    """

    def __init__(self, options: HybridOptions, parts: RetrieverDependencies) -> None:
        self._options, self._dependencies = options, parts

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The best hits with the scores `dense` and `lexical`, the ranks and score contributions of both retrievers."""
        top_k = validate_top_k(self._options.top_k if top_k is None else top_k)
        if not question.strip():
            return []
        candidates = self._find_candidates(question, max(top_k, self._options.candidates), where)
        shares = self._score_contributions(candidates)
        fused = shares.sum(axis=0)
        best = np.argsort(-fused, kind="stable")[:top_k].tolist()
        return self._build_explanations(candidates, shares, best)

    def _find_candidates(self, question: str, depth: int, where: Where) -> _Candidates:
        index, terms = self._dependencies.chunk_index, extract_terms(question)
        query = self._dependencies.embedder.embed_query(question)
        dense = index.search_dense(query, depth, where)
        lexical = index.search_terms(terms, depth, where) if terms else []
        keys = sorted({key for key, _ in (*dense, *lexical)})
        scores = np.stack([self._cosine_scores(query, dense, keys), self._bm25_scores(terms, lexical, keys)])
        return _Candidates(keys, scores, ([key for key, _ in dense], [key for key, _ in lexical]))

    def _cosine_scores(self, query: Row, ranking: ScoredKeys, keys: list[int]) -> ScoreArray:
        """The cosine of every candidate, including those that only BM25 found."""
        known = dict(ranking)
        missing = [key for key in keys if key not in known]
        if missing:
            known |= zip(missing, self._dependencies.chunk_index.cosines(query, missing).tolist(), strict=True)
        return np.array([known[key] for key in keys], np.float64)

    def _bm25_scores(self, terms: list[str], ranking: ScoredKeys, keys: list[int]) -> ScoreArray:
        """The BM25 score of every candidate, including those that only the vectors found."""
        known = dict(ranking)
        missing = [key for key in keys if key not in known] if terms else []
        if missing:
            known |= zip(missing, self._dependencies.chunk_index.term_scores(terms, missing).tolist(), strict=True)
        return np.array([known.get(key, 0.0) for key in keys], np.float64)

    def _score_contributions(self, candidates: _Candidates) -> ScoreArray:
        """Score contributions of both retrievers: (2, n)."""
        if self._options.fusion == "convex":
            weight = self._options.dense_weight
            return convex_combination(candidates.scores, (weight, 1 - weight))
        each = [dict(reciprocal_rank_fusion([ranking])) for ranking in candidates.rankings]
        return np.array([[scores.get(key, 0.0) for key in candidates.keys] for scores in each], np.float64)

    def _build_explanations(self, candidates: _Candidates, shares: ScoreArray, best: list[int]) -> list[Explanation]:
        ranks = [{key: rank for rank, key in enumerate(ranking, start=1)} for ranking in candidates.rankings]
        chunks = self._dependencies.chunk_index.chunks([candidates.keys[i] for i in best]) if best else []
        explanations = []
        for rank, (i, chunk) in enumerate(zip(best, chunks, strict=True), start=1):
            key, names = candidates.keys[i], (DENSE, LEXICAL)
            scores = dict(zip(names, candidates.scores[:, i].tolist(), strict=True))
            own_ranks = {name: rank_of[key] for name, rank_of in zip(names, ranks, strict=True) if key in rank_of}
            contributions = dict(zip(names, shares[:, i].tolist(), strict=True))
            hit = Hit(chunk, sum(contributions.values()), scores, rank)
            explanations.append(Explanation(hit, own_ranks, contributions))
        return explanations
