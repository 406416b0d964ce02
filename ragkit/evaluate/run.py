"""Put every question to a system that searches and answers, and figure out how well it did."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ragkit.errors import RagkitError
from ragkit.evaluate.metrics import RANKING, contains, exact_match, token_f1
from ragkit.evaluate.questions import Question
from ragkit.records import JSON, Citation, Hit
from ragkit.usage.meter import AgentUsage

SHOWN = 200
"""Characters of a hit that a report shows."""


class Reply(Protocol):
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
class System:
    """What is judged."""

    search: Callable[[str, int], Sequence[Hit]]
    """(question, how many chunks) -> hits, best first."""
    ask: Callable[[str], Reply] | None = None
    """None: only retrieval is judged."""
    shown: Callable[[str], str] = str
    """A source -> the name that a report shows and that the names of questions are held against."""
    passage: Callable[[Citation], str] = lambda citation: citation.quote
    """A citation -> the whole passage that it is of."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A hit or a citation, as a report shows it."""

    source: str
    line: int
    text: str
    score: float
    right: bool
    """It is of a file that answers the question."""
    verified: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one question."""

    question: Question
    ranking: tuple[str, ...]
    """Files, best first, each where its best chunk stands; those that answer by the name that the question has."""
    figures: Mapping[str, float]
    """Every figure that is defined for this question."""
    hits: tuple[Shown, ...]
    answer: str | None = None
    abstained: bool = False
    evidence: float = 0.0
    citations: tuple[Shown, ...] = ()
    search_ms: float = 0.0
    ask_ms: float = 0.0
    cost_usd: float | None = 0.0
    error: str = ""
    """Why there is no answer."""
    contexts: tuple[str, ...] = field(default=(), repr=False)
    """The passages that the answer cites, whole, as its numbers count them: what a judge reads."""
    judged: Mapping[str, JSON] | None = field(default=None, repr=False)
    """What a judge said: statements, each with the passages that support it; None without one."""


@dataclass(frozen=True, slots=True)
class Depths:
    """How far down a ranking is looked at."""

    k: int = 10
    """Files: the figures are @k."""
    chunks: int = 50
    """Chunks that are asked for, so that k files are among them."""


def evaluate(system: System, questions: Sequence[Question], depths: Depths | None = None) -> Iterator[Outcome]:
    """One outcome per question, in order. A question whose answer fails is an outcome with its error."""
    chosen = depths or Depths()
    for question in questions:
        yield _judged(system, question, chosen)


def _judged(system: System, question: Question, depths: Depths) -> Outcome:
    began = time.perf_counter()
    hits = system.search(question.text, depths.chunks)
    search_ms = 1000 * (time.perf_counter() - began)
    names = [system.shown(hit.chunk.source) for hit in hits]
    ranking = tuple(dict.fromkeys(name_of(name, question.sources) for name in names))
    figures: dict[str, float] = {}
    if question.sources and question.answerable:
        figures |= {
            f"{name}@{depths.k}": metric(ranking, question.sources, depths.k) for name, metric in RANKING.items()
        }
    shown = tuple(
        Shown(
            name,
            hit.chunk.start_line,
            hit.chunk.text[:SHOWN],
            hit.score,
            name_of(name, question.sources) in question.sources,
        )
        for name, hit in list(zip(names, hits, strict=True))[: depths.k]
    )
    found = Outcome(question, ranking, figures, shown, search_ms=search_ms)
    return found if system.ask is None else _answered(system, system.ask, found)


def _answered(system: System, ask: Callable[[str], Reply], found: Outcome) -> Outcome:
    question, shown = found.question, system.shown
    began = time.perf_counter()
    try:
        reply = ask(question.text)
    except RagkitError as error:
        return replace(found, error=str(error), ask_ms=1000 * (time.perf_counter() - began))
    ask_ms = 1000 * (time.perf_counter() - began)
    citations = tuple(
        Shown(
            shown(one.source),
            one.start_line,
            one.quote,
            one.score,
            name_of(shown(one.source), question.sources) in question.sources,
            one.verified and not one.stale,
        )
        for one in reply.citations
    )
    return replace(
        found,
        figures={**found.figures, **_of_answer(question, reply, citations)},
        answer=reply.text,
        abstained=reply.abstained,
        evidence=reply.evidence,
        citations=citations,
        ask_ms=ask_ms,
        cost_usd=reply.usage.total_cost_usd,
        contexts=tuple(system.passage(one) for one in reply.citations),
    )


def _of_answer(question: Question, reply: Reply, citations: Sequence[Shown]) -> dict[str, float]:
    """The figures of one answer. One that was refused is a miss, and has no citations to be precise."""
    figures: dict[str, float] = {}
    if citations:
        figures["quotes_verified"] = sum(one.verified for one in citations) / len(citations)
    if not question.answerable:
        return figures
    if question.answers:
        # numbers of citations are no words of the answer
        text = "" if reply.abstained else without_marks(reply.text)
        figures["answer_contained"] = contains(text, question.answers)
        figures["exact_match"] = exact_match(text, question.answers)
        figures["token_f1"] = token_f1(text, question.answers)
    if question.sources and not reply.abstained:
        cited = {name_of(one.source, question.sources) for one in citations}
        if citations:
            figures["citation_precision"] = sum(one.right for one in citations) / len(citations)
        figures["citation_recall"] = len(cited & set(question.sources)) / len(question.sources)
    elif question.sources:
        figures["citation_recall"] = 0.0
    return figures


_MARKS = re.compile(r"\s?\[\d+(?:,\s*\d+)*\]")


def without_marks(text: str) -> str:
    """An answer without the numbers in brackets that point to its citations."""
    return _MARKS.sub("", text)


def name_of(source: str, names: Mapping[str, int]) -> str:
    """The name that a question has for a file: one of `names` that its path ends with; else the path itself."""
    ends = [name for name in names if source == name or source.endswith("/" + name)]
    return max(ends, key=len) if ends else source
