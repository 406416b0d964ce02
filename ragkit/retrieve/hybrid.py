"""Retrieval by words and by meaning at once: BM25 and cosine, fused. The default."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ragkit.embed.base import Row
from ragkit.records import Hit
from ragkit.retrieve.base import Explanation, Found, Parts, Where
from ragkit.retrieve.fusion import Values, convex, reciprocal_rank_fusion
from ragkit.retrieve.options import HybridOptions, checked_top_k
from ragkit.retrieve.terms import terms

DENSE, LEXICAL = "dense", "lexical"


@dataclass(frozen=True)
class _Candidates:
    """What either retriever proposed, with the scores of both."""

    keys: list[int]
    """Rising."""
    scores: Values
    """(2, len(keys)): cosines, then BM25."""
    rankings: tuple[list[int], list[int]]
    """The keys that each proposed, best first."""


class HybridRetriever:
    """Fuses BM25 with cosines, over what either of them proposes.

    With `convex` a hit's score is the weighted mean of its two z-scores among the candidates: 0 is an average
    candidate, and there is no fixed upper bound. With `rrf` it lies in (0, 2 / 61].
    """

    def __init__(self, options: HybridOptions, parts: Parts) -> None:
        self._options, self._parts = options, parts

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The best hits; each has both scores, `dense` and `lexical`."""
        return [explanation.hit for explanation in self.explain(question, top_k, where)]

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The same hits, with their rank in either list and what either adds to the score."""
        top_k = checked_top_k(self._options.top_k if top_k is None else top_k)
        if not question.strip():
            return []
        candidates = self._candidates(question, max(top_k, self._options.candidates), where)
        shares = self._shares(candidates)
        fused = shares.sum(axis=0)
        best = np.argsort(-fused, kind="stable")[:top_k].tolist()
        return self._explanations(candidates, shares, best)

    def _candidates(self, question: str, depth: int, where: Where) -> _Candidates:
        passages, asked, query = self._parts.passages, terms(question), self._parts.embedder.embed_query(question)
        dense = passages.search_dense(query, depth, where)
        lexical = passages.search_terms(asked, depth, where) if asked else []
        keys = sorted({key for key, _ in (*dense, *lexical)})
        scores = np.stack([self._cosines(query, dense, keys), self._bm25(asked, lexical, keys)])
        return _Candidates(keys, scores, ([key for key, _ in dense], [key for key, _ in lexical]))

    def _cosines(self, query: Row, found: Found, keys: list[int]) -> Values:
        """The cosine of every candidate, also of those that only the words proposed."""
        known = dict(found)
        missing = [key for key in keys if key not in known]
        if missing:
            known |= zip(missing, self._parts.passages.cosines(query, missing).tolist(), strict=True)
        return np.array([known[key] for key in keys], np.float64)

    def _bm25(self, asked: list[str], found: Found, keys: list[int]) -> Values:
        """The BM25 score of every candidate, also of those that only the vectors proposed."""
        known = dict(found)
        missing = [key for key in keys if key not in known] if asked else []
        if missing:
            known |= zip(missing, self._parts.passages.term_scores(asked, missing).tolist(), strict=True)
        return np.array([known.get(key, 0.0) for key in keys], np.float64)

    def _shares(self, candidates: _Candidates) -> Values:
        """What either retriever adds to each candidate's score: (2, n)."""
        if self._options.fusion == "convex":
            weight = self._options.dense_weight
            return convex(candidates.scores, (weight, 1 - weight))
        each = [dict(reciprocal_rank_fusion([ranking])) for ranking in candidates.rankings]
        return np.array([[earned.get(key, 0.0) for key in candidates.keys] for earned in each], np.float64)

    def _explanations(self, candidates: _Candidates, shares: Values, best: list[int]) -> list[Explanation]:
        ranks = [{key: rank for rank, key in enumerate(ranking, start=1)} for ranking in candidates.rankings]
        chunks = self._parts.passages.chunks([candidates.keys[at] for at in best]) if best else []
        explanations = []
        for rank, (at, chunk) in enumerate(zip(best, chunks, strict=True), start=1):
            key, names = candidates.keys[at], (DENSE, LEXICAL)
            scores = dict(zip(names, candidates.scores[:, at].tolist(), strict=True))
            placed = {name: places[key] for name, places in zip(names, ranks, strict=True) if key in places}
            added = dict(zip(names, shares[:, at].tolist(), strict=True))
            explanations.append(Explanation(Hit(chunk, sum(added.values()), scores, rank), placed, added))
        return explanations
