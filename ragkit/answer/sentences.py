"""The sentences of some passages that answer a question best, without a language model.

Every statement of the passages gets a score: the weighted sum of what is known of it (`WEIGHTS`). The best are taken
one by one, those of further passages by preference, none twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ragkit.answer.base import Searcher
from ragkit.answer.questions import Kind, holds, kind_of
from ragkit.answer.statements import Statement, statements
from ragkit.answer.words import AskedWords
from ragkit.records import Hit
from ragkit.retrieve.terms import terms

PASSAGES = 8
"""Passages that sentences are taken from."""
EMBEDDED = 32
"""Statements that are embedded: the best ones by their words. Embedding is what costs time."""

WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "meaning": 3.9,
        "meaning_before": 3.4,
        "meaning_after": 2.0,
        "passage_meaning": 9.8,
        "passage_words": 2.9,
        "passage_bm25": 1.9,
        "words": 6.0,
        "words_before": 2.7,
        "words_after": 1.1,
        "words_under": 2.8,
        "words_alike": 4.5,
        "names": -0.9,
        "noun": 0.9,
        "pairs": 1.5,
        "date": 2.5,
        "number": 1.1,
        "person": 1.2,
        "place": 2.1,
        "name": 0.6,
        "length": 0.4,
        "question": -3.0,
    }
)
"""What each thing that is known of a statement counts. All but the last were fitted."""
ANOTHER_SENTENCE = 0.8
"""What each further sentence of a statement costs: an answer has room for few."""
SAME_PASSAGE = 0.5
"""What each sentence that was taken from a passage costs the others of it."""
_ALIKE = 0.9  # share of the terms: statements that have more in common say the same


@dataclass(frozen=True)
class Sentence(Statement):
    """A statement that was chosen."""

    score: float = 0.0
    """What it was chosen by: comparable within one question only."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """The statements of some passages and what is known of each."""

    statements: list[Statement]
    values: NDArray[np.float64]
    """(len(statements), len(WEIGHTS)): one column for each weight, in their order."""
    terms: list[frozenset[str]]


def best_sentences(question: str, hits: Sequence[Hit], searcher: Searcher, limit: int = 3) -> list[Sentence]:
    """The statements of the best passages that answer a question best, best first.

    They have `limit` sentences at most, taken together; what two passages say in the same words comes once.
    """
    found = candidates(question, hits, searcher)
    scores = found.values @ np.array(list(WEIGHTS.values()))
    return [
        Sentence(one.hit, one.start, one.end, one.text, one.under, one.sentences, score=float(scores[at]))
        for at in chosen(found, scores, limit)
        for one in [found.statements[at]]
    ]
