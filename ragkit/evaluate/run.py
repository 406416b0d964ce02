"""Runs the questions through a system that searches and answers, and computes the metrics of each question."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ragkit.errors import RagkitError
from ragkit.evaluate.answer_matching import first_statement, holds_answer, strip_citation_marks
from ragkit.evaluate.metrics import RANKING_METRICS, contains_answer, exact_match, token_f1
from ragkit.evaluate.questions import Question
from ragkit.records import JSON, Citation, Hit
from ragkit.usage.meter import AgentUsage

MAX_EXCERPT_CHARS = 200
"""Characters of a hit in a report."""
READER_METRICS = ("right", "first_sentence", "cited", "answered", "abstention_recall")
"""What a person sees of an answer, 1 or 0 for each question.

`right`: it holds every part of the expected answer. `first_sentence`: so does its first sentence or first list.
`cited`: it cites a file that answers the question. `answered`: an answerable question is not refused.
`abstention_recall`: a question without an answer is refused. A refusal and an error are neither right nor cited.
"""


class EvaluatedAnswer(Protocol):
    """The fields of an answer that are evaluated."""

    @property
    def text(self) -> str:
        """The text with citation marks."""

    @property
    def citations(self) -> Sequence[Citation]:
        """The cited places."""

    @property
    def abstained(self) -> bool:
        """Whether it says that the documents do not answer the question."""

    @property
    def evidence(self) -> float:
        """Estimated probability that the documents answer the question, in [0, 1]."""

    @property
    def usage(self) -> AgentUsage:
        """Tokens and cost."""


@dataclass(frozen=True, slots=True)
class EvaluatedSystem:
    """The functions of the system to evaluate."""

    search: Callable[[str, int], Sequence[Hit]]
    """(question, number of chunks) -> hits, best first."""
    ask: Callable[[str], EvaluatedAnswer] | None = None
    """None: only retrieval is evaluated."""
    display_name: Callable[[str], str] = str
    """Maps a source to its name in reports, which is matched with the sources of questions."""
    passage_text: Callable[[Citation], str] = lambda citation: citation.quote
    """Returns the whole passage of a citation."""


@dataclass(frozen=True, slots=True)
class ReportedHit:
    """A hit or a citation in a report."""

    source: str
    line: int
    text: str
    score: float
    right: bool
    """Whether its file answers the question."""
    verified: bool = True


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """The result of one question."""

    question: Question
    ranking: tuple[str, ...]
    """Files by the rank of their best chunk. Files that answer the question have the name from the question."""
    metrics: Mapping[str, float]
    """The metrics that are defined for this question."""
    hits: tuple[ReportedHit, ...]
    answer: str | None = None
    abstained: bool = False
    evidence: float = 0.0
    citations: tuple[ReportedHit, ...] = ()
    search_ms: float = 0.0
    ask_ms: float = 0.0
    cost_usd: float | None = 0.0
    error: str = ""
    """The error message if the answer failed."""
    contexts: tuple[str, ...] = field(default=(), repr=False)
    """The cited passages in full, ordered by citation number: the input of a judge."""
    judgement: Mapping[str, JSON] | None = field(default=None, repr=False)
    """The output of a judge: statements with their supporting passages; None without a judge."""


@dataclass(frozen=True, slots=True)
class Depths:
    """The depths of the ranking."""

    k: int = 10
    """Number of files that the metrics @k consider."""
    max_chunks: int = 50
    """Number of chunks to retrieve, so that they cover k files."""


def evaluate_questions(
    system: EvaluatedSystem, questions: Sequence[Question], depths: Depths | None = None
) -> Iterator[QuestionResult]:
    """One result per question, in order. If an answer fails, the result has the error."""
    depths = depths or Depths()
    for question in questions:
        yield _evaluate_question(system, question, depths)


def _evaluate_question(system: EvaluatedSystem, question: Question, depths: Depths) -> QuestionResult:
    started_at = time.perf_counter()
    hits = system.search(question.text, depths.max_chunks)
    search_ms = 1000 * (time.perf_counter() - started_at)
    names = [system.display_name(hit.chunk.source) for hit in hits]
    ranking = tuple(dict.fromkeys(match_source_name(name, question.sources) for name in names))
    metrics: dict[str, float] = {}
    if question.sources and question.answerable:
        for name, metric in RANKING_METRICS.items():
            metrics[f"{name}@{depths.k}"] = metric(ranking, question.sources, depths.k)
    reported = tuple(
        ReportedHit(name, c.start_line, c.text[:MAX_EXCERPT_CHARS], hit.score, _is_right(name, question))
        for name, hit, c in list(zip(names, hits, [hit.chunk for hit in hits], strict=True))[: depths.k]
    )
    result = QuestionResult(question, ranking, metrics, reported, search_ms=search_ms)
    return result if system.ask is None else _evaluate_answer(system, system.ask, result)


def _evaluate_answer(
    system: EvaluatedSystem, ask: Callable[[str], EvaluatedAnswer], result: QuestionResult
) -> QuestionResult:
    question, display_name = result.question, system.display_name
    started_at = time.perf_counter()
    try:
        answer = ask(question.text)
    except RagkitError as error:
        metrics = {**result.metrics, **dict.fromkeys(_reader_metrics(question, None, ()), 0.0)}
        return replace(result, metrics=metrics, error=str(error), ask_ms=1000 * (time.perf_counter() - started_at))
    ask_ms = 1000 * (time.perf_counter() - started_at)
    named = [(display_name(citation.source), citation) for citation in answer.citations]
    citations = tuple(
        ReportedHit(name, c.start_line, c.quote, c.score, _is_right(name, question), c.verified and not c.stale)
        for name, c in named
    )
    return replace(
        result,
        metrics={**result.metrics, **_answer_metrics(question, answer, citations)},
        answer=answer.text,
        abstained=answer.abstained,
        evidence=answer.evidence,
        citations=citations,
        ask_ms=ask_ms,
        cost_usd=answer.usage.total_cost_usd,
        contexts=tuple(system.passage_text(citation) for citation in answer.citations),
    )


def _answer_metrics(question: Question, answer: EvaluatedAnswer, citations: Sequence[ReportedHit]) -> dict[str, float]:
    """The metrics of one answer. An abstention counts as wrong and has no citation precision."""
    metrics = _reader_metrics(question, answer, citations)
    if citations:
        metrics["quotes_verified"] = sum(citation.verified for citation in citations) / len(citations)
    if not question.answerable:
        return metrics
    if question.answers and not question.further_answers:
        # citation numbers are not part of the answer
        text = "" if answer.abstained else strip_citation_marks(answer.text)
        metrics["answer_contained"] = contains_answer(text, question.answers)
        metrics["exact_match"] = exact_match(text, question.answers)
        metrics["token_f1"] = token_f1(text, question.answers)
    if question.sources and not answer.abstained:
        cited = {match_source_name(citation.source, question.sources) for citation in citations}
        if citations:
            metrics["citation_precision"] = sum(citation.right for citation in citations) / len(citations)
        metrics["citation_recall"] = len(cited & set(question.sources)) / len(question.sources)
    elif question.sources:
        metrics["citation_recall"] = 0.0
    return metrics


def _reader_metrics(
    question: Question, answer: EvaluatedAnswer | None, citations: Sequence[ReportedHit]
) -> dict[str, float]:
    """READER_METRICS, as far as they are defined for the question. `answer` is None after an error."""
    if not question.answerable:
        return {"abstention_recall": float(answer is not None and answer.abstained)}
    text = "" if answer is None or answer.abstained else answer.text
    metrics = {}
    if parts := question.answer_parts:
        metrics["right"] = float(holds_answer(parts, text))
        if question.first:
            metrics["first_sentence"] = float(holds_answer(parts, first_statement(text)))
    if question.sources:
        metrics["cited"] = float(bool(text) and any(citation.right for citation in citations))
    metrics["answered"] = float(answer is not None and not answer.abstained)
    return metrics


def _is_right(name: str, question: Question) -> bool:
    return match_source_name(name, question.sources) in question.sources


def match_source_name(source: str, names: Mapping[str, int]) -> str:
    """The longest of `names` that the path ends with, or the path itself if there is none."""
    ends = [name for name in names if source == name or source.endswith("/" + name)]
    return max(ends, key=len) if ends else source
