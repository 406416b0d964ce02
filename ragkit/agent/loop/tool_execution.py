"""Execute tool calls: retries, streamed output, and the text for the model.

`ToolExecution` has the logic; the synchronous and asynchronous functions only wait for the tool.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from ragkit.agent.result import ToolOutcome
from ragkit.agent.tools.base import ToolResult
from ragkit.errors import ToolRefused

if TYPE_CHECKING:
    from ragkit.agent.loop.side_effects import ToolJob

EmitCallback: TypeAlias = Callable[[str], None]


class RepeatedCall(ToolRefused):
    """A call was not executed, because the same call had the same result before. Part of a tool's result."""


class ToolExecution:
    """A tool call that is retried until it succeeds or has no attempts left; then it has an outcome.

    Call the tool inside `with`, which catches what it raises:
    `with attempt: attempt.succeed(collect(attempt.call(), attempt.emit))`.
    """

    def __init__(self, job: ToolJob, emit: EmitCallback) -> None:
        self.outcome: ToolOutcome | None = None
        self._job, self._emit = job, emit
        self._started_at = time.perf_counter()
        self._attempts = 0
        self._chunks = 0

    def emit(self, text: str) -> None:
        """Emit a chunk of output."""
        self._chunks += 1
        self._emit(text)

    def call_tool(self) -> object:
        """Call the tool for the next attempt. Returns its return value unchanged, also a coroutine or a generator."""
        self._attempts += 1
        job, tool = self._job, self._job.tool
        context = job.create_context(self._attempts, tool.retries + 1, self.emit) if tool.takes_context else None
        return tool.call_validated(job.arguments, context)

    def set_result(self, value: object) -> None:
        """Record the return value of the tool."""
        if type(value) is str:  # fast path, as in `collect_output`
            text, data = value, None
        else:
            result = to_tool_result(value)
            text, data = result.content, result.data
        self.outcome = ToolOutcome(self._job.call, text, data, None, self._elapsed_s(), self._attempts, self._chunks)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Catch whatever the tool raises: it goes back to the model."""
        if not isinstance(error, Exception):
            return False
        if self._attempts > self._job.tool.retries:
            self.outcome = failed_outcome(self._job, error, self._elapsed_s(), self._attempts)
        return True

    def _elapsed_s(self) -> float:
        return time.perf_counter() - self._started_at


def failed_outcome(job: ToolJob, error: Exception, seconds: float, attempts: int) -> ToolOutcome:
    """The outcome of a tool that raised or timed out."""
    words = str(error) or type(error).__name__
    return ToolOutcome(job.call, f"Error executing {job.tool.name}: {words}", None, error, seconds, attempts)


def to_tool_result(value: object) -> ToolResult:
    """The return value of a tool as text for the model, and as an object."""
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, str):
        return ToolResult(value)
    if value is None:
        return ToolResult("")
    from pydantic_core import to_json  # noqa: PLC0415 - tools that return text do not need it

    return ToolResult(to_json(value, fallback=str).decode(), value)


def execute_tool(job: ToolJob, emit: EmitCallback) -> ToolOutcome:
    """Execute a tool synchronously."""
    attempt = ToolExecution(job, emit)
    while attempt.outcome is None:
        with attempt:
            attempt.set_result(collect_output(attempt.call_tool(), attempt.emit))
    return attempt.outcome


async def aexecute_tool(job: ToolJob, emit: EmitCallback) -> ToolOutcome:
    """Execute a tool asynchronously."""
    attempt = ToolExecution(job, emit)
    while attempt.outcome is None:
        with attempt:
            attempt.set_result(await acollect_output(attempt.call_tool(), attempt.emit))
    return attempt.outcome


def collect_output(value: object, emit: EmitCallback) -> object:
    """The result of a call: the chunks of a generator are emitted and joined, a coroutine runs in a new event loop."""
    if type(value) is str:  # fast path: the checks below take longer than many tools
        return value
    if inspect.isgenerator(value) or (isinstance(value, Iterator) and not isinstance(value, str)):
        return _join_pieces([_emit_piece(piece, emit) for piece in value])
    if inspect.isawaitable(value) or isinstance(value, AsyncIterator):
        import asyncio  # noqa: PLC0415 - only asynchronous tools in synchronous runs need a loop

        return asyncio.run(_await_output(value, emit))
    return value


async def acollect_output(value: object, emit: EmitCallback) -> object:
    """The awaited result of a call; the chunks of an asynchronous generator are emitted and joined."""
    if inspect.isawaitable(value) or isinstance(value, AsyncIterator):
        return await _await_output(value, emit)
    return collect_output(value, emit)


async def _await_output(value: Awaitable[object] | AsyncIterator[object], emit: EmitCallback) -> object:
    if isinstance(value, AsyncIterator):
        return _join_pieces([_emit_piece(piece, emit) async for piece in value])
    return await value


def _emit_piece(value: object, emit: EmitCallback) -> ToolResult:
    result = to_tool_result(value)
    emit(result.content)
    return result


def _join_pieces(pieces: list[ToolResult]) -> ToolResult:
    """The chunks of a generator as one result; it keeps the last `data` among them."""
    data = next((piece.data for piece in reversed(pieces) if piece.data is not None), None)
    return ToolResult("".join(piece.content for piece in pieces), data)
