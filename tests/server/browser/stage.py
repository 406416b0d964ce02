"""A model with scripted answers that a test can pause."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Event
from typing import TypeAlias

from ragkit.agent.config import AgentConfig
from ragkit.agent.memory import ConversationMemory
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest, Provider, StreamCompleted, StreamDelta, TextDelta
from ragkit.answer.agent import RAGAgent, RAGOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.usage.tokens import Tokens

LIMIT = 30.0
"""Seconds after which a paused answer continues, so that no test hangs."""

Turn: TypeAlias = ToolCall | Exception | Sequence[str | Event]
"""A tool call, an error, or pieces of text; at an Event the answer waits until the test sets it."""
Play: TypeAlias = Sequence[Turn]
"""What a model says to one question, turn by turn."""


def search(query: str) -> ToolCall:
    """The model looks into the documents."""
    return ToolCall(name="search_knowledge_base", arguments={"query": query})


class Stage(Provider):
    """Answers each question with its play; a question without one is a mistake of the test."""

    name = "staged"
    default_model = "staged"

    def __init__(self, plays: Mapping[str, Play] | Callable[[str], Play]) -> None:
        self._plays = plays if callable(plays) else plays.__getitem__

    def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
        """The next turn of the play, piece by piece."""
        asked = max(i for i, one in enumerate(request.messages) if one.role is Role.USER)
        turn = self._plays(request.messages[asked].content)[len(request.messages) - asked >> 1]
        if isinstance(turn, Exception):
            raise turn
        if isinstance(turn, ToolCall):
            yield StreamCompleted(Completion(Message.assistant("", [turn]), TOKENS, "tool_calls"))
            return
        said = []
        for piece in turn:
            if isinstance(piece, Event):
                piece.wait(LIMIT)
            else:
                said.append(piece)
                yield TextDelta(piece)
        yield StreamCompleted(Completion(Message.assistant("".join(said)), TOKENS))


TOKENS = Tokens(120, 30, cost_usd=0.00042)


class StagedKnowledgeBase(KnowledgeBase):
    """A knowledge base that a staged model answers from; without a stage it quotes the documents."""

    stage: Provider | None = None

    def agent(
        self, model: str | None = None, max_cost_usd: float | None = None, memory: ConversationMemory | None = None
    ) -> RAGAgent:
        """The agent that answers."""
        if self.stage is None:
            return super().agent(model or "extractive", max_cost_usd, memory)
        config = AgentConfig(max_iterations=6, text_tool_calls=False)
        return RAGAgent(self, self.stage, config, RAGOptions(self.top_k), memory)
