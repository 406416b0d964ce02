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

from ragkit.answer.base import Searcher
from ragkit.answer.questions import Kind, holds, kind_of
from ragkit.answer.statements import Statement, statements
from ragkit.answer.words import AskedWords
from ragkit.records import Hit
from ragkit.retrieve.terms import terms

PASSAGES = 8
"""Passages that sentences are taken from."""
EMBEDDED = 24
"""Statements that are embedded: the best ones by their words. Embedding is what costs time."""

WEIGHTS: Mapping[str, float] = MappingProxyType(
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
ANOTHER_SENTENCE = 0.8
"""What each further sentence of a statement costs, since an answer has room for few."""
SAME_PASSAGE = 0.35
"""What each statement that was taken costs the others of its passage: when it is the wrong one, so are they."""
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

    They have `limit` sentences at most, taken together, unless every statement alone has more: then it is the best
    one. What two passages say in the same words comes once. Empty without passages.
    """
    found = candidates(question, hits, searcher)
    scores = found.values @ np.array(list(WEIGHTS.values()))
    return [
        Sentence(one.hit, one.source, one.start, one.end, one.text, one.under, one.sentences, float(scores[at]))
        for at in chosen(found, scores, limit)
        for one in [found.statements[at]]
    ]


def candidates(question: str, hits: Sequence[Hit], searcher: Searcher) -> Candidates:
    """The statements of the best passages that are worth a look, with everything that is known of them."""
    asked = AskedWords(question, searcher)
    known = _Known(question, asked, hits[:PASSAGES])
    by_words = known.values @ np.array([WEIGHTS[name] for name in _BY_WORDS])
    kept = np.sort(np.argsort(-by_words, kind="stable")[:EMBEDDED])
    found = [known.statements[at] for at in kept]
    meanings = _meanings(question, found, kept, searcher)
    values = np.hstack([meanings, known.values[kept]])  # in the order of WEIGHTS: it begins with the meanings
    return Candidates(found, values, [known.terms[at] for at in kept])


def chosen(found: Candidates, scores: NDArray[np.float64], limit: int) -> list[int]:
    """Places of the statements that make up the best answer of at most `limit` sentences, best first."""
    left = scores - ANOTHER_SENTENCE * np.array([one.sentences - 1 for one in found.statements])
    passages = np.array([one.hit for one in found.statements])
    taken: list[int] = []
    room = limit
    for _ in range(len(left)):
        at = int(np.argmax(left))
        left[at] = -math.inf
        size = found.statements[at].sentences
        if size > room or any(_same(found, at, one) for one in taken):
            continue
        taken.append(at)
        room -= size
        left[passages == passages[at]] -= SAME_PASSAGE
    return taken or ([int(np.argmax(scores))] if limit > 0 and len(scores) else [])


def _same(found: Candidates, first: int, second: int) -> bool:
    """Whether two statements overlap in their document, or hold nearly the same words."""
    one, other = found.statements[first], found.statements[second]
    if one.source == other.source and one.start < other.end and other.start < one.end:
        return True
    words, others = found.terms[first], found.terms[second]
    return len(words & others) >= _ALIKE * len(words | others)


_BY_MEANING = ("meaning", "meaning_before", "meaning_after")
_BY_WORDS = tuple(name for name in WEIGHTS if name not in _BY_MEANING)
_KINDS = {
    Kind.DATE: "date",
    Kind.NUMBER: "number",
    Kind.PERSON: "person",
    Kind.PLACE: "place",
    Kind.NAME: "name",
}


def _meanings(
    question: str, found: Sequence[Statement], places: NDArray[np.int64], searcher: Searcher
) -> NDArray[np.float64]:
    """Cosine of the question with each statement, alone, with the one before and with the one behind: (n, 3)."""
    if not found:
        return np.zeros((0, len(_BY_MEANING)))
    rows = np.asarray(searcher.embed([one.text for one in found]), np.float64)
    query = np.asarray(searcher.embed_question(question), np.float64)
    values = np.repeat((rows @ query)[:, None], 3, axis=1)
    for at in range(1, len(found)):
        if found[at].hit == found[at - 1].hit and places[at] == places[at - 1] + 1:
            both = rows[at] + rows[at - 1]
            values[at, 1] = values[at - 1, 2] = both @ query / (np.linalg.norm(both) or 1.0)
    return values


class _Known:
    """What is known of statements without embedding them."""

    def __init__(self, question: str, asked: AskedWords, hits: Sequence[Hit]) -> None:
        self.statements = statements(hits)
        self.terms = [frozenset(terms(one.text)) for one in self.statements]
        self._question, self._asked, self._kind = question, asked, kind_of(question)
        self._passages = _passages(asked, hits)
        rows = [self._row(at) for at in range(len(self.statements))]
        self.values = np.array([[row.get(name, 0.0) for name in _BY_WORDS] for row in rows]).reshape(-1, len(_BY_WORDS))

    def _row(self, at: int) -> dict[str, float]:
        one, there, asked = self.statements[at], self.terms[at], self._asked
        words = asked.share(there)
        row = {
            **self._passages[one.hit],
            "words": words,
            "words_before": self._with_neighbour(at, at - 1) - words,
            "words_after": self._with_neighbour(at, at + 1) - words,
            "words_under": asked.share(there | frozenset(terms(one.under))) - words,
            "words_alike": asked.share_alike(there),
            "names": asked.share_of_names(there),
            "noun": asked.share_of_noun(there),
            "pairs": asked.share_of_pairs(terms(one.text)),
            "length": math.log(max(3, len(one.text.split()))),
            "open": float(one.text.endswith(("?", ":"))),
        }
        if self._kind in _KINDS:
            row[_KINDS[self._kind]] = float(holds(self._kind, one.text, self._question))
        return row

    def _with_neighbour(self, at: int, neighbour: int) -> float:
        """The share of the asked words in a statement and its neighbour in the passage; without one in it alone."""
        beside = 0 <= neighbour < len(self.statements) and self.statements[neighbour].hit == self.statements[at].hit
        return self._asked.share(self.terms[at] | self.terms[neighbour] if beside else self.terms[at])


def _passages(asked: AskedWords, hits: Sequence[Hit]) -> list[dict[str, float]]:
    """What is known of each passage as a whole; scores as distances to the best one, 0 where there are none."""
    dense = [hit.scores.get("dense") for hit in hits]
    bm25 = [hit.scores.get("lexical", 0.0) for hit in hits]
    nearest = max((cosine for cosine in dense if cosine is not None), default=0.0)
    strongest = max(bm25, default=0.0)
    return [
        {
            "passage_meaning": cosine - nearest if cosine is not None else 0.0,
            "passage_bm25": score / strongest if strongest > 0 else 0.0,
            "passage_words": asked.share(frozenset(terms(f"{hit.chunk.header} {hit.chunk.text}"))),
        }
        for hit, cosine, score in zip(hits, dense, bm25, strict=True)
    ]
