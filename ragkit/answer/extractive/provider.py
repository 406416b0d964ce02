"""Answers without a model as a provider, for agents: it calls the search tool, and answers from what that found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest, Provider
from ragkit.answer.base import EXTRACTIVE, Searchable, Searcher
from ragkit.answer.confidence import MIN_ANSWER
from ragkit.answer.extractive.answer import ZERO_COST, FoundPassages, compose_quotes, to_query
from ragkit.answer.extractive.question_kind import split_question
from ragkit.answer.extractive.quotes import ExtractiveAnswer, LookedUp
from ragkit.answer.extractive.small_talk import reply_to_small_talk
from ragkit.answer.extractive.whole import answer_whole, find_scope
from ragkit.answer.extractive.whole.scope import Scope
from ragkit.answer.passages import TOOL_NAME, RetrievedPassages
from ragkit.records import Where

_SCOPE = re.compile(r" \(in [^()]{1,200}\)\Z")
_QUOTE_NUMBER = re.compile(r"\[(\d{1,4})\]$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PlannedSearch:
    """What is searched for a question."""

    query: str
    scope: Scope | None = None
    """The documents that alone are searched; None for all."""

    def call(self, query: str) -> ToolCall:
        """The call that searches for the query, or for a part of it."""
        return ToolCall(TOOL_NAME, {"query": self.scope.of(query) if self.scope else query})


class ExtractiveProvider(Provider):
    """Answers as `answer_question` does, in an agent and its conversations.

    A question that refers to the previous one is completed.
    """

    name = EXTRACTIVE
    default_model = EXTRACTIVE

    def __init__(self, documents: Searchable, *, threshold: float = MIN_ANSWER, where: Where = None) -> None:
        """Abstain if the probability that the answer is right is below `threshold`; `where` filters the searches."""
        self._documents = documents
        self._threshold = threshold
        self._where = where

    def filtered(self, where: Where) -> ExtractiveProvider:
        """This provider for an agent whose searches are filtered."""
        return ExtractiveProvider(self._documents, threshold=self._threshold, where=where)

    def complete(self, request: ModelRequest) -> Completion:
        """A tool call for each part of a question; an answer, with an `ExtractiveAnswer`, after the tool results."""
        last = request.messages[-1]
        if last.role is Role.TOOL:
            return Completion(self._answer(request.messages), ZERO_COST)
        if reply := reply_to_small_talk(last.content):
            return Completion(Message(Role.ASSISTANT, reply, data=ExtractiveAnswer((), False)), ZERO_COST)
        with self._documents.session() as searcher:
            whole = answer_whole(last.content, searcher, self._where)
            if whole is not None:  # the tool is called all the same: who may read the answer follows from its result
                calls = [ToolCall(TOOL_NAME, {"query": last.content})]
                return Completion(replace(Message.assistant("", calls), data=whole), ZERO_COST, "tool_calls")
            planned = plan_search(request.messages, searcher, self._where)
        calls = [planned.call(part) for part in split_question(planned.query)]
        return Completion(replace(Message.assistant("", calls), data=planned), ZERO_COST, "tool_calls")

    def _answer(self, messages: Sequence[Message]) -> Message:
        results = list(takewhile(lambda message: message.role is Role.TOOL, reversed(messages)))[::-1]
        searches = [message.data for message in results if isinstance(message.data, RetrievedPassages)]
        if not searches:
            return Message.assistant(messages[-1].content)
        offset = max(searches[0].numbers_before, _last_quote_number(messages))
        found = [FoundPassages(passages.query, passages.hits) for passages in searches]
        asked = messages[-len(results) - 1].data
        if isinstance(asked, LookedUp):
            text, quoted = asked.numbered(offset)
            return Message(Role.ASSISTANT, text, data=quoted)
        planned = asked if isinstance(asked, PlannedSearch) else PlannedSearch(" ".join(one.query for one in searches))
        with self._documents.session() as searcher:
            text, quoted = compose_quotes(
                found, planned.query, searcher, offset, threshold=self._threshold, scope=planned.scope
            )
        return Message(Role.ASSISTANT, text, data=quoted)


def plan_search(messages: Sequence[Message], searcher: Searcher, where: Where = None) -> PlannedSearch:
    """The search for the last question of a conversation: standalone, with its spelling corrected."""
    asked = (i for i, message in enumerate(messages) if message.role is Role.USER)
    at = max(asked, default=len(messages) - 1)
    if answer_whole(messages[at].content, searcher, where) is not None:  # complete in itself
        return PlannedSearch(messages[at].content)
    if scope := find_scope(messages[at].content, searcher, where):
        return PlannedSearch(to_query(scope.query, "", searcher), scope)
    return PlannedSearch(to_query(messages[at].content, _previous_query(messages[:at]), searcher, where))


def _last_quote_number(messages: Sequence[Message]) -> int:
    """The last number with which earlier answers have marked a quote, at the end of a line; 0 if there is none."""
    texts = (message.content for message in messages if message.role is Role.ASSISTANT)
    return max((int(n) for text in texts if "]" in text for n in _QUOTE_NUMBER.findall(text)), default=0)


def _previous_query(messages: Sequence[Message]) -> str:
    """The last query of these turns, or their last question that is no small talk; '' if there is none."""
    for message in reversed(messages):
        for call in reversed(message.tool_calls):
            if call.name == TOOL_NAME and isinstance(query := call.arguments.get("query"), str):
                return _SCOPE.sub("", query)
        if message.role is Role.USER and reply_to_small_talk(message.content) is None:
            return message.content
    return ""
