"""Answers that were given before: the same question over the same documents, of which the same may be read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragkit.agent.messages import Message
from ragkit.agent.result import AgentResult
from ragkit.agent.tracing.trace import AgentTrace, StepType
from ragkit.answer.agent import RAGAgent
from ragkit.answer.base import Answer, Searchable
from ragkit.answer.outcome import Outcome
from ragkit.answer.passages import TOOL_NAME as SEARCH_NAME
from ragkit.answer.searchers.aggregate_tool import TOOL_NAME as AGGREGATE_NAME
from ragkit.knowledge_base.session import Session
from ragkit.lru_cache import LruCache
from ragkit.records import JSON
from ragkit.server.answering.request_options import DEFAULT_TEMPERATURE, RequestOptions
from ragkit.server.state.rights_filter import Origin
from ragkit.usage.meter import AgentUsage

_TOOLS = frozenset({SEARCH_NAME, AGGREGATE_NAME})
"""The tools whose results follow from the documents alone."""
_OUTCOMES = frozenset({Outcome.ANSWERED, Outcome.PASSAGES, Outcome.NOT_IN_DOCUMENTS})
"""Of answers that another try would not better."""


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An answer with what its request produced."""

    answer: Answer
    result: AgentResult
    origins: tuple[Origin, ...]
    """The documents that it is drawn from."""

    def again(self, trace_id: str, documents: Searchable) -> tuple[Answer, AgentResult]:
        """The answer for another request: it costs nothing, and names the trace that it was first given in.

        Whether the cited files have changed is looked up anew.
        """
        trace = AgentTrace(trace_id, "rag")
        trace.add_span(StepType.CACHE, "answer cache", {"hit": True, "trace_id": self.answer.trace_id})
        trace.end_span(trace.root)
        usage = AgentUsage(saved_cost_usd=self.answer.usage.total_cost_usd or 0.0)
        with documents.session() as searcher:
            citations = tuple(replace(c, stale=searcher.is_stale(c.source)) for c in self.answer.citations)
        answer = replace(self.answer, citations=citations, usage=usage, trace=trace, trace_id=trace.id)
        return answer, replace(self.result, usage=usage, trace=trace)


class AnswerCache:
    """The last answers of one knowledge base. Thread-safe."""

    def __init__(self, capacity: int) -> None:
        """`capacity`: number of answers; 0: none is kept."""
        self._answers: LruCache[str, CachedAnswer] | None = LruCache(capacity) if capacity else None

    def key(
        self, agent: RAGAgent, options: RequestOptions, messages: Sequence[Message], state: Mapping[str, JSON]
    ) -> str:
        """What an answer depends on; '' if it may not be kept, since its tools or its model may answer otherwise.

        Args:
            agent: answers in a session.
            options: of the request.
            messages: the conversation and the question.
            state: of tools, after the conversation.
        """
        session, config = agent.searcher, agent.config
        own = {tool.name for tool in agent.available_tools}
        # at the default temperature nobody has asked for variety
        is_varied = options.temperature or (
            options.temperature is None and config.temperature not in (0, DEFAULT_TEMPERATURE)
        )
        if self._answers is None or not isinstance(session, Session) or not own <= _TOOLS or is_varied:
            return ""
        if any(message.images for message in messages):
            return ""
        model = [agent.provider.name, config.model, config.max_tokens, config.top_p]
        asked = [message.to_dict() for message in messages]
        how = [
            agent.options.top_k, agent.options.where, agent.options.extra_instructions, agent.options.instructions,
            agent.strict, options.response_schema, options.stop,
        ]  # fmt: skip
        return json.dumps([session.identity, model, how, asked, dict(state)], default=dict)

    def find(self, key: str) -> CachedAnswer | None:
        """The answer that was given before, or None."""
        return self._answers.get(key) if self._answers is not None and key else None

    def keep(self, key: str, answer: Answer, result: AgentResult, origins: Sequence[Origin]) -> None:
        """Keep an answer, unless another try may give a better one."""
        if self._answers is not None and key and answer.outcome in _OUTCOMES and result.suspended is None:
            self._answers.set(key, CachedAnswer(answer, result, tuple(origins)))
