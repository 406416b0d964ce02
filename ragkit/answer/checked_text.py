"""The text of a model's answer, held against the passages that the model was shown: citations, statements, outcome."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragkit.agent.loop.definition import AgentDefinition
from ragkit.agent.loop.loop import MAX_ITERATIONS_TEXT
from ragkit.agent.messages import BY_RAGKIT, Message, Role
from ragkit.agent.result import AgentResult
from ragkit.agent.tracing.trace import StepType
from ragkit.answer.answer_text import clean_answer, passage_texts
from ragkit.answer.base import Searcher, Statement, Support
from ragkit.answer.citations import parse_citation_numbers, resolve_citations
from ragkit.answer.extractive.answer import FoundPassages, cite_quotes, compose_quotes, searched_for
from ragkit.answer.extractive.quotes import ExtractiveAnswer
from ragkit.answer.outcome import (
    NOT_IN_DOCUMENTS,
    AnswerFacts,
    Outcome,
    abstains_within,
    build_notices,
    find_no_answer,
    find_outcome,
    place_lines,
    repeats_answer,
    says_not_found,
)
from ragkit.answer.passages import RetrievedPassages
from ragkit.answer.verdicts import with_support
from ragkit.records import Citation, Hit

_WITHOUT_STATEMENTS = {Outcome.REFUSED, Outcome.EMPTY, Outcome.FILTERED}


@dataclass(frozen=True, slots=True)
class CheckedText:
    """The text of an answer, and what was found out about it."""

    text: str
    citations: tuple[Citation, ...]
    outcome: Outcome
    abstained: bool
    evidence: float
    statements: tuple[Statement, ...] = ()
    notices: tuple[str, ...] = ()
    unknown_citations: tuple[int, ...] = ()
    searched_for: str = ""


def check_text(
    agent: AgentDefinition, question: str, result: AgentResult, shown: Mapping[int, Hit], searcher: Searcher
) -> CheckedText:
    """The text of a model without what was never shown to it, its citations and its outcome.

    Args:
        agent: has answered; with a `response_format` the text is data for a program, and gets no citations.
        question: the question.
        result: of the run.
        shown: the passages that the model was shown, by citation number.
        searcher: quotes and verifies.
    """
    from ragkit.answer.support.attribution import Attribution, attribute  # noqa: PLC0415 - a model answered
    from ragkit.answer.support.statements import is_only_on_the_search  # noqa: PLC0415
    from ragkit.answer.support.support import check_statements  # noqa: PLC0415

    used_up = result.stop_reason in {"max_iterations", "loop"}
    searches = find_searches(result)
    asked = _first_query(result, question) or question  # a follow-up with what it refers to
    numbers = None if agent.config.response_format is not None else shown
    blocks = [block for search in searches for block in search.blocks.values()]
    known = [question, *passage_texts(shown.values())]
    text, unknown = clean_answer(result.content, known, numbers, place_lines(blocks))
    text = NOT_IN_DOCUMENTS if numbers is not None and abstains_within(result.content) else text
    no_mark = bool(searches) and all(search.are_extracts for search in searches)  # it was told no words to abstain with
    not_there = no_mark and numbers is not None and is_only_on_the_search(result.content)
    abstained = not_there or says_not_found(result.content, question)
    no_answer = find_no_answer(result.content, agent.system_prompt, blocks) if numbers is not None else ""
    attributed = Attribution(text, ())
    reason = _last_stop_reason(result) if used_up else result.stop_reason
    if numbers is not None and not abstained and not no_answer and reason not in ("refusal", "content_filter"):
        attributed = attribute(text, check_statements(text, shown, searcher, asked))
    added = attributed.added.difference(parse_citation_numbers(text))
    citations = tuple(resolve_citations(attributed.text, shown, searcher, added))
    is_supported = attributed.added and all(s.support is Support.SUPPORTED for s in attributed.statements)
    said = attributed.text if is_supported else result.content
    facts = AnswerFacts(
        text="" if result.content == MAX_ITERATIONS_TEXT else said,
        stop_reason=reason,
        question=question,
        searched=bool(searches),
        cited=bool(citations),
        unknown_citations=unknown,
        iterations=result.iterations,
        no_answer=no_answer,
        used_up=used_up,
        not_there=not_there,
    )
    outcome = find_outcome(facts)
    if outcome is Outcome.EMPTY and no_mark and numbers is not None and reason != "length":
        sent = f"{no_answer}, no answer" if no_answer else "an empty answer"
        return _quote_instead(question, result, searches, searcher, sent)
    if no_mark and numbers is not None and not abstained and repeats_answer(text, _earlier_answers(result, question)):
        quoted = _quote_instead(question, result, searches, searcher, "its answer to an earlier question")
        if not quoted.abstained:
            return quoted
    evidence = max((search.evidence or 0.0 for search in searches), default=0.0)
    if outcome is Outcome.UNCITED and _is_unsupported(result, searches, attributed.statements, asked):
        return CheckedText(
            NOT_IN_DOCUMENTS,
            (),
            Outcome.NOT_IN_DOCUMENTS,
            abstained=True,
            evidence=evidence,
            notices=(f"no passage supports the answer of the model, which is left out: {_shorten(attributed.text)}",),
            unknown_citations=tuple(unknown),
            searched_for=_first_query(result, question),
        )
    return CheckedText(
        attributed.text,
        with_support(citations, attributed.statements),
        outcome,
        abstained,
        evidence,
        () if outcome in _WITHOUT_STATEMENTS else attributed.statements,
        (*build_notices(outcome, facts), *attributed.notices),
        tuple(unknown),
        _first_query(result, question),
    )


def _quote_instead(
    question: str, result: AgentResult, searches: Sequence[RetrievedPassages], searcher: Searcher, sent: str
) -> CheckedText:
    """The answer without a model, from the same passages, in place of what a small model sent."""
    query = _first_query(result, question) or question
    found = [FoundPassages(search.query, search.hits) for search in searches if search.hits]
    text, quoted = compose_quotes(found, query, searcher, searches[0].numbers_before)
    return replace(
        quoted_text(question, text, quoted, searcher),
        notices=(f"the model sent {sent}: this is the answer without a model",),
    )


def _earlier_answers(result: AgentResult, question: str) -> list[str]:
    """The answers of the conversation before a question; none if it was asked before, and may be answered as then."""
    earlier = result.messages[: result.new_messages_start]
    if any(message.role is Role.USER and _words(message.content) == _words(question) for message in earlier):
        return []
    return [message.content for message in earlier if message.role is Role.ASSISTANT and message.content]


def quoted_text(question: str, text: str, quoted: ExtractiveAnswer, searcher: Searcher) -> CheckedText:
    """The text of an answer without a model: quoted from the documents, so its links are safe."""
    citations, statements = cite_quotes(quoted, searcher)
    return CheckedText(
        text,
        citations,
        quoted.outcome,
        quoted.abstained,
        quoted.evidence,
        statements=statements,
        searched_for=searched_for(quoted.query, question),
    )


def _is_unsupported(
    result: AgentResult, searches: Sequence[RetrievedPassages], statements: Sequence[Statement], question: str
) -> bool:
    """Whether a small model, which was shown extracts and has no other tool, states only what no passage supports.

    In the language of the passages: of question and answer together, a third of the words stands in them, and little of
    those in another language. What is written in another language cannot be judged by its words.
    """
    if not statements or any(statement.support is not Support.NO_CITATION for statement in statements):
        return False
    if not searches or len(searches) != len(result.tool_calls) or not all(search.are_extracts for search in searches):
        return False
    shown = set(_words(" ".join(passage_texts(hit for search in searches for hit in search.hits))))
    words = _words(f"{question} {result.content}")
    return sum(word in shown for word in words) >= _MIN_SAME_LANGUAGE * len(words)


_MIN_SAME_LANGUAGE = 0.3
"""Share of the words of question and answer that stand in passages of their language: .30 to .82 of 24 wrong answers of
two models in English over English texts, .00 to .33 of 36 German and Russian questions over them, .09 in the mean."""
_MAX_LEFT_OUT_CHARS = 300


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_LEFT_OUT_CHARS else f"{text[: _MAX_LEFT_OUT_CHARS - 3]}..."


def _first_query(result: AgentResult, question: str) -> str:
    """The question as ragkit searched it before the first request; '' if it was searched as asked, or not at all."""
    queries = (str(call.arguments.get("query", "")) for call in result.tool_calls if call.call.by == BY_RAGKIT)
    return searched_for(next(queries, question), question)


def find_searches(result: AgentResult) -> list[RetrievedPassages]:
    """What the searches of a run retrieved."""
    return [call.data for call in result.tool_calls if isinstance(call.data, RetrievedPassages)]


def hits_by_number(searches: Sequence[RetrievedPassages], messages: Sequence[Message]) -> dict[int, Hit]:
    """The hits shown to the model, in this run and in earlier turns of the conversation, by citation number."""
    earlier = [message.data for message in messages if isinstance(message.data, RetrievedPassages)]
    return {n: hit for search in (*earlier, *searches) for n, hit in zip(search.numbers, search.hits, strict=True)}


def _last_stop_reason(result: AgentResult) -> str:
    """Why the model ended the last answer, which the reason of the run hides when its iterations are used up."""
    calls = [span for span in result.trace.steps if span.type is StepType.LLM_CALL]
    return str(calls[-1].attributes.get("stop_reason") or "") if calls else ""
