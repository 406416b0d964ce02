"""Pseudo-relevance feedback: expand the query with the first passages, which are assumed relevant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ragkit.embed.base import Row, normalize_rows
from ragkit.lexical.analyzer import extract_terms
from ragkit.lexical.base import NO_EXTRA_TERMS, ExtraTerms
from ragkit.records import Where
from ragkit.retrieve.base import ChunkIndex, ScoredKeys
from ragkit.retrieve.options import FeedbackOptions


class PseudoRelevanceFeedback:
    """A `QueryExpander`: adds terms of the top lexical hits, and moves the query vector towards the top dense hits."""

    def __init__(self, options: FeedbackOptions) -> None:
        self._options = options

    def expand_vector(self, query: Row, index: ChunkIndex, where: Where) -> Row:
        """(1 - weight) * query vector + weight * mean vector of the first passages, normalized.

        Source: Rocchio, in Salton (ed.), The SMART Retrieval System, 1971, without the term for non-relevant passages.
        """
        ranking = index.search_dense(query, self._options.passages, where)
        if not ranking:
            return query
        weight = self._options.weight
        mean = index.embeddings([key for key, _ in ranking]).mean(axis=0)
        return normalize_rows((1 - weight) * query + weight * mean)

    def expand_terms(self, terms: Sequence[str], index: ChunkIndex, where: Where) -> ExtraTerms:
        """The most probable terms of the first passages (RM3) and their weights.

        The weights sum up to weight / (1 - weight) times the number of question terms.

        Source: Abdul-Jaleel et al., UMass at TREC 2004: Novelty and HARD, 2004.
        """
        ranking = index.search_terms(terms, self._options.passages, where)
        probabilities = _term_probabilities(ranking, index)
        best = sorted(probabilities.items(), key=lambda pair: (-pair[1], pair[0]))[: self._options.terms]
        total = sum(probability for _, probability in best)
        if not total:
            return NO_EXTRA_TERMS
        scale = self._options.weight / (1 - self._options.weight) * len(terms) / total
        return {term: probability * scale for term, probability in best}


def _term_probabilities(ranking: ScoredKeys, index: ChunkIndex) -> dict[str, float]:
    """Term probabilities of the passages, weighted by their scores; they sum up to 1."""
    total = sum(score for _, score in ranking)
    probabilities: dict[str, float] = {}
    chunks = index.chunks([key for key, _ in ranking]) if ranking else []
    for chunk, (_, score) in zip(chunks, ranking, strict=True):
        counts = Counter(extract_terms(f"{chunk.header}\n{chunk.text}"))
        share = score / total / max(1, counts.total())
        for term, count in counts.items():
            probabilities[term] = probabilities.get(term, 0.0) + count * share
    return probabilities
