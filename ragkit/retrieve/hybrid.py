"""Retrieval by words and by meaning at once: BM25 and cosine, fused. The default."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ragkit.embed.base import Row
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Hit
from ragkit.retrieve.base import Explanation, RetrieverDependencies, ScoredKeys, Where
from ragkit.retrieve.fusion import ScoreArray, convex_combination, reciprocal_rank_fusion
from ragkit.retrieve.options import HybridOptions, validate_top_k

DENSE, LEXICAL = "dense", "lexical"


@dataclass(frozen=True)
class _Candidates:
    """What either retriever proposed, with the scores of both."""

    keys: list[int]
    """Rising."""
    scores: ScoreArray
    """(2, len(keys)): cosines, then BM25."""
    rankings: tuple[list[int], list[int]]
    """The keys that each proposed, best first."""


class HybridRetriever:
    """Fuses BM25 with cosines, over what either of them proposes.

    With `convex` a hit's score is the weighted mean of its two z-scores among the candidates: 0 is an average
    candidate, and there is no fixed upper bound. With `rrf` it lies in (0, 2 / 61].
    """

    def __init__(self, options: HybridOptions, parts: RetrieverDependencies) -> None:
        self._options, self._dependencies = options, parts

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The best hits; each has both scores, `dense` and `lexical`."""
        return [explanation.hit for explanation in self.explain(question, top_k, where)]

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The same hits, with their rank in either list and what either adds to the score."""
        top_k = validate_top_k(self._options.top_k if top_k is None else top_k)
        if not question.strip():
            return []
        candidates = self._find_candidates(question, max(top_k, self._options.candidates), where)
        shares = self._score_contributions(candidates)
        fused = shares.sum(axis=0)
        best = np.argsort(-fused, kind="stable")[:top_k].tolist()
        return self._build_explanations(candidates, shares, best)

    def _find_candidates(self, question: str, depth: int, where: Where) -> _Candidates:
        passages, asked, query = (
            self._dependencies.chunk_index,
            extract_terms(question),
            self._dependencies.embedder.embed_query(question),
        )
        dense = passages.search_dense(query, depth, where)
        lexical = passages.search_terms(asked, depth, where) if asked else []
        keys = sorted({key for key, _ in (*dense, *lexical)})
        scores = np.stack([self._cosine_scores(query, dense, keys), self._bm25_scores(asked, lexical, keys)])
        return _Candidates(keys, scores, ([key for key, _ in dense], [key for key, _ in lexical]))

    def _cosine_scores(self, query: Row, found: ScoredKeys, keys: list[int]) -> ScoreArray:
        """The cosine of every candidate, also of those that only the words proposed."""
        known = dict(found)
        missing = [key for key in keys if key not in known]
        if missing:
            known |= zip(missing, self._dependencies.chunk_index.cosines(query, missing).tolist(), strict=True)
        return np.array([known[key] for key in keys], np.float64)

    def _bm25_scores(self, asked: list[str], found: ScoredKeys, keys: list[int]) -> ScoreArray:
        """The BM25 score of every candidate, also of those that only the vectors proposed."""
        known = dict(found)
        missing = [key for key in keys if key not in known] if asked else []
        if missing:
            known |= zip(missing, self._dependencies.chunk_index.term_scores(asked, missing).tolist(), strict=True)
        return np.array([known.get(key, 0.0) for key in keys], np.float64)

    def _score_contributions(self, candidates: _Candidates) -> ScoreArray:
        """What either retriever adds to each candidate's score: (2, n)."""
        if self._options.fusion == "convex":
            weight = self._options.dense_weight
            return convex_combination(candidates.scores, (weight, 1 - weight))
        each = [dict(reciprocal_rank_fusion([ranking])) for ranking in candidates.rankings]
        return np.array([[earned.get(key, 0.0) for key in candidates.keys] for earned in each], np.float64)

    def _build_explanations(self, candidates: _Candidates, shares: ScoreArray, best: list[int]) -> list[Explanation]:
        ranks = [{key: rank for rank, key in enumerate(ranking, start=1)} for ranking in candidates.rankings]
        chunks = self._dependencies.chunk_index.chunks([candidates.keys[at] for at in best]) if best else []
        explanations = []
        for rank, (at, chunk) in enumerate(zip(best, chunks, strict=True), start=1):
            key, names = candidates.keys[at], (DENSE, LEXICAL)
            scores = dict(zip(names, candidates.scores[:, at].tolist(), strict=True))
            placed = {name: places[key] for name, places in zip(names, ranks, strict=True) if key in places}
            added = dict(zip(names, shares[:, at].tolist(), strict=True))
            explanations.append(Explanation(Hit(chunk, sum(added.values()), scores, rank), placed, added))
        return explanations
