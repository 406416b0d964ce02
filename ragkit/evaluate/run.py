"""Put every question to a system that searches and answers, and figure out how well it did."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ragkit.errors import RagkitError
from ragkit.evaluate.metrics import RANKING_METRICS, contains_answer, exact_match, token_f1
from ragkit.evaluate.questions import Question
from ragkit.records import JSON, Citation, Hit
from ragkit.usage.meter import AgentUsage

MAX_EXCERPT_CHARS = 200
"""Characters of a hit that a report shows."""


class EvaluatedAnswer(Protocol):
    """An answer, as far as it is judged."""

    @property
    def text(self) -> str:
        """What the reader sees."""

    @property
    def citations(self) -> Sequence[Citation]:
        """What it leans on."""

    @property
    def abstained(self) -> bool:
        """Whether it says that the documents do not answer."""

    @property
    def evidence(self) -> float:
        """How well the documents support it, in [0, 1]."""

    @property
    def usage(self) -> AgentUsage:
        """What it cost."""


@dataclass(frozen=True, slots=True)
class EvaluatedSystem:
    """What is judged."""

    search: Callable[[str, int], Sequence[Hit]]
    """(question, how many chunks) -> hits, best first."""
    ask: Callable[[str], EvaluatedAnswer] | None = None
    """None: only retrieval is judged."""
    display_name: Callable[[str], str] = str
    """A source -> the name that a report shows and that the names of questions are held against."""
    passage_text: Callable[[Citation], str] = lambda citation: citation.quote
    """A citation -> the whole passage that it is of."""


@dataclass(frozen=True, slots=True)
class ReportedHit:
    """A hit or a citation, as a report shows it."""

    source: str
    line: int
    text: str
    score: float
    right: bool
    """It is of a file that answers the question."""
    verified: bool = True


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """What became of one question."""

    question: Question
    ranking: tuple[str, ...]
    """Files, best first, each where its best chunk stands; those that answer by the name that the question has."""
    metrics: Mapping[str, float]
    """Every figure that is defined for this question."""
    hits: tuple[ReportedHit, ...]
    answer: str | None = None
    abstained: bool = False
    evidence: float = 0.0
    citations: tuple[ReportedHit, ...] = ()
    search_ms: float = 0.0
    ask_ms: float = 0.0
    cost_usd: float | None = 0.0
    error: str = ""
    """Why there is no answer."""
    contexts: tuple[str, ...] = field(default=(), repr=False)
    """The passages that the answer cites, whole, as its numbers count them: what a judge reads."""
    judgement: Mapping[str, JSON] | None = field(default=None, repr=False)
    """What a judge said: statements, each with the passages that support it; None without one."""


@dataclass(frozen=True, slots=True)
class Depths:
    """How far down a ranking is looked at."""

    k: int = 10
    """Files: the figures are @k."""
    max_chunks: int = 50
    """Chunks that are asked for, so that k files are among them."""


def evaluate_questions(
    system: EvaluatedSystem, questions: Sequence[Question], depths: Depths | None = None
) -> Iterator[QuestionResult]:
    """One outcome per question, in order. A question whose answer fails is an outcome with its error."""
    chosen = depths or Depths()
    for question in questions:
        yield _evaluate_question(system, question, chosen)


def _evaluate_question(system: EvaluatedSystem, question: Question, depths: Depths) -> QuestionResult:
    began = time.perf_counter()
    hits = system.search(question.text, depths.max_chunks)
    search_ms = 1000 * (time.perf_counter() - began)
    names = [system.display_name(hit.chunk.source) for hit in hits]
    ranking = tuple(dict.fromkeys(match_source_name(name, question.sources) for name in names))
    figures: dict[str, float] = {}
    if question.sources and question.answerable:
        figures |= {
            f"{name}@{depths.k}": metric(ranking, question.sources, depths.k)
            for name, metric in RANKING_METRICS.items()
        }
    shown = tuple(
        ReportedHit(
            name,
            hit.chunk.start_line,
            hit.chunk.text[:MAX_EXCERPT_CHARS],
            hit.score,
            match_source_name(name, question.sources) in question.sources,
        )
        for name, hit in list(zip(names, hits, strict=True))[: depths.k]
    )
    found = QuestionResult(question, ranking, figures, shown, search_ms=search_ms)
    return found if system.ask is None else _evaluate_answer(system, system.ask, found)


def _evaluate_answer(
    system: EvaluatedSystem, ask: Callable[[str], EvaluatedAnswer], found: QuestionResult
) -> QuestionResult:
    question, shown = found.question, system.display_name
    began = time.perf_counter()
    try:
        reply = ask(question.text)
    except RagkitError as error:
        return replace(found, error=str(error), ask_ms=1000 * (time.perf_counter() - began))
    ask_ms = 1000 * (time.perf_counter() - began)
    citations = tuple(
        ReportedHit(
            shown(one.source),
            one.start_line,
            one.quote,
            one.score,
            match_source_name(shown(one.source), question.sources) in question.sources,
            one.verified and not one.stale,
        )
        for one in reply.citations
    )
    return replace(
        found,
        metrics={**found.metrics, **_answer_metrics(question, reply, citations)},
        answer=reply.text,
        abstained=reply.abstained,
        evidence=reply.evidence,
        citations=citations,
        ask_ms=ask_ms,
        cost_usd=reply.usage.total_cost_usd,
        contexts=tuple(system.passage_text(one) for one in reply.citations),
    )


def _answer_metrics(question: Question, reply: EvaluatedAnswer, citations: Sequence[ReportedHit]) -> dict[str, float]:
    """The figures of one answer. One that was refused is a miss, and has no citations to be precise."""
    figures: dict[str, float] = {}
    if citations:
        figures["quotes_verified"] = sum(one.verified for one in citations) / len(citations)
    if not question.answerable:
        return figures
    if question.answers:
        # numbers of citations are no words of the answer
        text = "" if reply.abstained else strip_citation_marks(reply.text)
        figures["answer_contained"] = contains_answer(text, question.answers)
        figures["exact_match"] = exact_match(text, question.answers)
        figures["token_f1"] = token_f1(text, question.answers)
    if question.sources and not reply.abstained:
        cited = {match_source_name(one.source, question.sources) for one in citations}
        if citations:
            figures["citation_precision"] = sum(one.right for one in citations) / len(citations)
        figures["citation_recall"] = len(cited & set(question.sources)) / len(question.sources)
    elif question.sources:
        figures["citation_recall"] = 0.0
    return figures


_CITATION_MARKS = re.compile(r"\s?\[\d+(?:,\s*\d+)*\]")


def strip_citation_marks(text: str) -> str:
    """An answer without the numbers in brackets that point to its citations."""
    return _CITATION_MARKS.sub("", text)


def match_source_name(source: str, names: Mapping[str, int]) -> str:
    """The name that a question has for a file: one of `names` that its path ends with; else the path itself."""
    ends = [name for name in names if source == name or source.endswith("/" + name)]
    return max(ends, key=len) if ends else source
