"""Pseudo-relevance feedback: the first passages are taken for good ones, and the search goes on from there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ragkit.embed.base import Row, normalize_rows
from ragkit.lexical.analyzer import extract_terms as terms_of
from ragkit.retrieve.base import NO_EXTRA_TERMS, ChunkIndex, ExtraTerms, ScoredKeys, Where
from ragkit.retrieve.options import FeedbackOptions


class PseudoRelevanceFeedback:
    """Keeps `QueryExpander`. Words gain those of the first passages by words, the row moves to the first ones by meaning."""

    def __init__(self, options: FeedbackOptions) -> None:
        self._options = options

    def expand_vector(self, query: Row, passages: ChunkIndex, where: Where) -> Row:
        """The question's row and the mean of the first passages' rows: (1 - weight) of one, weight of the other.

        Source: Rocchio, in Salton (ed.), The SMART Retrieval System, 1971, without its part for bad passages.
        """
        found = passages.search_dense(query, self._options.passages, where)
        if not found:
            return query
        weight = self._options.weight
        mean = passages.embeddings([key for key, _ in found]).mean(axis=0)
        return normalize_rows((1 - weight) * query + weight * mean)

    def expand_terms(self, terms: Sequence[str], passages: ChunkIndex, where: Where) -> ExtraTerms:
        """The likeliest terms of the first passages (RM3), each with what it counts.

        Together they count weight / (1 - weight) of what the terms of the question count.

        Source: Abdul-Jaleel et al., UMass at TREC 2004: Novelty and HARD, 2004.
        """
        found = passages.search_terms(terms, self._options.passages, where)
        chances = _term_probabilities(found, passages)
        best = sorted(chances.items(), key=lambda pair: (-pair[1], pair[0]))[: self._options.terms]
        total = sum(chance for _, chance in best)
        if not total:
            return NO_EXTRA_TERMS
        scale = self._options.weight / (1 - self._options.weight) * len(terms) / total
        return {term: chance * scale for term, chance in best}


def _term_probabilities(found: ScoredKeys, passages: ChunkIndex) -> dict[str, float]:
    """How likely each term is in a passage like these, which count by their scores; the chances sum up to 1."""
    total = sum(score for _, score in found)
    chances: dict[str, float] = {}
    chunks = passages.chunks([key for key, _ in found]) if found else []
    for chunk, (_, score) in zip(chunks, found, strict=True):
        held = Counter(terms_of(f"{chunk.header}\n{chunk.text}"))
        share = score / total / max(1, held.total())
        for term, count in held.items():
            chances[term] = chances.get(term, 0.0) + count * share
    return chances
