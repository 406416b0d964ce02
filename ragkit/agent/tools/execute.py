"""What happens when a tool is called: tries, pieces of output, and the text that the model will see.

`attempts` is the one body. It calls nothing itself; it yields what is to be called, and a driver that is
synchronous or asynchronous calls it.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from ragkit.agent.result import ToolOutcome
from ragkit.agent.tools.base import ToolResult
from ragkit.errors import RagkitError

if TYPE_CHECKING:
    from ragkit.agent.effects import ToolJob

T = TypeVar("T")
Emit: TypeAlias = Callable[[str], None]
Attempts: TypeAlias = Generator[Callable[[], object], object, ToolOutcome]


class ToolTimeout(RagkitError):
    """A tool did not answer in time; the run has stopped waiting for it."""

    def __init__(self, tool: str, seconds: float) -> None:
        super().__init__(tool, seconds)
        self.tool, self.seconds = tool, seconds

    def __str__(self) -> str:
        return f"{self.tool} did not answer within {self.seconds:g} seconds"


class ToolRefused(RagkitError):
    """A tool call was not allowed, by a guardrail, the policy, a person or the coherence check."""


def attempts(job: ToolJob, emit: Emit) -> Attempts:
    """Call a tool until it succeeds or has no tries left. Yields calls, is sent what they returned."""
    began = time.perf_counter()
    chunks = 0
    failure: Exception | None = None

    def counted(text: str) -> None:
        nonlocal chunks
        chunks += 1
        emit(text)

    tries = job.tool.retries + 1
    for attempt in range(1, tries + 1):
        context = job.tool_context(attempt, tries, counted)
        try:
            value = yield lambda context=context: job.tool.prepared(job.arguments, context)  # type: ignore[misc]
        except Exception as error:  # noqa: BLE001 - a border: whatever a tool raises goes back to the model
            failure = error
            continue
        found = render(value)
        seconds = time.perf_counter() - began
        return ToolOutcome(job.call, found.content, found.data, None, seconds, attempt, chunks)
    seconds = time.perf_counter() - began
    return failed(job.call.name, job, failure or ToolRefused("not executed"), seconds, tries)


def failed(name: str, job: ToolJob, error: Exception, seconds: float, tries: int) -> ToolOutcome:
    """The outcome of a tool that raised, or did not answer in time."""
    words = str(error) or type(error).__name__
    return ToolOutcome(job.call, f"Error executing {name}: {words}", None, error, seconds, tries)


def render(value: object) -> ToolResult:
    """The text of what a tool returned, and the object behind it."""
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, str):
        return ToolResult(value)
    if value is None:
        return ToolResult("")
    from pydantic_core import to_json  # noqa: PLC0415 - tools that return text do not need it

    return ToolResult(to_json(value, fallback=str).decode(), value)


def trampoline(steps: Attempts, emit: Emit) -> ToolOutcome:
    """Carry a tool's attempts out, waiting here."""
    try:
        call = next(steps)
        while True:
            try:
                value = collect(call(), emit)
            except Exception as error:  # noqa: BLE001 - handed to the attempts, which know what to do
                call = steps.throw(error)
            else:
                call = steps.send(value)
    except StopIteration as end:
        return _outcome(end)


async def atrampoline(steps: Attempts, emit: Emit) -> ToolOutcome:
    """Carry a tool's attempts out, awaiting."""
    try:
        call = next(steps)
        while True:
            try:
                value = await acollect(call(), emit)
            except Exception as error:  # noqa: BLE001 - handed to the attempts, which know what to do
                call = steps.throw(error)
            else:
                call = steps.send(value)
    except StopIteration as end:
        return _outcome(end)


def collect(value: object, emit: Emit) -> object:
    """What a function returned; a generator's pieces are sent on and joined, a coroutine is run in a new loop."""
    if inspect.isgenerator(value) or (isinstance(value, Iterator) and not isinstance(value, str)):
        return _joined([_piece(one, emit) for one in value])
    if inspect.isawaitable(value) or isinstance(value, AsyncIterator):
        import asyncio  # noqa: PLC0415 - only asynchronous tools in synchronous runs need a loop

        return asyncio.run(_await(value, emit))
    return value


async def acollect(value: object, emit: Emit) -> object:
    """What a function returned, awaited; an asynchronous generator's pieces are sent on and joined."""
    if inspect.isawaitable(value) or isinstance(value, AsyncIterator):
        return await _await(value, emit)
    return collect(value, emit)


async def _await(value: Awaitable[object] | AsyncIterator[object], emit: Emit) -> object:
    if isinstance(value, AsyncIterator):
        return _joined([_piece(one, emit) async for one in value])
    return await value


def _piece(value: object, emit: Emit) -> ToolResult:
    found = render(value)
    emit(found.content)
    return found


def _joined(pieces: list[ToolResult]) -> ToolResult:
    """The pieces of a generator as one result; the last object that came with one stays behind the text."""
    data = next((one.data for one in reversed(pieces) if one.data is not None), None)
    return ToolResult("".join(one.content for one in pieces), data)


def _outcome(end: StopIteration) -> ToolOutcome:
    found = end.value
    assert isinstance(found, ToolOutcome)  # noqa: S101 - what attempts returns
    return found
