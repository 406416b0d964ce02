"""Hybrid retrieval: BM25 and cosine scores, fused. The default retriever."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ragkit.embed.base import MonolingualEmbedder, Row, WeightedEmbedder
from ragkit.lexical.analyzer import extract_terms, is_mostly_latin
from ragkit.lexical.base import ExtraTerms
from ragkit.lexical.document_fields import document_version, period_terms
from ragkit.lexical.languages import detect_question_language
from ragkit.lexical.word_forms import question_terms
from ragkit.records import Hit, Where
from ragkit.retrieve.base import DENSE, DOCUMENT, LEXICAL, Explanation, Retriever, RetrieverDependencies, ScoredKeys
from ragkit.retrieve.fusion import ScoreArray, convex_combination, reciprocal_rank_fusion
from ragkit.retrieve.options import HybridOptions, validate_top_k
from ragkit.retrieve.second_hop import asks_about_document, asks_for_second_hop, find_second_hop, lacks_words

DENSE_WEIGHT = 0.55
"""Default weight of the cosines; 0.5 to 0.6 hardly differ."""
OTHER_SCRIPT_DENSE_WEIGHT = 0.001
"""Default weight of the cosines of an embedder for English, for questions in a script other than Latin: they order
passages that match equally many words, and no others."""
OTHER_LANGUAGE_DENSE_WEIGHT = 0.3
"""The same for questions in another language in Latin letters, of which it knows names and some words."""


VERSION_DEPTH = 16
"""Hits among which an older version of a document gives way to a newer one."""
OLDER_VERSION_PENALTY = 0.5
"""What the score of a hit of an older version loses."""
VERSION = "older version"
"""Name of that contribution to the score."""
FIRST_RANKS = 3
"""Hits that keep their ranks when a second hop adds others."""
HOP_MARGIN = 0.5
"""The distance in score from the hit at `FIRST_RANKS` to a passage of the second hop without any chance."""
SECOND_HOP = "second hop"
"""Name of its contribution to the score, and of its ranking."""


@dataclass(frozen=True)
class _Candidates:
    """The candidates of both retrievers, with both scores."""

    query: Row
    """The vector of the question."""
    keys: list[int]
    """Ascending."""
    names: tuple[str, ...]
    """`dense`, `lexical`, and `document` if the question names documents."""
    scores: ScoreArray
    """(len(names), len(keys))."""
    rankings: tuple[list[int], ...]
    """For each name, the keys that were found by it, best first."""


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
        shares = self._score_contributions(candidates, self._dense_weight(question))
        fused = shares.sum(axis=0)
        best = np.argsort(-fused, kind="stable")[: max(top_k, VERSION_DEPTH)].tolist()
        explanations = self._build_explanations(candidates, shares, best)
        if self._options.document_weight > 0 and not period_terms(question):
            explanations = prefer_newest(explanations)
        if self._wants_second_hop(question, explanations):
            explanations = self._add_second_hop(question, candidates.query, explanations, where)
        return explanations[:top_k]

    def _wants_second_hop(self, question: str, explanations: list[Explanation]) -> bool:
        hops = self._options.hops
        if hops == 1 or self._options.fusion != "convex" or len(explanations) < FIRST_RANKS:
            return False
        hits = [entry.hit for entry in explanations]
        return hops == 2 or (
            asks_for_second_hop(question) and lacks_words(question, hits) and not asks_about_document(question, hits)
        )

    def _add_second_hop(
        self, question: str, query: Row, explanations: list[Explanation], where: Where
    ) -> list[Explanation]:
        """Put the passages of the second hop behind the first `FIRST_RANKS` hits, by their chances."""
        index, hits = self._dependencies.chunk_index, [entry.hit for entry in explanations]
        found = find_second_hop(question, query, hits, index, where)
        keys = found.keys[: len(explanations)]
        known = {entry.hit.chunk.id: entry for entry in explanations}
        first, least = {hit.chunk.id for hit in hits[:FIRST_RANKS]}, hits[FIRST_RANKS - 1].score
        terms, chunks = extract_terms(question), index.chunks(keys)
        cosines, bm25 = index.cosines(query, keys).tolist(), index.term_scores(terms, keys).tolist()
        for i, chunk in enumerate(chunks):
            entry = known.get(chunk.id) or Explanation(Hit(chunk, 0.0, {DENSE: cosines[i], LEXICAL: bm25[i]}, 1))
            lift = least - HOP_MARGIN * (1 - found.chances[i]) - entry.hit.score
            if chunk.id not in first and (lift > 0 or chunk.id not in known):
                known[chunk.id] = _lift(entry, lift, i + 1)
        ranked = sorted(known.values(), key=lambda entry: -entry.hit.score)
        return [replace(entry, hit=replace(entry.hit, rank=rank)) for rank, entry in enumerate(ranked, start=1)]

    def _find_candidates(self, question: str, depth: int, where: Where) -> _Candidates:
        index = self._dependencies.chunk_index
        terms, forms = question_terms(question, index.find_terms)
        query = self._dependencies.embed_question(question)
        dense = index.search_dense(query, depth, where, question)
        lexical = index.search_terms(terms, depth, where, forms) if terms else []
        use_documents = bool(terms) and self._options.document_weight > 0
        named = index.search_documents(question, terms, depth, where) if use_documents else []
        keys = sorted({key for key, _ in (*dense, *lexical, *named)})
        names, rows = (
            [DENSE, LEXICAL],
            [self._cosine_scores(query, dense, keys), self._bm25_scores(terms, forms, lexical, keys)],
        )
        if named:
            names.append(DOCUMENT)
            rows.append(np.asarray(index.document_scores(question, keys), np.float64))
        rankings = [[key for key, _ in ranking] for ranking in (dense, lexical, named)]
        return _Candidates(query, keys, tuple(names), np.stack(rows), tuple(rankings[: len(names)]))

    def _cosine_scores(self, query: Row, ranking: ScoredKeys, keys: list[int]) -> ScoreArray:
        """The cosine of every candidate, including those that only BM25 found."""
        known = dict(ranking)
        missing = [key for key in keys if key not in known]
        if missing:
            known |= zip(missing, self._dependencies.chunk_index.cosines(query, missing).tolist(), strict=True)
        return np.array([known[key] for key in keys], np.float64)

    def _bm25_scores(self, terms: list[str], forms: ExtraTerms, ranking: ScoredKeys, keys: list[int]) -> ScoreArray:
        """The BM25 score of every candidate, including those that only the vectors found."""
        known = dict(ranking)
        missing = [key for key in keys if key not in known] if terms else []
        if missing:
            scores = self._dependencies.chunk_index.term_scores(terms, missing, forms)
            known |= zip(missing, scores.tolist(), strict=True)
        return np.array([known.get(key, 0.0) for key in keys], np.float64)

    def _dense_weight(self, question: str) -> float:
        """The weight of the cosines for this question, in [0, 1]."""
        if self._options.dense_weight is not None:
            return self._options.dense_weight
        embedder = self._dependencies.embedder
        if isinstance(embedder, WeightedEmbedder):
            return embedder.dense_weight
        if not isinstance(embedder, MonolingualEmbedder):
            return DENSE_WEIGHT
        if not is_mostly_latin(question):
            return OTHER_SCRIPT_DENSE_WEIGHT
        return OTHER_LANGUAGE_DENSE_WEIGHT if detect_question_language(question) else DENSE_WEIGHT

    def _score_contributions(self, candidates: _Candidates, weight: float) -> ScoreArray:
        """Score contributions: (len(candidates.names), n)."""
        if self._options.fusion == "convex":
            halves = convex_combination(candidates.scores[:2], (weight, 1 - weight))
            return np.concatenate([halves, self._options.document_weight * candidates.scores[2:]])
        each = [dict(reciprocal_rank_fusion([ranking])) for ranking in candidates.rankings]
        return np.array([[scores.get(key, 0.0) for key in candidates.keys] for scores in each], np.float64)

    def _build_explanations(self, candidates: _Candidates, shares: ScoreArray, best: list[int]) -> list[Explanation]:
        ranks = [{key: rank for rank, key in enumerate(ranking, start=1)} for ranking in candidates.rankings]
        chunks = self._dependencies.chunk_index.chunks([candidates.keys[i] for i in best]) if best else []
        explanations = []
        for rank, (i, chunk) in enumerate(zip(best, chunks, strict=True), start=1):
            key, names = candidates.keys[i], candidates.names
            scores = dict(zip(names, candidates.scores[:, i].tolist(), strict=True))
            own_ranks = {name: rank_of[key] for name, rank_of in zip(names, ranks, strict=True) if key in rank_of}
            contributions = dict(zip(names, shares[:, i].tolist(), strict=True))
            hit = Hit(chunk, sum(contributions.values()), scores, rank)
            explanations.append(Explanation(hit, own_ranks, contributions))
        return explanations


def _lift(explanation: Explanation, lift: float, rank: int) -> Explanation:
    contributions = {**explanation.contributions, SECOND_HOP: lift}
    hit = replace(explanation.hit, score=explanation.hit.score + lift)
    return Explanation(hit, {**explanation.ranks, SECOND_HOP: rank}, contributions)


def prefer_newest(explanations: list[Explanation]) -> list[Explanation]:
    """Lower the hits of documents of which a newer version, by the name of its file, is among the hits too."""
    versions = [document_version(explanation.hit.chunk.source) for explanation in explanations]
    newest: dict[str, tuple[str, ...]] = {}
    for family, version in versions:
        newest[family] = max(newest.get(family, ()), version)
    if all(version == newest[family] for family, version in versions):
        return explanations
    judged = [
        _lower(explanation) if version < newest[family] else explanation
        for explanation, (family, version) in zip(explanations, versions, strict=True)
    ]
    judged.sort(key=lambda explanation: -explanation.hit.score)
    return [replace(entry, hit=replace(entry.hit, rank=rank)) for rank, entry in enumerate(judged, start=1)]


def _lower(explanation: Explanation) -> Explanation:
    contributions = {**explanation.contributions, VERSION: -OLDER_VERSION_PENALTY}
    hit = replace(explanation.hit, score=explanation.hit.score - OLDER_VERSION_PENALTY)
    return replace(explanation, hit=hit, contributions=contributions)
