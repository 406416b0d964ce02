"""Helpers of the agent tests: tools, scripted agents, and the messages of a request."""

from __future__ import annotations

from collections.abc import Sequence

from ragkit.agent.agent import Agent
from ragkit.agent.events import Event, RunEnded
from ragkit.agent.loop.config import AgentConfig, RetryPolicy
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.scripted import ScriptedProvider, ScriptedTurn
from ragkit.agent.result import AgentResult
from ragkit.agent.tools.base import Tool, ToolCallable, tool

AT_ONCE = RetryPolicy(initial_wait_s=0.0)


@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@tool
def fail(reason: str = "no reason") -> str:
    """Fail."""
    raise ValueError(reason)


def call(name: str, call_id: str = "c1", /, **arguments: object) -> ToolCall:
    """A tool call of a script."""
    return ToolCall(name, dict(arguments), call_id)  # type: ignore[arg-type]  # tests hand over plain JSON values


def scripted(
    script: Sequence[ScriptedTurn],
    tools: Sequence[Tool | ToolCallable] = (add, fail),
    config: AgentConfig | None = None,
) -> tuple[Agent, ScriptedProvider]:
    """An agent with a scripted provider, and the provider."""
    provider = ScriptedProvider(script)
    return Agent(provider, tools, config=config or AgentConfig(retry=AT_ONCE)), provider


def request_messages(provider: ScriptedProvider, request: int = -1) -> list[tuple[str, str]]:
    """(role, content) of each message in a request, without the system prompt."""
    return [
        (message.role.value, message.content)
        for message in provider.requests[request].messages
        if message.role is not Role.SYSTEM
    ]


def tool_messages(result: AgentResult) -> list[str]:
    """The contents of the tool messages, in order."""
    return [message.content for message in result.messages if message.role is Role.TOOL]


def names(events: Sequence[Event]) -> list[str]:
    """The class names of events."""
    return [type(event).__name__ for event in events]


def final_result(events: Sequence[Event]) -> AgentResult:
    """The result in the last event of a stream."""
    last = events[-1]
    assert isinstance(last, RunEnded)
    return last.result


def user(text: str) -> Message:
    """A user message."""
    return Message.user(text)
