"""One conversation on every provider: the same events, the same final state, synchronously and asynchronously."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.events import Event, ModelCallEnded, RunEnded, TextChunk, ToolCallChunk, ToolEnded, ToolFailed
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import Completion, Provider
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.agent.result import AgentResult
from ragkit.agent.tools.base import Tool, tool
from ragkit.usage.meter import AgentUsage, UsageStats
from ragkit.usage.tokens import Tokens
from tests.wire.dialects import DIALECTS
from tests.wire.parts import SERVICES, connect, serving
from tests.wire.server import ToolCallTurn, Turn, WireServer

WORDS = ("Oslo ", "has ", "12 ", "degrees, ", "Bergen ", "9 ", "\N{DEGREE SIGN}C.")
SCRIPT = (
    Turn(
        text=("I ", "look."),
        calls=(
            ToolCallTurn("weather", {"city": "Oslo"}, "call_a"),
            ToolCallTurn("station", {"number": "four"}, "call_b"),
        ),
        prompt_tokens=100,
        completion_tokens=30,
        cached_tokens=0,
    ),
    Turn(
        calls=(ToolCallTurn("station", {"number": "4", "unit": "\N{DEGREE SIGN}C"}, "call_c"),),
        prompt_tokens=150,
        completion_tokens=12,
    ),
    Turn(text=WORDS, prompt_tokens=180, completion_tokens=9),
)


def scripted() -> ScriptedProvider:
    """The same conversation without a service."""
    return ScriptedProvider(
        [
            Completion(
                Message.assistant(
                    "".join(turn.text), [ToolCall(item.name, item.arguments, item.id) for item in turn.calls]
                ),
                Tokens(turn.prompt_tokens, turn.completion_tokens, turn.cached_tokens),
                "tool_calls" if turn.calls else "stop",
            )
            for turn in SCRIPT
        ]
    )


def make_tools() -> list[Tool]:
    """Two tools that must run at the same time: the first answers when the second has failed."""
    failed = threading.Event()

    @tool
    def weather(city: str) -> str:
        """The weather of a city."""
        assert failed.wait(10)
        return f"{city}: 12 degrees"

    @tool
    def station(number: str, unit: str = "F") -> str:
        """The measurement of a station."""
        if not number.isdigit():
            failed.set()
            raise ValueError(f"{number} is no number")
        return f"9 {unit}"

    return [weather, station]


def create_agent(provider: Provider) -> Agent:
    return Agent(provider, make_tools(), config=AgentConfig(max_tokens=500), instructions="You know the weather.")


def run(agent: Agent) -> list[Event]:
    return list(agent.stream("How warm is it?"))


def arun(agent: Agent) -> list[Event]:
    async def listen() -> list[Event]:
        return [event async for event in agent.astream("How warm is it?")]

    return asyncio.run(listen())


def event_summaries(events: Sequence[Event]) -> list[object]:
    """The content of the events, without values that differ between runs (ids, seconds), and with joined arguments."""
    return [_plain(event) for event in _joined(events) if not isinstance(event, RunEnded)]


def _joined(events: Sequence[Event]) -> Iterator[Event]:
    """Services split the arguments of a call anywhere: the parts of a call are joined."""
    waiting: ToolCallChunk | None = None
    for event in events:
        if isinstance(event, ToolCallChunk) and waiting is not None and event.index == waiting.index:
            waiting = dataclasses.replace(
                waiting, name=waiting.name + event.name, arguments=waiting.arguments + event.arguments
            )
            continue
        if waiting is not None:
            yield dataclasses.replace(waiting, arguments=waiting.arguments.replace(" ", "").replace("\\u00b0", "\xb0"))
        waiting = event if isinstance(event, ToolCallChunk) else None
        if waiting is None:
            yield event


def _plain(value: object) -> object:
    """Convert a value to plain comparable values."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Exception):
        return type(value), str(value)
    names = SHOWN.get(type(value), ())
    if isinstance(value, Event):
        hidden = {"run_id", "seconds", "provider", "model", "request"}
        names = [item.name for item in dataclasses.fields(value) if item.name not in hidden]
    return (type(value).__name__, *(_plain(getattr(value, name)) for name in names)) if names else value


SHOWN: dict[type, Sequence[str]] = {
    ToolCall: ("name", "arguments"),
    Message: ("role", "content", "tool_calls", "name", "is_error", "agent_name"),
    UsageStats: ("prompt_tokens", "completion_tokens", "cached_tokens"),
    AgentUsage: ("prompt_tokens", "completion_tokens", "cached_tokens"),
}
"""Values that replace ids and prices."""


