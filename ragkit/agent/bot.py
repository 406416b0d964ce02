"""The simplest way in: a bot that one chats with. Behind it is an agent with a memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ragkit.agent.agent import Agent
from ragkit.agent.config import AgentConfig
from ragkit.agent.definition import ToolSource
from ragkit.agent.events import RunEnded, TextChunk
from ragkit.agent.memory import ConversationMemory
from ragkit.agent.prompt import DEFAULT_INSTRUCTIONS
from ragkit.agent.providers.base import Provider
from ragkit.agent.providers.lookup import detect_provider
from ragkit.agent.providers.scripted import LocalProvider
from ragkit.agent.result import AgentResult
from ragkit.agent.tools.builtin import create_default_registry
from ragkit.agent.tools.registry import ToolRegistry


def default_provider() -> Provider:
    """Who answers when nobody is named: the one that `auto` chooses, else the local provider."""
    return detect_provider() or LocalProvider()


class Bot:
    """Chats, remembers, uses tools. `Bot()` works as it is.

    Args:
        model: the model's name as its service knows it; empty: the provider's choice.
        tools: by default a calculator.
        system_instruction: what the bot is for.
        max_iterations: requests to the model for one answer.
        provider: who answers; by default `default_provider()`.
        config: everything else; `model` and `max_iterations` override it.
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
        self.provider: Provider = provider if provider is not None else default_provider()
        self.tools = ToolRegistry(create_default_registry() if tools is None else tools)
        self.memory = ConversationMemory()
        self.last_result: AgentResult | None = None
        """What the last turn gave back."""
        self.agent = Agent(
            self.provider,
            self.tools,
            max_iterations,
            _with_model(config or AgentConfig(), model),
            self.memory,
            name="bot",
            instructions=system_instruction,
        )

    def chat(self, user_message: str) -> tuple[str, float | None]:
        """Say something. Returns the answer and what this turn cost in US dollars; None: a price is unknown."""
        self.last_result = self.agent.run(user_message)
        return self.last_result.content, self.last_result.usage.total_cost_usd

    def chat_stream(self, user_message: str) -> Iterator[str]:
        """Say something and get the answer piece by piece."""
        for event in self.agent.stream(user_message):
            if isinstance(event, TextChunk):
                yield event.text
            elif isinstance(event, RunEnded):
                self.last_result = event.result

    def reset(self) -> None:
        """Forget the conversation."""
        self.agent.reset()
        self.last_result = None


def _with_model(config: AgentConfig, model: str) -> AgentConfig:
    return replace(config, model=model) if model else config


Groqqy = Bot
"""The same under another name."""
