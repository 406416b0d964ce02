"""Answers without a model, in a straight line: search, choose the best passages, quote and verify them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.tracing.trace import AgentTrace, StepType, TraceContent
from ragkit.answer.base import EXTRACTIVE, Answer, Searcher, Statement, both_filters
from ragkit.answer.citations import cite
from ragkit.answer.confidence import MIN_ANSWER
from ragkit.answer.extractive.answer_confidence import estimate_confidence
from ragkit.answer.extractive.composition import MAX_CHARS, compose_answer
from ragkit.answer.extractive.follow_up import Reference, find_reference, rewrite_follow_up
from ragkit.answer.extractive.matching_rows import complete_rows
from ragkit.answer.extractive.named_rows import find_named_rows, row_names, without_other_rows
from ragkit.answer.extractive.question_kind import split_question
from ragkit.answer.extractive.quotes import ExtractiveAnswer, LookedUp, Quote
from ragkit.answer.extractive.selection import rank_answer_units, with_beginnings
from ragkit.answer.extractive.small_talk import reply_to_small_talk
from ragkit.answer.extractive.spelling import correct_spelling
from ragkit.answer.extractive.whole import answer_whole, find_scope
from ragkit.answer.outcome import CLOSEST_PASSAGES, NOT_IN_DOCUMENTS, Outcome
from ragkit.answer.passages import TOOL_NAME, within_budget
from ragkit.answer.verdicts import quoted_statements, with_support
from ragkit.records import Citation, Hit, Where
from ragkit.usage.meter import Meter, use_meter
from ragkit.usage.tokens import Tokens

if TYPE_CHECKING:
    from ragkit.answer.extractive.whole.scope import Scope

PRONOUN_MARGIN = 0.3
"""A question with a pronoun is answered alone only if its confidence is higher by this than when it is completed."""
EVIDENCE_PASSAGES = 8
"""Passages that decide whether a question is complete."""
ZERO_COST = Tokens(cost_usd=0.0)


@dataclass(frozen=True, slots=True)
class FoundPassages:
    """What a search found for a question, or for one part of it."""

    query: str
    hits: Sequence[Hit]


@dataclass(frozen=True, slots=True)
class ExtractiveOptions:
    """How a question is answered without a model."""

    top_k: int
    """Number of passages per search."""
    where: Where = None
    """A metadata filter that applies to every search."""
    passages_budget: int = 4000
    """Tokens of the passages of one search, by estimate: the best ones are used, at least one."""


def answer_question(searcher: Searcher, question: str, options: ExtractiveOptions, meter: Meter) -> Answer:
    """Answer a question with the best passages, each with its citation; abstain if there are none.

    A question of two parts ("Who wrote X, and when?") is searched and answered part by part. Misspelled words are
    corrected. Greetings and thanks are answered without a search.

    Args:
        searcher: what is searched and quoted.
        question: natural language.
        options: how.
        meter: records what the embedder uses.

    Raises:
        KnowledgeBaseError: the documents cannot be searched.
        BudgetExceeded: the embedder costs more than the budget of the meter.
    """
    trace = AgentTrace(secrets.token_hex(16), "rag")
    searches: list[_SearchCall] = []
    reply = reply_to_small_talk(question)
    with use_meter(meter):
        if reply:
            text, quoted = reply, ExtractiveAnswer((), abstained=False)
        elif whole := answer_whole(question, searcher, options.where):
            meter.record_chat(EXTRACTIVE, EXTRACTIVE, ZERO_COST)
            text, quoted = whole.numbered()
        else:
            scope = find_scope(question, searcher, options.where)
            if scope is not None:
                options = replace(options, where=both_filters(options.where, scope.where))
            query = to_query(scope.query if scope else question, "", searcher)
            found = []
            for part in split_question(query):
                found.append(_search(searcher, part, options, meter, trace, searches))
            meter.check_budget()
            span = trace.start_span(StepType.COMPOSE)
            meter.record_chat(EXTRACTIVE, EXTRACTIVE, ZERO_COST)
            text, quoted = compose_quotes(found, query, searcher, scope=scope)
            trace.end_span(span)
        answer = _build_answer(question, text, quoted, searcher, meter, trace)
    trace.end_span(trace.root)
    messages = (Message.user(question), Message.assistant(text))
    trace.content = TraceContent(
        messages, tool_calls=searches, total_tokens=meter.total_tokens, total_cost_usd=answer.usage.total_cost_usd
    )
    return answer


def quoted_answer(question: str, found: LookedUp, searcher: Searcher, meter: Meter) -> Answer:
    """The answer that was looked up without a search, which costs nothing; its citations are verified."""
    trace = AgentTrace(secrets.token_hex(16), "rag")
    meter.record_chat(EXTRACTIVE, EXTRACTIVE, ZERO_COST)
    text, quoted = found.numbered()
    answer = _build_answer(question, text, quoted, searcher, meter, trace)
    trace.end_span(trace.root)
    return answer


def to_query(question: str, previous: str, searcher: Searcher, where: Where = None) -> str:
    """A question as it is searched: completed by the previous query if it needs that, with its spelling corrected.

    A question that may be complete is searched alone first; it is completed if the documents answer it better so.

    Args:
        question: natural language.
        previous: the query before it in the conversation; '' for none.
        searcher: what will be searched.
        where: the filter of the searches.
    """
    alone = " ".join(question.split())
    completed = rewrite_follow_up(question, previous)
    if completed == alone:
        return correct_spelling(alone, searcher)
    alone, completed = correct_spelling(alone, searcher), correct_spelling(completed, searcher)
    reference = find_reference(question)
    if reference is Reference.CERTAIN:
        return completed
    own = _estimate(alone, searcher, where)
    if reference is Reference.POSSIBLE and own >= MIN_ANSWER:
        return alone
    margin = PRONOUN_MARGIN if reference is Reference.PRONOUN else 0.0
    return alone if own >= _estimate(completed, searcher, where) + margin else completed


def _estimate(query: str, searcher: Searcher, where: Where) -> float:
    """The probability that the documents answer a query, or its best answered part."""
    found = (FoundPassages(part, searcher.search(part, EVIDENCE_PASSAGES, where)) for part in split_question(query))
    return max(_answer_part(passages, searcher, 0, MAX_CHARS, MIN_ANSWER)[1] for passages in found)


def compose_quotes(
    searches: Sequence[FoundPassages],
    query: str,
    searcher: Searcher,
    offset: int = 0,
    *,
    threshold: float = MIN_ANSWER,
    scope: Scope | None = None,
) -> tuple[str, ExtractiveAnswer]:
    """The text of an answer and its quotes.

    Args:
        searches: what was found for the question, or for each part of it.
        query: the question as it was searched.
        searcher: knows the documents of the passages.
        offset: the last citation number of the conversation so far.
        threshold: abstain if the estimated probability that the answer is right is below it.
        scope: the documents that alone were searched, as the question names them; None for all.
    """
    within = scope.name if scope else ""
    quotes: list[Quote] = []
    nearest: list[Quote] = []
    lines: list[str] = []
    confidences: list[float] = []
    for found in searches:
        part, probability = _answer_part(found, searcher, offset + len(quotes), MAX_CHARS // len(searches), threshold)
        confidences.append(probability)
        if part and probability >= threshold:
            new = [quote for quote in part if not any(_is_same_place(quote, other) for other in quotes)]
            part = [replace(quote, n=n) for n, quote in enumerate(new, start=offset + len(quotes) + 1)]
            quotes += part
            lines += [f"{quote.passage.text} [{quote.n}]" for quote in part]
        else:
            nearest = nearest or part
            if len(searches) > 1:
                lines.append(f"{f'Not in {within}' if within else NOT_IN_DOCUMENTS[:-1]}: {found.query}")
    evidence = sum(confidences) / max(1, len(confidences))
    searched = f"{query} (in {within})" if within else query  # see `Scope.of`
    quoted = ExtractiveAnswer(tuple(quotes or nearest), not quotes, searched, evidence)
    text = "\n".join(lines) if quotes else _format_abstention(quoted, within)
    return f"{text}\n\n{scope.note}" if scope and scope.note else text, quoted


def _is_same_place(quote: Quote, other: Quote) -> bool:
    """Whether two quotes overlap: what answers two parts of a question is quoted once."""
    first, second = quote.passage, other.passage
    return first.source == second.source and first.start < second.end and second.start < first.end


def cite_quotes(quoted: ExtractiveAnswer, searcher: Searcher) -> tuple[tuple[Citation, ...], tuple[Statement, ...]]:
    """The citations of the quotes, verified, and the statements that they support; no statements of an abstention."""
    citations = tuple(cite(q.n, q.hit, q.passage.start, q.passage.end, searcher) for q in quoted.quotes)
    texts = [quote.passage.text for quote in quoted.quotes]
    statements = quoted_statements(list(zip(texts, citations, strict=True)))
    return with_support(citations, statements), () if quoted.abstained else statements


def _build_answer(
    question: str, text: str, quoted: ExtractiveAnswer, searcher: Searcher, meter: Meter, trace: AgentTrace
) -> Answer:
    citations, statements = cite_quotes(quoted, searcher)
    return Answer(
        question=question,
        text=text,
        citations=citations,
        abstained=quoted.abstained,
        evidence=quoted.evidence,
        model=EXTRACTIVE,
        usage=meter.usage(),
        trace=trace,
        trace_id=trace.id,
        searched_for=searched_for(quoted.query, question),
        outcome=quoted.outcome,
        statements=statements,
    )


def searched_for(query: str, question: str) -> str:
    """`Answer.searched_for`: the query, unless it is the question itself."""
    return "" if query in (question, " ".join(question.split())) else query


@dataclass(frozen=True, slots=True)
class _SearchCall:
    """A search, as a trace shows it."""

    call: ToolCall
    content: str
    seconds: float
    error: Exception | None = None


def _search(
    searcher: Searcher,
    query: str,
    options: ExtractiveOptions,
    meter: Meter,
    trace: AgentTrace,
    searches: list[_SearchCall],
) -> FoundPassages:
    """Search for one part of a question, with a span in the trace and an entry in `searches`."""
    meter.check_budget()
    call = ToolCall(TOOL_NAME, {"query": query}, f"call_{secrets.token_hex(8)}")
    span, started = trace.start_span(StepType.TOOL, TOOL_NAME), time.perf_counter()
    span.attributes["call_id"] = call.id
    meter.record_tool_execution(TOOL_NAME)
    with use_meter(meter, tool=TOOL_NAME):
        hits = within_budget(searcher.search(query, options.top_k, options.where), options.passages_budget)
    trace.end_span(span)
    places = [f"[{n}] {hit.chunk.source}, {hit.chunk.place}" for n, hit in enumerate(hits, start=1)]
    searches.append(_SearchCall(call, "\n".join(places), time.perf_counter() - started))
    return FoundPassages(query, hits)


def _answer_part(
    found: FoundPassages, searcher: Searcher, offset: int, max_chars: int, threshold: float
) -> tuple[list[Quote], float]:
    """The quotes that answer one part of a question, and the probability that they are right."""
    hits = with_beginnings(found.query, found.hits, searcher)
    ranked, units = rank_answer_units(found.query, hits, searcher)
    if more := find_named_rows(found.query, ranked, hits, searcher):
        hits = [*hits, *more]
        ranked, units = rank_answer_units(found.query, hits, searcher)
    ranked = without_other_rows(ranked, row_names(found.query))
    composed = compose_answer(found.query, ranked, units, max_chars)
    probability = estimate_confidence(found.query, hits, ranked, composed, searcher)
    if probability >= threshold:
        composed = complete_rows(found.query, composed, units, hits, searcher)
    return [Quote(n, hits[item.hit_index], item) for n, item in enumerate(composed, start=offset + 1)], probability


def _format_abstention(quoted: ExtractiveAnswer, within: str) -> str:
    marks = " ".join(f"[{quote.n}]" for quote in quoted.quotes)
    if within and quoted.outcome is Outcome.PASSAGES:
        return f"No direct answer found in {within}. Its closest passages: {marks}"
    if within:
        return f"Not in {within}. Its nearest passages: {marks}" if marks else f"Not in {within}."
    if quoted.outcome is Outcome.PASSAGES:
        return f"{CLOSEST_PASSAGES} {marks}"
    return f"{NOT_IN_DOCUMENTS} The nearest passages: {marks}" if marks else NOT_IN_DOCUMENTS
