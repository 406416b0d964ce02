"""A model with scripted answers that a test can pause."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Event
from typing import Any, Self, TypeAlias

from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest, Provider, StreamCompleted, StreamDelta, TextDelta
from ragkit.answer.agent import RAGAgent, RAGOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.read_side import ReadingPrincipal
from ragkit.usage.tokens import Tokens

LIMIT = 30.0
"""Seconds after which a paused answer continues, so that no test hangs."""

Turn: TypeAlias = ToolCall | Exception | Completion | Sequence[str | Event]
"""A tool call, an error, a completion, or pieces of text; at an Event the answer waits until the test sets it."""
Play: TypeAlias = Sequence[Turn]
"""The turns of the answer to one question."""


def search(query: str) -> ToolCall:
    """A call of the search tool."""
    return ToolCall(name="search_knowledge_base", arguments={"query": query})


class Stage(Provider):
    """Answers each question with its script; a question without a script fails the test."""

    name = "staged"
    default_model = "staged"

    def __init__(self, plays: Mapping[str, Play] | Callable[[str], Play]) -> None:
        self._plays = plays if callable(plays) else plays.__getitem__

    def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
        """Stream the next turn of the script."""
        question_index = max(i for i, item in enumerate(request.messages) if item.role is Role.USER)
        turn = self._plays(request.messages[question_index].content)[len(request.messages) - question_index >> 1]
        if isinstance(turn, Exception):
            raise turn
        if isinstance(turn, ToolCall):
            yield StreamCompleted(Completion(Message.assistant("", [turn]), TOKENS, "tool_calls"))
            return
        if isinstance(turn, Completion):
            yield TextDelta(turn.message.content)
            yield StreamCompleted(turn)
            return
        result = []
        for piece in turn:
            if isinstance(piece, Event):
                piece.wait(LIMIT)
            else:
                result.append(piece)
                yield TextDelta(piece)
        yield StreamCompleted(Completion(Message.assistant("".join(result)), TOKENS))


TOKENS = Tokens(120, 30, cost_usd=0.00042)


class StagedKnowledgeBase(KnowledgeBase):
    """A knowledge base with a scripted model; without one, answers are extractive."""

    stage: Provider | None = None
    opened: Self | None = None
    """Whose view it is."""

    def as_user(self, user: str | ReadingPrincipal, groups: Sequence[str] = ()) -> Self:
        """A view with the model of this one, whichever that is later."""
        view = super().as_user(user, groups)
        view.opened = self
        return view

    def agent(
        self,
        model: str | Provider | None = None,
        max_cost_usd: float | None = None,
        memory: ConversationMemory | None = None,
        **options: Any,
    ) -> RAGAgent:
        """The agent of an answer."""
        stage = (self.opened or self).stage
        if stage is None:
            return super().agent(model or "extractive", max_cost_usd, memory, **options)
        config = AgentConfig(max_iterations=6, text_tool_calls=False)
        return RAGAgent(self, stage, config, RAGOptions(self.components.top_k, search="model"), memory)
