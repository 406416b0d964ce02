"""A provider without a language model: it calls the search tool and answers with quotes from the passages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest, Provider
from ragkit.answer.answer_selection import rank_answer_units, with_beginnings
from ragkit.answer.base import Searcher
from ragkit.answer.composition import AnswerPassage, compose_answer
from ragkit.answer.evidence import EVIDENCE_THRESHOLD
from ragkit.answer.follow_up import rewrite_follow_up
from ragkit.answer.outcome import NOT_IN_DOCUMENTS
from ragkit.answer.question_kind import split_question
from ragkit.answer.tool import TOOL_NAME, RetrievedPassages
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


class ExtractiveProvider(Provider):
    """Answers with the best passages, each with its citation; abstains if there are none.

    A question of two parts ("Who wrote X, and when?") is searched and answered part by part.
    """

    name = "extractive"
    default_model = "extractive"

    def __init__(self, searcher: Searcher, *, threshold: float = EVIDENCE_THRESHOLD) -> None:
        """Abstain if the estimated probability of an answer is below `threshold`."""
        self._searcher = searcher
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
            return Completion(self._compose_answer(searches, offset), ZERO_COST)
        question = rewrite_follow_up(last.content, _previous_query(request.messages))
        calls = [ToolCall(TOOL_NAME, {"query": part}) for part in split_question(question)]
        return Completion(Message.assistant("", calls), ZERO_COST, "tool_calls")

    def _compose_answer(self, searches: Sequence[RetrievedPassages], offset: int) -> Message:
        """The answer; `offset` is the last citation number of the conversation so far."""
        quotes: list[Quote] = []
        nearest: list[Quote] = []
        lines: list[str] = []
        for passages in searches:
            found = self._quotes(passages, offset + len(quotes))
            if found and passages.evidence >= self._threshold:
                quotes += found
                lines += [f"{quote.passage.text} [{quote.n}]" for quote in found]
            else:
                nearest = nearest or found
                if len(searches) > 1:
                    lines.append(f"{NOT_IN_DOCUMENTS[:-1]}: {passages.query}")
        if not quotes:
            return Message(Role.ASSISTANT, _format_abstention(nearest), data=ExtractiveAnswer(tuple(nearest), True))
        return Message(Role.ASSISTANT, "\n".join(lines), data=ExtractiveAnswer(tuple(quotes), False))

    def _quotes(self, passages: RetrievedPassages, offset: int) -> list[Quote]:
        hits = with_beginnings(passages.query, passages.hits, self._searcher)
        ranked, units = rank_answer_units(passages.query, hits, self._searcher)
        composed = compose_answer(passages.query, ranked, units)
        return [Quote(n, hits[item.hit_index], item) for n, item in enumerate(composed, start=offset + 1)]


def _last_quote_number(messages: Sequence[Message]) -> int:
    """The last number with which earlier answers have marked a quote, at the end of a line; 0 if there is none."""
    texts = (message.content for message in messages if message.role is Role.ASSISTANT)
    return max((int(n) for text in texts if "]" in text for n in _QUOTE_NUMBER.findall(text)), default=0)


def _previous_query(messages: Sequence[Message]) -> str:
    """The last query of the turns before the question, or the question of that turn; '' in the first turn."""
    for message in reversed(messages[:-1]):
        for call in reversed(message.tool_calls):
            if call.name == TOOL_NAME and isinstance(query := call.arguments.get("query"), str):
                return query
        if message.role is Role.USER:
            return message.content
    return ""


def _format_abstention(quotes: Sequence[Quote]) -> str:
    marks = " ".join(f"[{quote.n}]" for quote in quotes)
    return f"{NOT_IN_DOCUMENTS} The nearest passages: {marks}" if marks else NOT_IN_DOCUMENTS
