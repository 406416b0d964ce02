"""The sentences of some passages that answer a question best, without a language model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragkit.answer.base import Searcher
from ragkit.answer.evidence import coverages
from ragkit.records import Hit
from ragkit.split.sentences import sentence_spans

PASSAGES = 5
"""Passages that sentences are taken from."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of a hit's chunk. `start` and `end` are offsets into the document."""

    hit: int
    """Place of its hit in the list that was searched, from 0."""
    start: int
    end: int
    text: str
    score: float = 0.0


def best_sentences(question: str, hits: Sequence[Hit], searcher: Searcher, limit: int = 3) -> list[Sentence]:
    """Up to `limit` sentences of the best passages, best first; none stands twice, whatever chunks overlap."""
    found = _sentences(hits[:PASSAGES])
    if not found:
        return []
    rows = searcher.embed([sentence.text for sentence in found])
    query = searcher.embed_question(question)
    cosines = rows @ query
    shares = np.array(coverages(question, [sentence.text for sentence in found], searcher))
    bonus = np.array([_type_bonus(question, sentence.text) for sentence in found])
    place = np.array([sentence.hit for sentence in found])
    scores = cosines + shares + bonus + 0.6 * _with_predecessor(found, rows, query) - 0.02 * place
    order = np.argsort(-scores, kind="stable")[:limit]
    return [Sentence(s.hit, s.start, s.end, s.text, float(scores[i])) for i in order for s in [found[i]]]


def _sentences(hits: Sequence[Hit]) -> list[Sentence]:
    found: dict[tuple[str, int], Sentence] = {}
    for number, hit in enumerate(hits):
        chunk = hit.chunk
        for start, end in sentence_spans(chunk.text):
            place = (chunk.source or chunk.document_id, chunk.start + start)
            found.setdefault(place, Sentence(number, chunk.start + start, chunk.start + end, chunk.text[start:end]))
    return list(found.values())


def _with_predecessor(
    found: Sequence[Sentence], rows: NDArray[np.float32], query: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Cosine of the question with each sentence and the one before it in its passage."""
    sums = np.array(rows, np.float64)
    for i in range(1, len(found)):
        if found[i].hit == found[i - 1].hit:
            sums[i] += rows[i - 1]
    lengths = np.linalg.norm(sums, axis=1)
    return np.asarray(sums @ query / np.where(lengths == 0, 1, lengths), np.float64)


_WHEN = re.compile(r"\b(when|what year|which year|what date|what decade|what century)\b")
_HOW_MANY = re.compile(r"\bhow (many|much|long|far|old|large|big|high|tall|deep|often)\b|percent|what (number|amount)")
_WHO = re.compile(r"\b(who|whom|whose)\b")
_DATE = re.compile(r"\b1\d{3}\b|\b20\d\d\b|centur|\b(?:january|february|march|april|may|june|july|august|september"
                   r"|october|november|december)\b")  # fmt: skip
_NUMBER = re.compile(r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|hundred|thousand|million|billion|half)\b")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+")


def _type_bonus(question: str, text: str) -> float:
    """What a sentence gains for holding the kind of thing that is asked for."""
    asked = question.lower()
    if _WHEN.search(asked):
        return 0.3 * bool(_DATE.search(text.lower()))
    if _HOW_MANY.search(asked):
        return 0.3 * bool(_NUMBER.search(text.lower()))
    if _WHO.search(asked):
        return 0.2 * bool(_NAME.search(text))
    return 0.0
