"""Measure the overhead of one agent turn with a model that answers at once: ragkit and other libraries.

A run has two turns: the model calls 1 or 8 tools, then answers. The time of a run is divided by two.

    python -m venv one && one/bin/pip install openai-agents
    python -m venv two && two/bin/pip install pydantic-ai-slim selectools
    python benchmarks/agent_overhead.py --others one/bin/python --others two/bin/python

Each library runs in a separate process, several times in turn with the others. The figure is the best of many small
batches within a process and the median over the processes, because other programs can only slow a run down.
Tracing to a service is disabled. The other libraries wait for a tool without a time limit by default, so ragkit is
measured without one too; its default, a limit of 60 seconds, has its own row, and so does the only other library that
supports a limit. Compare rows with the same limit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

BATCH = 20
BATCHES = 25

Sync = Callable[[], object]
Async = Callable[[], Awaitable[object]]


def guarded_case(tools: int) -> tuple[Sync, Async]:
    return ragkit_case(tools, tool_timeout_s=60.0)


def ragkit_case(tools: int, tool_timeout_s: float | None = None) -> tuple[Sync, Async]:
    from ragkit.agent.agent import Agent
    from ragkit.agent.loop.config import AgentConfig
    from ragkit.agent.messages import Message, Role, ToolCall
    from ragkit.agent.providers.base import Completion, ModelRequest
    from ragkit.agent.providers.scripted import InstantProvider
    from ragkit.agent.tools.base import tool

    class Instant(InstantProvider):
        name = "instant"

        def complete(self, request: ModelRequest) -> Completion:
            if request.messages[-1].role is Role.TOOL:
                return Completion(Message.assistant("done"))
            calls = [ToolCall("add", {"a": n, "b": 1}, f"c{n}") for n in range(tools)]
            return Completion(Message.assistant("", calls))

    @tool(description="Add.")
    def add(a: int, b: int) -> str:
        return str(a + b)

    @tool(description="Add.", name="add")
    async def aadd(a: int, b: int) -> str:
        return str(a + b)

    config = AgentConfig(tool_timeout_s=tool_timeout_s)
    agent, asynchronous = Agent(Instant(), [add], config=config), Agent(Instant(), [aadd], config=config)
    return lambda: agent.run("go").content, lambda: asynchronous.arun("go")


def guarded_selectools_case(tools: int) -> tuple[Sync, Async]:
    return selectools_case(tools, tool_timeout_s=60.0)


def selectools_case(tools: int, tool_timeout_s: float | None = None) -> tuple[Sync, Async]:
    from selectools import Agent, AgentConfig, tool
    from selectools.types import Message, Role, ToolCall
    from selectools.usage import UsageStats

    class Instant:
        name = "instant"
        supports_streaming = False
        supports_async = True

        def complete(self, *, messages, **_):
            if messages[-1].role is Role.TOOL:
                return Message(Role.ASSISTANT, "done"), UsageStats()
            calls = [ToolCall("add", {"a": n, "b": 1}, f"c{n}") for n in range(tools)]
            return Message(Role.ASSISTANT, "", tool_calls=calls), UsageStats()

        async def acomplete(self, **kwargs):
            return self.complete(**kwargs)

    @tool(description="Add.")
    def add(a: int, b: int) -> str:
        return str(a + b)

    @tool(description="Add.", name="add")
    async def aadd(a: int, b: int) -> str:
        return str(a + b)

    config = AgentConfig(tool_timeout_seconds=tool_timeout_s)

    def sync() -> object:
        return Agent(tools=[add], provider=Instant(), config=config).run("go").content

    async def asynchronous() -> object:
        return (await Agent(tools=[aadd], provider=Instant(), config=config).arun("go")).content

    return sync, asynchronous


def pydantic_ai_case(tools: int) -> tuple[Sync, Async]:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages, _info):
        if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("add", {"a": n, "b": 1}) for n in range(tools)])

    agent = Agent(FunctionModel(answer))
    asynchronous = Agent(FunctionModel(answer))

    @agent.tool_plain
    def add(a: int, b: int) -> str:
        """Add."""
        return str(a + b)

    @asynchronous.tool_plain(name="add")
    async def aadd(a: int, b: int) -> str:
        """Add."""
        return str(a + b)

    return lambda: agent.run_sync("go").output, lambda: asynchronous.run("go")


def openai_agents_case(tools: int) -> tuple[Sync, Async]:
    from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(True)

    class Instant(Model):
        async def get_response(self, system_instructions=None, input=None, **_):
            done = isinstance(input, list) and any(
                isinstance(item, dict) and item.get("type") == "function_call_output" for item in input
            )
            if done:
                text = ResponseOutputText(text="done", type="output_text", annotations=[])
                output = [
                    ResponseOutputMessage(id="m", type="message", role="assistant", content=[text], status="completed")
                ]
            else:
                output = [
                    ResponseFunctionToolCall(
                        name="add", arguments=json.dumps({"a": n, "b": 1}), call_id=f"c{n}", type="function_call"
                    )
                    for n in range(tools)
                ]
            return ModelResponse(output=output, usage=Usage(), response_id=None)

        def stream_response(self, *_, **__):
            raise NotImplementedError

    @function_tool
    def add(a: int, b: int) -> str:
        """Add."""
        return str(a + b)

    agent = Agent(name="a", model=Instant(), tools=[add])
    return lambda: Runner.run_sync(agent, "go").final_output, lambda: Runner.run(agent, "go")


CASES = {
    "ragkit": ragkit_case,
    "ragkit, tools limited to 60 s (its default)": guarded_case,
    "openai-agents": openai_agents_case,
    "pydantic-ai-slim": pydantic_ai_case,
    "selectools": selectools_case,
    "selectools, tools limited to 60 s": guarded_selectools_case,
}


def measure(name: str) -> dict[str, float]:
    """Microseconds per turn, by `sync 1`, `sync 8`, `async 1`, `async 8`: the best of many small batches."""
    figures: dict[str, float] = {}
    for tools in (1, 8):
        sync, asynchronous = CASES[name](tools)
        asyncio.set_event_loop(asyncio.new_event_loop())  # some libraries run synchronously on the thread's event loop

        def batch(sync: Sync = sync) -> float:
            started_at = time.perf_counter()
            for _ in range(BATCH):
                sync()
            return time.perf_counter() - started_at

        async def batches(asynchronous: Async = asynchronous) -> list[float]:
            times = []
            for _ in range(BATCHES):
                started_at = time.perf_counter()
                for _ in range(BATCH):
                    await asynchronous()
                times.append(time.perf_counter() - started_at)
            return times

        figures[f"sync {tools}"] = min(batch() for _ in range(BATCHES)) / BATCH / 2 * 1e6
        figures[f"async {tools}"] = min(asyncio.run(batches())) / BATCH / 2 * 1e6
    return figures


def find(name: str, pythons: list[str]) -> tuple[str, str]:
    """(Python, version) of the first environment with the library; ("", "") if there is none."""
    command = f"from importlib.metadata import version; print(version({name!r}))"
    for python in pythons:
        process = subprocess.run([python, "-c", command], capture_output=True, text=True, check=False)
        if process.returncode == 0:
            return python, process.stdout.strip()
    return "", ""


def main() -> None:
    """Measure every installed library and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--others", action="append", default=[], help="the Python of another environment; may be repeated"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only)))
        return
    places = {
        name: (sys.executable, "") if name.startswith("ragkit") else find(name.split(",")[0], options.others)
        for name in CASES
    }
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name, (python, _) in places.items() if python}
    for _ in range(options.rounds):
        for name, measured in rounds.items():
            command = [places[name][0], __file__, "--only", name]
            process = subprocess.run(command, capture_output=True, text=True, check=True)
            measured.append(json.loads(process.stdout.splitlines()[-1]))
    columns = list(rounds["ragkit"][0])
    print("microseconds per turn | " + " | ".join(columns))
    print("--- | " + " | ".join("---:" for _ in columns))
    for name, measured in rounds.items():
        middle = [statistics.median(row[column] for row in measured) for column in columns]
        print(f"{name} {places[name][1]} | " + " | ".join(f"{value:.0f}" for value in middle))


if __name__ == "__main__":
    main()
