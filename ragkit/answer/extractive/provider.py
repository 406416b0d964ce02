"""A provider without a language model: it calls the search tool and answers with quotes from the passages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest, Provider
from ragkit.answer.base import Searchable
from ragkit.answer.extractive.composition import MAX_WORDS, AnswerPassage, compose_answer
from ragkit.answer.extractive.evidence import EVIDENCE_THRESHOLD, estimate_answer_evidence
from ragkit.answer.extractive.follow_up import rewrite_follow_up
from ragkit.answer.extractive.question_kind import split_question
from ragkit.answer.extractive.selection import rank_answer_units, with_beginnings
from ragkit.answer.extractive.small_talk import reply_to_small_talk
from ragkit.answer.extractive.spelling import correct_spelling
from ragkit.answer.outcome import NOT_IN_DOCUMENTS
from ragkit.answer.passages import TOOL_NAME, RetrievedPassages
from ragkit.records import Hit
from ragkit.usage.tokens import Tokens

_QUOTE_NUMBER = re.compile(r"\[(\d{1,4})\]$", re.MULTILINE)
ZERO_COST = Tokens(cost_usd=0.0)


@dataclass(frozen=True)
class Quote:
    """A passage of an answer and its citation number."""

    n: int
    hit: Hit
    passage: AnswerPassage


@dataclass(frozen=True)
class ExtractiveAnswer:
    """The quotes that an answer consists of: the data of its message."""

    quotes: tuple[Quote, ...]
    abstained: bool
    query: str = ""
    """The question as searched: completed by the previous one, its spelling corrected; '' if nothing was searched."""
    evidence: float = 0.0
    """Estimated probability that the quotes answer the question, or its best answered part, in [0, 1]."""


class ExtractiveProvider(Provider):
    """Answers with the best passages, each with its citation; abstains if there are none.

    A question of two parts ("Who wrote X, and when?") is searched and answered part by part. A question that refers to
    the previous one is completed, and misspelled words are corrected. Greetings and thanks are answered without a
    search.
    """

    name = "extractive"
    default_model = "extractive"

    def __init__(self, documents: Searchable, *, threshold: float = EVIDENCE_THRESHOLD) -> None:
        """Abstain if the estimated probability of an answer is below `threshold`."""
        self._documents = documents
        self._threshold = threshold

    def complete(self, request: ModelRequest) -> Completion:
        """A tool call for each part of a question; an answer after the tool results."""
        last = request.messages[-1]
        if last.role is Role.TOOL:
            results = list(takewhile(lambda message: message.role is Role.TOOL, reversed(request.messages)))[::-1]
            searches = [message.data for message in results if isinstance(message.data, RetrievedPassages)]
            if not searches:
                return Completion(Message.assistant(last.content), ZERO_COST)
            offset = max(searches[0].numbers_before, _last_quote_number(request.messages))
            return Completion(self._compose_answer(searches, self._to_query(request.messages), offset), ZERO_COST)
        if reply := reply_to_small_talk(last.content):
            return Completion(Message(Role.ASSISTANT, reply, data=ExtractiveAnswer((), False)), ZERO_COST)
        calls = [ToolCall(TOOL_NAME, {"query": part}) for part in split_question(self._to_query(request.messages))]
        return Completion(Message.assistant("", calls), ZERO_COST, "tool_calls")

    def _to_query(self, messages: Sequence[Message]) -> str:
        """The last question as it is searched."""
        asked = (i for i, message in enumerate(messages) if message.role is Role.USER)
        at = max(asked, default=len(messages) - 1)
        question = rewrite_follow_up(messages[at].content, _previous_query(messages[:at]))
        with self._documents.session() as searcher:
            return correct_spelling(question, searcher)

    def _compose_answer(self, searches: Sequence[RetrievedPassages], query: str, offset: int) -> Message:
        """The answer; `offset` is the last citation number of the conversation so far."""
        quotes: list[Quote] = []
        nearest: list[Quote] = []
        lines: list[str] = []
        evidence = 0.0
        for passages in searches:
            found, probability = self._answer_part(passages, offset + len(quotes), MAX_WORDS // len(searches))
            evidence = max(evidence, probability)
            if found and probability >= self._threshold:
                quotes += found
                lines += [f"{quote.passage.text} [{quote.n}]" for quote in found]
            else:
                nearest = nearest or found
                if len(searches) > 1:
                    lines.append(f"{NOT_IN_DOCUMENTS[:-1]}: {passages.query}")
        answer = ExtractiveAnswer(tuple(quotes or nearest), not quotes, query, evidence)
        return Message(Role.ASSISTANT, "\n".join(lines) if quotes else _format_abstention(nearest), data=answer)

    def _answer_part(self, passages: RetrievedPassages, offset: int, max_words: int) -> tuple[list[Quote], float]:
        """The quotes that answer one part of a question, and the probability that they do."""
        with self._documents.session() as searcher:
            hits = with_beginnings(passages.query, passages.hits, searcher)
            ranked, units = rank_answer_units(passages.query, hits, searcher)
            composed = compose_answer(passages.query, ranked, units, max_words)
            quotes = [Quote(n, hits[item.hit_index], item) for n, item in enumerate(composed, start=offset + 1)]
            return quotes, estimate_answer_evidence(passages.query, hits, ranked, units, searcher)


def _last_quote_number(messages: Sequence[Message]) -> int:
    """The last number with which earlier answers have marked a quote, at the end of a line; 0 if there is none."""
    texts = (message.content for message in messages if message.role is Role.ASSISTANT)
    return max((int(n) for text in texts if "]" in text for n in _QUOTE_NUMBER.findall(text)), default=0)


def _previous_query(messages: Sequence[Message]) -> str:
    """The last query of these turns, or their last question that is no small talk; '' if there is none."""
    for message in reversed(messages):
        for call in reversed(message.tool_calls):
            if call.name == TOOL_NAME and isinstance(query := call.arguments.get("query"), str):
                return query
        if message.role is Role.USER and reply_to_small_talk(message.content) is None:
            return message.content
    return ""


def _format_abstention(quotes: Sequence[Quote]) -> str:
    marks = " ".join(f"[{quote.n}]" for quote in quotes)
    return f"{NOT_IN_DOCUMENTS} The nearest passages: {marks}" if marks else NOT_IN_DOCUMENTS
