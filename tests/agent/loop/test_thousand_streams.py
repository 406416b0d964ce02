"""A thousand streams at once, with hooks, memories and cancellation: they keep apart and leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.events import Event, RunEnded, RunStarted, TextChunk
from ragkit.agent.guardrails import ToolOutputScreening
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.loop.run_state import RunState
from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.observers import AgentObserver
from ragkit.agent.providers.base import Completion, ModelRequest, Provider, StreamCompleted, StreamDelta, TextDelta
from ragkit.agent.runtime import background_tasks
from ragkit.agent.runtime.background_tasks import BACKGROUND_LOOP
from ragkit.agent.runtime.cancellation import Cancellation
from ragkit.agent.tools.base import ToolContext, tool
from ragkit.errors import RunCancelled

RUNS = 1000
CANCEL, ABANDON = 3, 5
"""Every third run is cancelled in mid-stream; of the others, every fifth is no longer read."""


class Words(Provider):
    """Calls a tool, then streams the word of the first user message and of the last one, with pauses."""

    name = "words"

    async def astream(self, request: ModelRequest) -> AsyncIterator[StreamDelta]:
        await asyncio.sleep(0)
        users = [message.content for message in request.messages if message.role is Role.USER]
        if request.messages[-1].role is Role.TOOL:
            answer = f"{users[0]} {users[-1]} {request.messages[-1].content}"
            is_read = ends_how(int(users[-1].removeprefix("now-"))) == "read"
            for position, word in enumerate(answer.split()):
                await asyncio.sleep(0.001 if is_read or position == 0 else 1)  # time to be cancelled in
                yield TextDelta(f"{word} ")
            yield StreamCompleted(Completion(Message.assistant(answer)))
        else:
            call = ToolCall("look", {"word": users[-1]}, "c1")
            yield StreamCompleted(Completion(Message.assistant("", [call])))


@tool
async def look(word: str, ctx: ToolContext) -> str:
    """Look."""
    await asyncio.sleep(0)
    ctx.state["word"] = word
    return f"seen-{word}"


class Recorder(AgentObserver):
    """Keeps the names of the events and the words of each run."""

    def __init__(self) -> None:
        self.events: dict[str, list[Event]] = defaultdict(list)

    def handle(self, event: Event) -> None:
        self.events[event.run_id].append(event)


def ends_how(number: int) -> str:
    return "cancelled" if number % CANCEL == 0 else "abandoned" if number % ABANDON == 0 else "read"


def create_memory(number: int) -> ConversationMemory:
    return ConversationMemory(messages=[Message.user(f"first-{number}"), Message.assistant("yes")])


async def astream(agent: Agent, number: int, memory: ConversationMemory) -> str:
    """The text of one run, up to its cancellation or to the point where its reader leaves."""
    cancel, text = Cancellation(), ""
    with suppress(RunCancelled):
        async with aclosing(agent.astream(f"now-{number}", memory=memory, cancel=cancel)) as events:
            async for event in events:
                text += event.text if isinstance(event, TextChunk) else ""
                if text and ends_how(number) == "cancelled":
                    cancel.cancel()
                if text and ends_how(number) == "abandoned":
                    break
    return text


def stream(agent: Agent, number: int, memory: ConversationMemory) -> str:
    """As `astream`."""
    cancel, text = Cancellation(), ""
    events = agent.stream(f"now-{number}", memory=memory, cancel=cancel)
    with suppress(RunCancelled):
        for event in events:
            text += event.text if isinstance(event, TextChunk) else ""
            if text and ends_how(number) == "cancelled":
                cancel.cancel()
            if text and ends_how(number) == "abandoned":
                break
    events.close()
    return text


Memories = list[ConversationMemory]


def in_tasks(agent: Agent, memories: Memories) -> list[str]:
    async def run_all() -> list[str]:
        texts = await asyncio.gather(*(astream(agent, number, memory) for number, memory in enumerate(memories)))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return list(texts)

    return asyncio.run(run_all())


def in_threads(agent: Agent, memories: Memories) -> list[str]:
    with ThreadPoolExecutor(64) as pool:
        return list(pool.map(lambda number: stream(agent, number, memories[number]), range(len(memories))))


def count_left_behind() -> dict[str, int]:
    """What runs may leave behind: threads, open files, states of runs."""
    gc.collect()
    states = sum(isinstance(item, RunState) for item in gc.get_objects())
    return {
        "threads": threading.active_count(),
        "files": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "runs": states,
    }


def find_more(before: dict[str, int]) -> dict[str, int]:
    """What there is more of than before."""
    return {name: count for name, count in count_left_behind().items() if count > before[name]}


@pytest.mark.parametrize("run_all", [in_tasks, in_threads])
def test_a_thousand_streams_keep_apart_and_leave_nothing_behind(
    run_all: Callable[[Agent, Memories], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    hooked: dict[str, list[str]] = defaultdict(list)
    recorder = Recorder()
    hooks = {"on_llm_chunk": lambda event: hooked[event.run_id].append(event.text)}
    screening = ToolOutputScreening(mark_as_data=False)
    config = AgentConfig(observers=[recorder], hooks=hooks, screening=screening)
    agent = Agent(Words(), [look], config=config)
    BACKGROUND_LOOP.submit(asyncio.sleep(0)).result()  # the one thread that stays
    monkeypatch.setattr(background_tasks, "IDLE_TIMEOUT_S", 0.2)
    before = count_left_behind()

    memories = [create_memory(number) for number in range(RUNS)]
    texts = run_all(agent, memories)
    by_number = {}
    for events in recorder.events.values():
        assert isinstance(events[0], RunStarted)
        by_number[int(events[0].messages[0].content.removeprefix("now-"))] = events
    assert sorted(by_number) == list(range(RUNS))
    for number, memory in enumerate(memories):
        whole = f"first-{number} now-{number} seen-now-{number} "
        events, is_read = by_number[number], ends_how(number) == "read"
        assert texts[number] == whole if is_read else texts[number] and whole.startswith(texts[number])
        assert "".join(hooked[events[0].run_id]) == texts[number]
        assert isinstance(events[-1], RunEnded) is is_read
        words = [message.content for message in memory.load_messages()]
        assert words[:2] == [f"first-{number}", "yes"]
        assert words[2:] == ([f"now-{number}", "", f"seen-now-{number}", whole.strip()] if is_read else [])
        assert memory.tool_state == ({"word": f"now-{number}"} if is_read else {})
        assert memory.run_lock.acquire(None).done()  # no run holds it

    recorder.events.clear()
    del events, by_number
    deadline = time.monotonic() + 10
    while (more := find_more(before)) and time.monotonic() < deadline:
        time.sleep(0.1)  # threads of abandoned streams end by themselves
    assert more == {}
