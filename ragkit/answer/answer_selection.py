"""The sentences of some passages that answer a question best, without a language model.

Every statement of the passages gets a score: the weighted sum of what is known of it (`WEIGHTS`). The best are taken
one by one, those of further passages by preference, none twice. The weights were fitted on questions of SQuAD 2.0, as
those under which statements that hold the answer come first; `benchmarks/answers.py` tells what they reach, also on
articles that they were not fitted on.
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
"""Passages that sentences are taken from."""
MAX_EMBEDDED_UNITS = 24
"""Statements that are embedded: the best ones by their words. Embedding is what costs time."""

FEATURE_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        # cosine of the question with the statement; with it and the one before, or behind, in the passage
        "meaning": 4.7,
        "meaning_before": 3.0,
        "meaning_after": 1.9,
        # of the passage: cosine, less that of the nearest one; share of the question's words; BM25 over the highest
        "passage_meaning": 7.6,
        "passage_words": 1.8,
        "passage_bm25": 1.6,
        # share of the question's words in the statement; what its neighbours and its headings add to that
        "words": 6.3,
        "words_before": 3.1,
        "words_after": 1.2,
        "words_under": 2.9,
        # share of the words that are not there while a relative is; of names; of the noun asked for; of pairs
        "words_alike": 4.6,
        "names": -0.8,
        "noun": 0.8,
        "pairs": 1.5,
        # the question asks for one of these, and the statement holds one that the question does not
        "date": 2.3,
        "number": 1.1,
        "person": 0.4,
        "place": 2.0,
        "name": 1.3,
        # logarithm of the number of words; ends with a question mark or a colon
        "length": 0.4,
        "open": -3.0,
    }
)
"""What each thing that is known of a statement counts. All but the last were fitted; that one is a judgement."""
EXTRA_SENTENCE_PENALTY = 0.8
"""What each further sentence of a statement costs, since an answer has room for few."""
SAME_PASSAGE_PENALTY = 0.35
"""What each statement that was taken costs the others of its passage: when it is the wrong one, so are they."""
_DUPLICATE_OVERLAP = 0.9  # share of the terms: statements that have more in common say the same


@dataclass(frozen=True)
class ScoredAnswerUnit(AnswerUnit):
    """A statement that was chosen."""

    score: float = 0.0
    """What it was chosen by: comparable within one question only."""


@dataclass(frozen=True, eq=False)
class AnswerCandidates:
    """The statements of some passages and what is known of each."""

    units: list[AnswerUnit]
    features: NDArray[np.float64]
    """(len(statements), len(WEIGHTS)): one column for each weight, in their order."""
    unit_terms: list[frozenset[str]]


def select_answer_units(
    question: str, hits: Sequence[Hit], searcher: Searcher, limit: int = 3
) -> list[ScoredAnswerUnit]:
    """The statements of the best passages that answer a question best, best first.

    They have `limit` sentences at most, taken together, unless every statement alone has more: then it is the best
    one. What two passages say in the same words comes once. Empty without passages.
    """
    found = build_candidates(question, hits, searcher)
    scores = found.features @ np.array(list(FEATURE_WEIGHTS.values()))
    return [
        ScoredAnswerUnit(
            one.hit_index,
            one.source,
            one.start,
            one.end,
            one.text,
            one.heading_context,
            one.sentence_count,
            float(scores[at]),
        )
        for at in select_diverse(found, scores, limit)
        for one in [found.units[at]]
    ]


def build_candidates(question: str, hits: Sequence[Hit], searcher: Searcher) -> AnswerCandidates:
    """The statements of the best passages that are worth a look, with everything that is known of them."""
    asked = QuestionTerms(question, searcher)
    known = _LexicalScorer(question, asked, hits[:MAX_PASSAGES])
    by_words = known.features @ np.array([FEATURE_WEIGHTS[name] for name in _LEXICAL_FEATURES])
    kept = np.sort(np.argsort(-by_words, kind="stable")[:MAX_EMBEDDED_UNITS])
    found = [known.units[at] for at in kept]
    meanings = _embedding_features(question, found, kept, searcher)
    values = np.hstack([meanings, known.features[kept]])  # in the order of WEIGHTS: it begins with the meanings
    return AnswerCandidates(found, values, [known.unit_terms[at] for at in kept])


def select_diverse(found: AnswerCandidates, scores: NDArray[np.float64], limit: int) -> list[int]:
    """Places of the statements that make up the best answer of at most `limit` sentences, best first."""
    left = scores - EXTRA_SENTENCE_PENALTY * np.array([one.sentence_count - 1 for one in found.units])
    passages = np.array([one.hit_index for one in found.units])
    taken: list[int] = []
    room = limit
    for _ in range(len(left)):
        at = int(np.argmax(left))
        left[at] = -math.inf
        size = found.units[at].sentence_count
        if size > room or any(_is_duplicate(found, at, one) for one in taken):
            continue
        taken.append(at)
        room -= size
        left[passages == passages[at]] -= SAME_PASSAGE_PENALTY
    return taken or ([int(np.argmax(scores))] if limit > 0 and len(scores) else [])


def _is_duplicate(found: AnswerCandidates, first: int, second: int) -> bool:
    """Whether two statements overlap in their document, or hold nearly the same words."""
    one, other = found.units[first], found.units[second]
    if one.source == other.source and one.start < other.end and other.start < one.end:
        return True
    words, others = found.unit_terms[first], found.unit_terms[second]
    return len(words & others) >= _DUPLICATE_OVERLAP * len(words | others)


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
    question: str, found: Sequence[AnswerUnit], places: NDArray[np.int64], searcher: Searcher
) -> NDArray[np.float64]:
    """Cosine of the question with each statement, alone, with the one before and with the one behind: (n, 3)."""
    if not found:
        return np.zeros((0, len(_EMBEDDING_FEATURES)))
    rows = np.asarray(searcher.embed([one.text for one in found]), np.float64)
    query = np.asarray(searcher.embed_question(question), np.float64)
    values = np.repeat((rows @ query)[:, None], 3, axis=1)
    for at in range(1, len(found)):
        if found[at].hit_index == found[at - 1].hit_index and places[at] == places[at - 1] + 1:
            both = rows[at] + rows[at - 1]
            values[at, 1] = values[at - 1, 2] = both @ query / (np.linalg.norm(both) or 1.0)
    return values


class _LexicalScorer:
    """What is known of statements without embedding them."""

    def __init__(self, question: str, asked: QuestionTerms, hits: Sequence[Hit]) -> None:
        self.units = extract_answer_units(hits)
        self.unit_terms = [frozenset(extract_terms(one.text)) for one in self.units]
        self._question, self._question_terms, self._answer_type = question, asked, detect_answer_type(question)
        self._passage_features = _passage_features(asked, hits)
        rows = [self._unit_features(at) for at in range(len(self.units))]
        self.features = np.array([[row.get(name, 0.0) for name in _LEXICAL_FEATURES] for row in rows]).reshape(
            -1, len(_LEXICAL_FEATURES)
        )

    def _unit_features(self, at: int) -> dict[str, float]:
        one, there, asked = self.units[at], self.unit_terms[at], self._question_terms
        words = asked.coverage(there)
        row = {
            **self._passage_features[one.hit_index],
            "words": words,
            "words_before": self._coverage_with_neighbour(at, at - 1) - words,
            "words_after": self._coverage_with_neighbour(at, at + 1) - words,
            "words_under": asked.coverage(there | frozenset(extract_terms(one.heading_context))) - words,
            "words_alike": asked.prefix_coverage(there),
            "names": asked.name_coverage(there),
            "noun": asked.noun_coverage(there),
            "pairs": asked.bigram_coverage(extract_terms(one.text)),
            "length": math.log(max(3, len(one.text.split()))),
            "open": float(one.text.endswith(("?", ":"))),
        }
        if self._answer_type in _ANSWER_TYPE_FEATURES:
            row[_ANSWER_TYPE_FEATURES[self._answer_type]] = float(
                contains_answer_type(self._answer_type, one.text, self._question)
            )
        return row

    def _coverage_with_neighbour(self, at: int, neighbour: int) -> float:
        """The share of the asked words in a statement and its neighbour in the passage; without one in it alone."""
        beside = 0 <= neighbour < len(self.units) and self.units[neighbour].hit_index == self.units[at].hit_index
        return self._question_terms.coverage(
            self.unit_terms[at] | self.unit_terms[neighbour] if beside else self.unit_terms[at]
        )


def _passage_features(asked: QuestionTerms, hits: Sequence[Hit]) -> list[dict[str, float]]:
    """What is known of each passage as a whole; scores as distances to the best one, 0 where there are none."""
    dense = [hit.scores.get("dense") for hit in hits]
    bm25 = [hit.scores.get("lexical", 0.0) for hit in hits]
    nearest = max((cosine for cosine in dense if cosine is not None), default=0.0)
    strongest = max(bm25, default=0.0)
    return [
        {
            "passage_meaning": cosine - nearest if cosine is not None else 0.0,
            "passage_bm25": score / strongest if strongest > 0 else 0.0,
            "passage_words": asked.coverage(frozenset(extract_terms(f"{hit.chunk.header} {hit.chunk.text}"))),
        }
        for hit, cosine, score in zip(hits, dense, bm25, strict=True)
    ]
