"""Selects the sentences of the passages that answer a question best, without a language model.

The score of an answer unit is the weighted sum of its features (`FEATURE_WEIGHTS`). Units are selected greedily, with
a penalty for units of the same passage and without duplicates. The weights were fitted on questions of SQuAD 2.0 so
that units with the answer rank first; `benchmarks/answers.py` measures them, also on held-out articles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ragkit.answer.answer_type import AnswerType, contains_answer_type, detect_answer_type
from ragkit.answer.answer_units import AnswerUnit, extract_answer_units
from ragkit.answer.base import Searcher
from ragkit.answer.question_terms import QuestionTerms
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import Hit

MAX_PASSAGES = 8
"""Number of passages that units are extracted from."""
MAX_EMBEDDED_UNITS = 24
"""Number of units that are embedded, the best ones by lexical features: embedding dominates the run time."""

FEATURE_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        # cosine of the question with the unit alone, with the previous unit added, with the next unit added
        "meaning": 4.7,
        "meaning_before": 3.0,
        "meaning_after": 1.9,
        # of the passage: cosine minus the highest one; share of the question's terms; BM25 divided by the highest one
        "passage_meaning": 7.6,
        "passage_words": 1.8,
        "passage_bm25": 1.6,
        # share of the question's terms in the unit; what the previous unit, the next unit and the headings add to it
        "words": 6.3,
        "words_before": 3.1,
        "words_after": 1.2,
        "words_under": 2.9,
        # share of the terms that match by prefix only; of names; of the asked noun; of bigrams
        "words_alike": 4.6,
        "names": -0.8,
        "noun": 0.8,
        "pairs": 1.5,
        # the question asks for this type, and the unit has a mention of it that is not in the question
        "date": 2.3,
        "number": 1.1,
        "person": 0.4,
        "place": 2.0,
        "name": 1.3,
        # logarithm of the number of words; whether the unit ends with a question mark or a colon
        "length": 0.4,
        "open": -3.0,
    }
)
"""The weight of each feature. All are fitted except the last, which is set by hand."""
EXTRA_SENTENCE_PENALTY = 0.8
"""Subtracted for each sentence of a unit after the first, since an answer has room for few."""
SAME_PASSAGE_PENALTY = 0.35
"""Subtracted from the other units of a passage for each selected one: if the passage is wrong, all of them are."""
_DUPLICATE_OVERLAP = 0.9  # Jaccard similarity of the terms


@dataclass(frozen=True)
class ScoredAnswerUnit(AnswerUnit):
    """A selected unit and its score."""

    score: float = 0.0
    """Comparable within one question only."""


@dataclass(frozen=True, eq=False)
class AnswerCandidates:
    """The candidate units of the passages and their features."""

    units: list[AnswerUnit]
    features: NDArray[np.float64]
    """(len(units), len(FEATURE_WEIGHTS)), columns in the order of the weights."""
    unit_terms: list[frozenset[str]]


def select_answer_units(
    question: str, hits: Sequence[Hit], searcher: Searcher, limit: int = 3
) -> list[ScoredAnswerUnit]:
    """The units that answer a question best, best first, without duplicates; empty without passages.

    Together they have at most `limit` sentences. If every unit alone has more, the result is the best unit.
    """
    candidates = build_candidates(question, hits, searcher)
    scores = candidates.features @ np.array(list(FEATURE_WEIGHTS.values()))
    return [
        ScoredAnswerUnit(**vars(candidates.units[i]), score=float(scores[i]))
        for i in select_diverse(candidates, scores, limit)
    ]


def build_candidates(question: str, hits: Sequence[Hit], searcher: Searcher) -> AnswerCandidates:
    """The best units of the best passages by lexical features, with all their features."""
    scorer = _LexicalScorer(question, QuestionTerms(question, searcher), hits[:MAX_PASSAGES])
    scores = scorer.features @ np.array([FEATURE_WEIGHTS[name] for name in _LEXICAL_FEATURES])
    kept = np.sort(np.argsort(-scores, kind="stable")[:MAX_EMBEDDED_UNITS])
    units = [scorer.units[i] for i in kept]
    # the columns follow FEATURE_WEIGHTS, which begins with the embedding features
    features = np.hstack([_embedding_features(question, units, kept, searcher), scorer.features[kept]])
    return AnswerCandidates(units, features, [scorer.unit_terms[i] for i in kept])


def select_diverse(candidates: AnswerCandidates, scores: NDArray[np.float64], limit: int) -> list[int]:
    """Indices of the units of the best answer with at most `limit` sentences, best first."""
    units = candidates.units
    remaining = scores - EXTRA_SENTENCE_PENALTY * np.array([unit.sentence_count - 1 for unit in units])
    passages = np.array([unit.hit_index for unit in units])
    selected: list[int] = []
    sentences_left = limit
    for _ in range(len(remaining)):
        best = int(np.argmax(remaining))
        remaining[best] = -math.inf
        if units[best].sentence_count > sentences_left or any(_is_duplicate(candidates, best, i) for i in selected):
            continue
        selected.append(best)
        sentences_left -= units[best].sentence_count
        remaining[passages == passages[best]] -= SAME_PASSAGE_PENALTY
    return selected or ([int(np.argmax(scores))] if limit > 0 and len(scores) else [])


def _is_duplicate(candidates: AnswerCandidates, i: int, j: int) -> bool:
    """Whether two units overlap in their document, or have nearly the same terms."""
    first, second = candidates.units[i], candidates.units[j]
    if first.source == second.source and first.start < second.end and second.start < first.end:
        return True
    first_terms, second_terms = candidates.unit_terms[i], candidates.unit_terms[j]
    return len(first_terms & second_terms) >= _DUPLICATE_OVERLAP * len(first_terms | second_terms)


_EMBEDDING_FEATURES = ("meaning", "meaning_before", "meaning_after")
_LEXICAL_FEATURES = tuple(name for name in FEATURE_WEIGHTS if name not in _EMBEDDING_FEATURES)
_ANSWER_TYPE_FEATURES = {
    AnswerType.DATE: "date",
    AnswerType.NUMBER: "number",
    AnswerType.PERSON: "person",
    AnswerType.PLACE: "place",
    AnswerType.NAME: "name",
}


def _embedding_features(
    question: str, units: Sequence[AnswerUnit], positions: NDArray[np.int64], searcher: Searcher
) -> NDArray[np.float64]:
    """Cosine of the question with each unit: alone, with the previous unit, with the next unit; (n, 3)."""
    if not units:
        return np.zeros((0, len(_EMBEDDING_FEATURES)))
    rows = np.asarray(searcher.embed([unit.text for unit in units]), np.float64)
    query = np.asarray(searcher.embed_question(question), np.float64)
    features = np.repeat((rows @ query)[:, None], 3, axis=1)
    for i in range(1, len(units)):
        if units[i].hit_index == units[i - 1].hit_index and positions[i] == positions[i - 1] + 1:
            both = rows[i] + rows[i - 1]
            features[i, 1] = features[i - 1, 2] = both @ query / (np.linalg.norm(both) or 1.0)
    return features


class _LexicalScorer:
    """Computes the features of answer units that need no embedding."""

    def __init__(self, question: str, terms: QuestionTerms, hits: Sequence[Hit]) -> None:
        self.units = extract_answer_units(hits)
        self.unit_terms = [frozenset(extract_terms(unit.text)) for unit in self.units]
        self._question, self._question_terms, self._answer_type = question, terms, detect_answer_type(question)
        self._passage_features = _passage_features(terms, hits)
        features = map(self._unit_features, range(len(self.units)))
        rows = [[row.get(name, 0.0) for name in _LEXICAL_FEATURES] for row in features]
        self.features = np.array(rows).reshape(-1, len(_LEXICAL_FEATURES))

    def _unit_features(self, i: int) -> dict[str, float]:
        unit, present, terms = self.units[i], self.unit_terms[i], self._question_terms
        words = terms.coverage(present)
        row = {
            **self._passage_features[unit.hit_index],
            "words": words,
            "words_before": self._coverage_with_neighbour(i, i - 1) - words,
            "words_after": self._coverage_with_neighbour(i, i + 1) - words,
            "words_under": terms.coverage(present | frozenset(extract_terms(unit.heading_context))) - words,
            "words_alike": terms.prefix_coverage(present),
            "names": terms.name_coverage(present),
            "noun": terms.noun_coverage(present),
            "pairs": terms.bigram_coverage(extract_terms(unit.text)),
            "length": math.log(max(3, len(unit.text.split()))),
            "open": float(unit.text.endswith(("?", ":"))),
        }
        if feature := _ANSWER_TYPE_FEATURES.get(self._answer_type):
            row[feature] = float(contains_answer_type(self._answer_type, unit.text, self._question))
        return row

    def _coverage_with_neighbour(self, i: int, neighbour: int) -> float:
        """The coverage of a unit together with its neighbour, if that is in the same passage."""
        adjacent = 0 <= neighbour < len(self.units) and self.units[neighbour].hit_index == self.units[i].hit_index
        present = self.unit_terms[i] | self.unit_terms[neighbour] if adjacent else self.unit_terms[i]
        return self._question_terms.coverage(present)


def _passage_features(terms: QuestionTerms, hits: Sequence[Hit]) -> list[dict[str, float]]:
    """The features of each passage; scores are relative to the best one, 0 if there is none."""
    dense = [hit.scores.get("dense") for hit in hits]
    bm25 = [hit.scores.get("lexical", 0.0) for hit in hits]
    nearest = max((cosine for cosine in dense if cosine is not None), default=0.0)
    strongest = max(bm25, default=0.0)
    return [
        {
            "passage_meaning": cosine - nearest if cosine is not None else 0.0,
            "passage_bm25": score / strongest if strongest > 0 else 0.0,
            "passage_words": terms.coverage(frozenset(extract_terms(f"{hit.chunk.header} {hit.chunk.text}"))),
        }
        for hit, cosine, score in zip(hits, dense, bm25, strict=True)
    ]
