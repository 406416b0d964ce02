"""A chat bot: an agent with a memory behind the simplest interface."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from dataclasses import replace

from ragkit.agent.agent import Agent
from ragkit.agent.events import Event, RunEnded, TextChunk
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.loop.definition import ToolSource
from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.observers import Hook, HookObserver
from ragkit.agent.prompt import DEFAULT_INSTRUCTIONS
from ragkit.agent.providers.base import Provider
from ragkit.agent.providers.lookup import detect_provider
from ragkit.agent.providers.scripted import LocalProvider
from ragkit.agent.result import AgentResult
from ragkit.agent.tools.builtin import create_default_registry
from ragkit.agent.tools.registry import ToolRegistry
from ragkit.argument_types import check_types


def default_provider() -> Provider:
    """The default provider: the one that `auto` selects, else the local provider."""
    return detect_provider() or LocalProvider()


@check_types()
class Bot:
    """Chats, remembers and uses tools. Every argument has a default.

    Args:
        model: the model's name as its service knows it; empty: the provider's choice.
        tools: by default a calculator.
        system_instruction: the instructions for the model.
        max_iterations: requests to the model for one answer.
        provider: by default `default_provider()`.
        config: all other settings; `model` and `max_iterations` override it.
    """

    def __init__(
        self,
        model: str = "",
        tools: ToolSource | None = None,
        system_instruction: str = DEFAULT_INSTRUCTIONS,
        max_iterations: int | None = None,
        *,
        provider: Provider | None = None,
        config: AgentConfig | None = None,
    ) -> None:
        self.provider: Provider = provider if provider is not None else self._choose_provider(model)
        self.tools = ToolRegistry(self._default_tools() if tools is None else tools)
        self.memory = ConversationMemory()
        self.last_result: AgentResult | None = None
        """The result of the last turn."""
        self._open_stream: tuple[int, Generator[Event, None, None] | None] = (0, None)
        """The thread that began the last stream, and the stream."""
        config = config or AgentConfig()
        config = replace(config, model=model) if model else config
        self.agent = Agent(
            self.provider, self.tools, max_iterations, config, self.memory, name="bot", instructions=system_instruction
        )

    @staticmethod
    def _choose_provider(model: str) -> Provider:
        return default_provider()

    @staticmethod
    def _default_tools() -> ToolRegistry:
        return create_default_registry(None)

    def chat(self, user_message: str) -> tuple[str, float | None]:
        """Send a message. Returns the answer and the cost of this turn in US dollars; None: a price is unknown."""
        self._close_stream()
        self.last_result = self.agent.run(user_message)
        return self.last_result.content, self.last_result.usage.total_cost_usd

    def chat_stream(self, user_message: str) -> Iterator[str]:
        """Send a message and stream the answer.

        The next call from the same thread ends a stream that was not read to its end.
        """
        self._close_stream()
        stream = self.agent.stream(user_message)
        self._open_stream = (threading.get_ident(), stream)
        for event in stream:
            if isinstance(event, TextChunk):
                yield event.text
            elif isinstance(event, RunEnded):
                self.last_result = event.result

    def on(self, event: str, callback: Hook) -> None:
        """Call a function at every event of this name, as an entry of `AgentConfig.hooks`. Raises UnknownName."""
        config = self.agent.config
        observers = (*config.observers, HookObserver({event: callback}))
        self.agent = replace(self.agent, config=replace(config, observers=observers))

    def _close_stream(self) -> None:
        """End a stream that this thread has begun and not read to its end: it holds the memory."""
        thread, stream = self._open_stream
        if stream is not None and thread == threading.get_ident():
            stream.close()
            self._open_stream = (0, None)

    def reset(self) -> None:
        """Clear the conversation."""
        self._close_stream()
        self.agent.reset()
        self.last_result = None
