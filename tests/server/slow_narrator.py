"""A model that searches, then repeats the passages slowly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest, Provider, StreamCompleted, StreamDelta, TextDelta
from ragkit.usage.tokens import Tokens


class SlowNarrator(Provider):
    """Says `times` times what its search found, a piece every twentieth of a second; keeps the requests it got."""

    name = default_model = "narrator"

    def __init__(self, times: int = 60, query: str = "keyword of the project") -> None:
        self.times, self.query = times, query
        self.requests: list[ModelRequest] = []

    async def astream(self, request: ModelRequest) -> AsyncIterator[StreamDelta]:
        """A search first, then words."""
        self.requests.append(request)
        last = request.messages[-1]
        if last.role is not Role.TOOL:
            call = ToolCall("search_knowledge_base", {"query": self.query}, f"call_{len(self.requests)}")
            yield StreamCompleted(Completion(Message.assistant("", (call,)), Tokens(1, 1, cost_usd=0.0)))
            return
        pieces = [f"{number}: {' '.join(last.content.split())[:400]} " for number in range(self.times)]
        for piece in pieces:
            await asyncio.sleep(0.05)
            yield TextDelta(piece)
        yield StreamCompleted(Completion(Message.assistant("".join(pieces)), Tokens(1, 1, cost_usd=0.0)))
