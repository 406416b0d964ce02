"""Explain why an answer without a model holds an expected text, or why it does not: where the text was left out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from ragkit.answer.confidence import MIN_ANSWER
from ragkit.answer.extractive.answer_confidence import estimate_confidence
from ragkit.answer.extractive.composition import MAX_CHARS, MAX_PASSAGES, AnswerPassage, compose_answer
from ragkit.answer.extractive.question_kind import split_question
from ragkit.answer.extractive.selection import (
    FEATURE_WEIGHTS,
    AnswerCandidates,
    ScoredAnswerUnit,
    build_candidates,
    rank_answer_units,
    with_beginnings,
)
from ragkit.answer.extractive.spelling import correct_spelling
from ragkit.answer.extractive.units import AnswerUnit
from ragkit.knowledge_base.diagnosis.diagnose import DiagnosisQuery
from ragkit.knowledge_base.session import Session
from ragkit.records import Hit

MAX_LOSSES = 6
"""Features that are reported, the largest differences first."""
_MIN_LOSS = 0.05  # of the score


class AnswerOutcome(StrEnum):
    """Where the expected text is, the best outcome first."""

    FIRST = "the answer begins with it"
    SHOWN = "in the answer"
    ABSTAINED = "refused: too little evidence"
    OUTRANKED = "other spans scored higher"
    DUPLICATE = "left out: it repeats a passage of the answer"
    TOO_LONG = "left out: too many characters"
    NOT_COMPARED = "not among the spans that are compared"
    NOISE = "filtered: a heading, a page number, a question or other noise"
    NOT_RETRIEVED = "not among the passages"


@dataclass(frozen=True, slots=True)
class ExpectedText:
    """The text that the answer is expected to hold: characters of a document, or words."""

    source: str
    start: int
    end: int
    """Offsets into the document; the text may be anywhere in [start:end)."""
    text: str = ""
    """The words; '' if any span in [start:end) is meant."""

    def overlaps(self, source: str, start: int, end: int) -> bool:
        """Whether a piece of a document shares characters with this one."""
        return source == self.source and start < self.end and self.start < end


@dataclass(frozen=True, slots=True)
class FeatureLoss:
    """A feature by which the expected span scores less than the chosen one."""

    name: str
    meaning: str
    """In plain words."""
    expected: float
    """Value of the expected span."""
    chosen: float
    """Value of the chosen span."""
    weight: float

    @property
    def difference(self) -> float:
        """What the feature adds to the score of the expected span, minus what it adds to the chosen one; negative."""
        return self.weight * (self.expected - self.chosen)


@dataclass(frozen=True, slots=True)
class AnswerDiagnosis:
    """What became of the expected text in the answer to one question, or to one part of it."""

    query: str
    """The question, or its part, as it was searched."""
    outcome: AnswerOutcome
    detail: str
    """The outcome with its numbers, in a sentence."""
    evidence: float
    """Estimated probability that the answer is right; below `threshold` it is a refusal."""
    threshold: float
    passage_rank: int | None
    """Rank of the passage that holds the text among those that the answer is made of, from 1."""
    passage_count: int
    span_rank: int | None = None
    """Rank of the span that holds the text among the compared spans, from 1."""
    span_count: int = 0
    span: str = ""
    """The best ranked span that holds the text."""
    span_score: float | None = None
    chosen: str = ""
    """The span that the answer begins with."""
    chosen_source: str = ""
    chosen_score: float | None = None
    losses: tuple[FeatureLoss, ...] = field(default=())


def diagnose_answer(session: Session, query: DiagnosisQuery, expected: ExpectedText) -> AnswerDiagnosis:
    """Follow an expected text through the answer to a question, as it is composed without a model.

    A question of two parts is answered part by part: the part with the best outcome is reported.
    """
    outcomes = list(AnswerOutcome)
    parts = split_question(correct_spelling(query.question, session))
    diagnoses = [_diagnose_part(session, part, query, expected, MAX_CHARS // len(parts)) for part in parts]
    return min(diagnoses, key=lambda diagnosis: outcomes.index(diagnosis.outcome))


def _diagnose_part(
    session: Session, question: str, query: DiagnosisQuery, expected: ExpectedText, max_chars: int
) -> AnswerDiagnosis:
    hits = with_beginnings(question, session.search(question, query.top_k, query.where), session)
    passage_rank = next((rank for rank, hit in enumerate(hits, 1) if _is_in_passage(expected, hit)), None)
    ranked, units = rank_answer_units(question, hits, session)
    composition = _Composition(question, ranked, units, max_chars)
    evidence = estimate_confidence(question, hits, ranked, composition.compose(ranked), session)
    diagnosis = AnswerDiagnosis(
        question, AnswerOutcome.NOT_RETRIEVED, "", evidence, MIN_ANSWER, passage_rank, len(hits)
    )
    if ranked:
        best = ranked[0]
        diagnosis = replace(
            diagnosis, chosen=best.text, chosen_source=best.source, chosen_score=best.score, span_count=len(ranked)
        )
    matching = [unit for unit in units if _is_expected(expected, unit)]
    rank = next((rank for rank, unit in enumerate(ranked, 1) if _is_expected(expected, unit)), None)
    if rank is None:
        return _explain_unranked(diagnosis, matching, hits)
    span = ranked[rank - 1]
    diagnosis = replace(diagnosis, span_rank=rank, span=span.text, span_score=span.score)
    if rank > 1:
        diagnosis = replace(diagnosis, losses=_losses(build_candidates(question, hits, session), span, ranked[0]))
    outcome, detail = _explain_span(composition, span, expected)
    if evidence < MIN_ANSWER:
        outcome, detail = AnswerOutcome.ABSTAINED, _abstention(diagnosis)
    return replace(diagnosis, outcome=outcome, detail=detail)


def _is_in_passage(expected: ExpectedText, hit: Hit) -> bool:
    chunk = hit.chunk
    return expected.overlaps(chunk.source or chunk.document_id, chunk.start, chunk.end)


def _is_expected(expected: ExpectedText, unit: AnswerUnit) -> bool:
    if not expected.text:
        return expected.overlaps(unit.source, unit.start, unit.end)
    return unit.source == expected.source and _plain(expected.text) in _plain(unit.text)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _abstention(diagnosis: AnswerDiagnosis) -> str:
    return f"refused: the evidence is {diagnosis.evidence:.2f}, below the threshold of {diagnosis.threshold:.2f}"


def _explain_unranked(
    diagnosis: AnswerDiagnosis, matching: Sequence[AnswerUnit], hits: Sequence[Hit]
) -> AnswerDiagnosis:
    """The text is in no span that was compared."""
    if diagnosis.passage_rank is None:
        detail = f"the passage is not among the {len(hits)} passages that the answer is made of"
        return replace(diagnosis, outcome=AnswerOutcome.NOT_RETRIEVED, detail=detail)
    if matching:
        count = diagnosis.span_count
        detail = f"its words and place do not put it among the {count} spans that are compared by meaning"
        return replace(diagnosis, outcome=AnswerOutcome.NOT_COMPARED, span=matching[0].text, detail=detail)
    detail = "no span holds it whole: it is a heading, a page number, a question or other noise, or crosses two spans"
    return replace(diagnosis, outcome=AnswerOutcome.NOISE, detail=detail)


@dataclass(frozen=True, slots=True)
class _Composition:
    """What an answer is composed of."""

    question: str
    ranked: Sequence[ScoredAnswerUnit]
    units: Sequence[AnswerUnit]
    max_chars: int

    def compose(self, ranked: Sequence[ScoredAnswerUnit]) -> list[AnswerPassage]:
        """The answer of these candidates."""
        return compose_answer(self.question, ranked, self.units, self.max_chars)


def _explain_span(
    composition: _Composition, span: ScoredAnswerUnit, expected: ExpectedText
) -> tuple[AnswerOutcome, str]:
    """Where the span is in the answer, or why it is not."""
    ranked, limit = composition.ranked, composition.max_chars
    best = ranked[0]
    shown = composition.compose(ranked)
    place = next((n for n, passage in enumerate(shown, 1) if _shows(passage, span, expected)), None)
    if place is not None:
        is_first = place == 1 and span.start <= best.start
        outcome = AnswerOutcome.FIRST if is_first else AnswerOutcome.SHOWN
        return outcome, f"in passage {place} of {len(shown)} of the answer"
    chars = sum(len(passage.text) for passage in shown)
    # shown beside the best span if it scored as high?
    equal = composition.compose([best, replace(span, score=best.score)])
    own_passage = next((passage for passage in equal if _shows(passage, span, expected)), None)
    if own_passage is not None:
        own = len(own_passage.text)
        if chars + own > limit and len(shown) < MAX_PASSAGES:
            return AnswerOutcome.TOO_LONG, _too_long(chars, own, limit)
        count = sum(unit.score > span.score for unit in ranked)
        detail = f"{count} spans scored higher: {span.score:.2f} against {best.score:.2f} of the chosen one"
        return AnswerOutcome.OUTRANKED, detail
    first = len(equal[0].text)
    own = sum(len(passage.text) for passage in composition.compose([span]))
    if first + own > limit:
        return AnswerOutcome.TOO_LONG, _too_long(first, own, limit)
    return AnswerOutcome.DUPLICATE, "it says nothing that the chosen passage does not say"


def _too_long(chars: int, own: int, limit: int) -> str:
    return f"the answer has {chars} characters, and {own} more would exceed the limit of {limit}"


def _shows(passage: AnswerPassage, span: AnswerUnit, expected: ExpectedText) -> bool:
    if expected.text and passage.source == expected.source:
        return _plain(expected.text) in _plain(re.sub(r"(?m)^(?:- |    )", "", passage.text))
    return passage.source == span.source and passage.start <= span.start and span.end <= passage.end


def _losses(candidates: AnswerCandidates, span: AnswerUnit, best: AnswerUnit) -> tuple[FeatureLoss, ...]:
    """The features by which `span` scores less than `best`, the largest difference first."""
    places = {_place(candidates.units[i]): row for row, i in enumerate(candidates.kept.tolist())}
    own, other = candidates.features[places[_place(span)]], candidates.features[places[_place(best)]]
    rows = zip(FEATURE_WEIGHTS.items(), own.tolist(), other.tolist(), strict=True)
    losses = [FeatureLoss(n, FEATURE_MEANINGS.get(n, n), a, b, weight) for (n, weight), a, b in rows]
    losses = [loss for loss in losses if loss.difference < -_MIN_LOSS]
    return tuple(sorted(losses, key=lambda loss: loss.difference)[:MAX_LOSSES])


def _place(unit: AnswerUnit) -> tuple[str, int, int, str]:
    return unit.source, unit.start, unit.end, unit.kind.value


FEATURE_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "meaning": "meaning like that of the question",
        "meaning_before": "meaning, with the sentence before",
        "meaning_after": "meaning, with the sentence after",
        "passage_meaning": "meaning of its passage",
        "passage_words": "words of the question in its passage",
        "passage_bm25": "lexical score of its passage",
        "passage_rank": "rank of its passage (1 / rank)",
        "words": "words of the question",
        "words_before": "words that the sentence before adds",
        "words_after": "words that the sentence after adds",
        "words_under": "words that its headings add",
        "words_alike": "words that begin alike",
        "names": "names and numbers of the question",
        "noun": "the noun that the question asks for",
        "pairs": "neighbouring words of the question",
        "file": "words of the question in the file name",
        "heading": "its heading is in the question",
        "date": "has a date, which the question asks for",
        "number": "has a number, which the question asks for",
        "person": "has a name of a person, which the question asks for",
        "place": "has a place, which the question asks for",
        "name": "has a name, which the question asks for",
        "defines": "says what the asked term is",
        "begins": "begins with the asked term",
        "entry": "the entry of the asked term",
        "opening": "begins the document that is named after the asked term",
        "steps": "has a command or a step",
        "option": "has an option",
        "list": "lists things",
        "items": "a whole list",
        "polarity": "says yes or no",
        "digits": "has a number",
        "default": "says what the default is",
        "author": "says who made it",
        "front": "stands at the beginning of the document",
        "row": "a row of a table",
        "code": "code",
        "item": "an item of a list",
        "title": "a title or a name",
        "length": "length (logarithm of the words)",
        "open": "ends with a question mark or a colon",
        "noise": "mostly no words",
        "fragment": "begins inside a sentence",
    }
)
"""The features of spans in plain words."""
