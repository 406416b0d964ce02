"""One conversation with everything that can happen, on every provider and by every entry point: the same events.

It has reasoning (of the service and in `<think>` tags), a call written as text, a loop, a stream that breaks off,
a tool of an MCP server, and iterations that are used up.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.events import Event, ModelCallEnded, ReasoningChunk, Retrying, TextChunk, ToolCallChunk
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.observers import AgentObserver
from ragkit.agent.providers.base import Provider
from ragkit.agent.result import AgentResult
from ragkit.agent.tools.base import Tool, tool
from ragkit.agent.tools.mcp import mcp_tools
from ragkit.agent.tracing.trace import StepType
from tests.agent.parts import AT_ONCE, final_result, names
from tests.wire.dialects import DIALECTS
from tests.wire.parts import SERVICES, serving
from tests.wire.server import Fault, ToolCallTurn, Turn

LOOK = ToolCallTurn("look", {"city": "Oslo"}, "call_1")
TEXT_CALL = ("Again.\nTOOL_", 'CALL {"tool_name": "look", "para', 'meters": {"city": "Oslo"}}')
BROKEN = Turn(("It ", "may ", "be warm"))
SCRIPT: tuple[Turn, ...] = (
    Turn(("I ", "look."), (LOOK,), thought="First the city.", prompt_tokens=10, completion_tokens=5),
    Turn(TEXT_CALL, prompt_tokens=20, completion_tokens=5),
    Turn(calls=(replace(LOOK, id="call_3"),), prompt_tokens=30, completion_tokens=5),
    Turn(("I measure.",), (ToolCallTurn("measure", {"station": 4}, "call_4"),), prompt_tokens=40, completion_tokens=5),
    Turn(("<thi", "nk>Enough.</th", "ink>", "Oslo has ", "12 degrees."), prompt_tokens=50, completion_tokens=5),
)
SHOWN = ["I look.", "Again.", "I measure.", "Oslo has 12 degrees."]


class Recorder(AgentObserver):
    """Keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def handle(self, event: Event) -> None:
        self.events.append(event)


@tool
def look(city: str) -> str:
    """Look a city up."""
    return f"{city}: station 4"


@pytest.fixture(scope="module")
def tools() -> Iterator[list[Tool]]:
    """A tool of this process, and one of an MCP server in another."""
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    with mcp_tools(sys.executable, ["-m", "tests.agent.tools.mcp_server"], env=environment) as listed:
        yield [look, next(item for item in listed if item.name == "measure")]


def create_agent(provider: Provider, tools: list[Tool], recorder: Recorder) -> Agent:
    config = AgentConfig(
        max_iterations=4,
        on_max_iterations="answer",
        max_repeated_calls=2,
        on_loop="tell",  # `auto` ends the tools of local models earlier
        retry=AT_ONCE,
        observers=[recorder],
    )
    return Agent(provider, tools, config=config)


def sync(agent: Agent) -> AgentResult:
    return agent.run("How warm is Oslo?")


def asynchronous(agent: Agent) -> AgentResult:
    return asyncio.run(agent.arun("How warm is Oslo?"))


def stream(agent: Agent) -> AgentResult:
    return final_result(list(agent.stream("How warm is Oslo?", retry_after_text=True)))


def astream(agent: Agent) -> AgentResult:
    async def collect() -> list[Event]:
        return [event async for event in agent.astream("How warm is Oslo?", retry_after_text=True)]

    return final_result(asyncio.run(collect()))


def converse(service: str, run: Callable[[Agent], AgentResult], tools: list[Tool]) -> tuple[AgentResult, list[Event]]:
    """The result and the events of the conversation; the fourth answer breaks off after its first word."""
    pieces = DIALECTS[service].pieces(BROKEN)
    fault = Fault(turn=BROKEN, cut_after=next(at for at, piece in enumerate(pieces) if b"may " in piece))
    recorder = Recorder()
    with serving(service, *SCRIPT[:3], fault, *SCRIPT[3:]) as (provider, server):
        result = run(create_agent(provider, tools, recorder))
        assert len(server.seen) == len(SCRIPT) + 1
    return result, recorder.events


START = ["IterationStarted", "ModelCallStarted"]
CALL = ["ModelCallEnded", "ToolStarted", "ToolEnded", "IterationEnded"]
EXPECTED = [
    "RunStarted",
    *START,
    *CALL,
    *START,
    *CALL,
    *START,
    *["ModelCallEnded", "LoopDetected", "ToolFailed", "IterationEnded"],
    *START,
    "Retrying",
    *CALL,
    *["LastAnswerRequested", "ModelCallStarted", "ModelCallEnded", "RunEnded"],
]


@pytest.mark.parametrize("run", [sync, asynchronous, stream, astream])
@pytest.mark.parametrize("service", SERVICES)
def test_one_conversation_gives_the_same_events_on_every_provider(
    service: str, run: Callable[[Agent], AgentResult], tools: list[Tool]
) -> None:
    result, events = converse(service, run, tools)
    chunks = (TextChunk, ReasoningChunk, ToolCallChunk)
    assert names([event for event in events if not isinstance(event, chunks)]) == EXPECTED
    [retrying] = [event for event in events if isinstance(event, Retrying)]
    assert retrying.discard_text is (run in (stream, astream))

    assert (result.content, result.stop_reason, result.iterations) == (SHOWN[-1], "max_iterations", 4)
    assert result.reasoning.split("\n\n") == ["First the city.", *SHOWN[:3], "Enough."]
    spans = result.trace.find_spans(StepType.LLM_CALL)
    assert [span.attributes.get("reasoning") for span in spans] == ["First the city.", None, None, None, "Enough."]
    assert [(outcome.name, outcome.attempts) for outcome in result.tool_calls] == [
        ("look", 1),
        ("look", 1),
        ("look", 0),
        ("measure", 1),
    ]
    assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (150, 25)
    assert [stats.prompt_tokens for stats in result.usage.iterations] == [10, 20, 30, 90]
    contents = [event.message.content.strip() for event in events if isinstance(event, ModelCallEnded)]
    assert contents[0] == SHOWN[0]
    assert "TOOL_CALL" not in "".join(message.content for message in result.messages)


@pytest.mark.parametrize("run", [stream, astream])
@pytest.mark.parametrize("service", SERVICES)
def test_a_stream_shows_each_text_once_and_nothing_else(
    service: str, run: Callable[[Agent], AgentResult], tools: list[Tool]
) -> None:
    _, events = converse(service, run, tools)
    shown: list[str] = []
    for is_text, group in groupby(events, lambda event: isinstance(event, TextChunk)):
        if is_text:
            shown.append("".join(event.text for event in group if isinstance(event, TextChunk)).strip())
        elif any(isinstance(event, Retrying) and event.discard_text for event in group):
            assert shown.pop() == "It"
    assert shown == SHOWN
    thoughts = [event.text for event in events if isinstance(event, ReasoningChunk)]
    assert "".join(thoughts) == "First the city.Enough."