def state(events: Sequence[Event]) -> list[object]:
    """The final state: the fields of the result."""
    result = end_of_run(events)
    return [
        result.content,
        result.stop_reason,
        result.iterations,
        result.reasoning,
        _plain(result.messages),
        [
            (item.name, dict(item.arguments), item.content, _plain(item.error), item.attempts)
            for item in result.tool_calls
        ],
        _plain(result.usage),
        [_plain(item) for item in result.usage.iterations],
        {name: used.calls for name, used in result.usage.by_tool.items()},
        [(span.type, span.name if span.type.value != "llm_call" else "") for span in result.trace.steps],
    ]


def end_of_run(events: Sequence[Event]) -> AgentResult:
    assert isinstance(events[-1], RunEnded)
    return events[-1].result


@pytest.mark.parametrize("listen", [run, arun])
@pytest.mark.parametrize("service", SERVICES)
def test_one_conversation_gives_the_same_events_and_the_same_final_state_on_every_provider(
    service: str, listen: Callable[[Agent], list[Event]]
) -> None:
    expected = run(create_agent(scripted()))
    with serving(service, *SCRIPT) as (provider, server):
        caught = listen(create_agent(provider))
    assert event_summaries(caught) == event_summaries(expected)
    assert state(caught) == state(expected)
    assert len(server.seen) == 3

    result = end_of_run(caught)
    assert [event.text for event in caught if isinstance(event, TextChunk)] == ["I ", "look.", *WORDS]
    failed = next(event for event in caught if isinstance(event, ToolFailed))
    assert (failed.call.name, str(failed.error)) == ("station", "four is no number")
    assert [event.content for event in caught if isinstance(event, ToolEnded)] == ["Oslo: 12 degrees", "9 \xb0C"]
    assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (430, 51)
    roles = [message.role for message in result.messages]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]


@pytest.mark.parametrize("service", SERVICES)
def test_a_run_without_streaming_has_the_same_result(service: str) -> None:
    expected = create_agent(scripted()).run("How warm is it?")
    with serving(service, *SCRIPT, *SCRIPT) as (provider, server):
        caught = create_agent(provider).run("How warm is it?")
        later = asyncio.run(create_agent(provider).arun("How warm is it?"))
    for item in (caught, later):
        assert [_plain(message) for message in item.messages] == [_plain(message) for message in expected.messages]
        assert _plain(item.usage) == _plain(expected.usage)
    assert len(server.seen) == 6


@pytest.mark.parametrize("service", SERVICES)
def test_two_conversations_at_once_on_one_provider_stay_apart(service: str) -> None:
    """Each server answers with text of its own conversation, so that a mix-up is detected."""
    with WireServer(DIALECTS[service], [Turn(("one",), prompt_tokens=3)] * 40) as server:
        provider = connect(service, server.url)

        async def many() -> list[AgentResult]:
            return await asyncio.gather(*(create_agent(provider).arun(f"question {n}") for n in range(40)))

        results = asyncio.run(many())
    assert [result.messages[0].content for result in results] == [f"question {n}" for n in range(40)]
    assert [result.usage.prompt_tokens for result in results] == [3] * 40
    questions = sorted(question for seen in server.seen for question in _questions(seen.body))
    assert questions == sorted(f"question {n}" for n in range(40))


def _questions(value: object) -> Iterator[str]:
    """Every 'question n' in a request, in any field."""
    if isinstance(value, str) and value.startswith("question "):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _questions(item)
    elif isinstance(value, list):
        for item in value:
            yield from _questions(item)


@pytest.mark.parametrize("service", [item for item in SERVICES if item != "ollama"])
def test_the_cost_of_a_run_is_the_sum_of_its_requests(service: str) -> None:
    with serving(service, *SCRIPT) as (provider, _):
        agent = create_agent(provider)
        events = list(agent.stream("How warm is it?"))
    calls = [event.usage for event in events if isinstance(event, ModelCallEnded)]
    prices = agent.config.prices
    expected = [
        prices.chat_cost(provider.name, provider.default_model, Tokens(turn.prompt_tokens, turn.completion_tokens))
        for turn in SCRIPT
    ]
    assert [call.llm_cost_usd for call in calls] == expected
    assert end_of_run(events).usage.total_cost_usd == pytest.approx(sum(item or 0.0 for item in expected))
    assert None not in expected


def test_a_local_model_costs_nothing() -> None:
    with serving("ollama", *SCRIPT) as (provider, _):
        assert create_agent(provider).run("How warm is it?").usage.total_cost_usd == 0.0
