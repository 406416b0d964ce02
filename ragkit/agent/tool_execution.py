"""What happens when a tool is called: tries, pieces of output, and the text that the model will see.

`ToolExecution` is the one body; what waits for a tool, here or in an event loop, is a few lines around it.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from ragkit.agent.result import ToolOutcome
from ragkit.agent.tools.base import ToolResult
from ragkit.errors import RagkitError

if TYPE_CHECKING:
    from ragkit.agent.side_effects import ToolJob

EmitCallback: TypeAlias = Callable[[str], None]


class ToolTimeout(RagkitError):
    """A tool did not answer in time; the run has stopped waiting for it."""

    def __init__(self, tool: str, seconds: float) -> None:
        super().__init__(tool, seconds)
        self.tool, self.seconds = tool, seconds

    def __str__(self) -> str:
        return f"{self.tool} did not answer within {self.seconds:g} seconds"


class ToolRefused(RagkitError):
    """A tool call was not allowed, by a guardrail, the policy, a person or the coherence check."""


class ToolExecution:
    """A tool call that is tried until it succeeds or has no tries left; then it has an outcome.

    Whoever drives it calls inside `with`, which keeps what the tool raises:
    `with attempt: attempt.succeed(collect(attempt.call(), attempt.emit))`.
    """

    def __init__(self, job: ToolJob, emit: EmitCallback) -> None:
        self.outcome: ToolOutcome | None = None
        self._job, self._emit = job, emit
        self._started_at = time.perf_counter()
        self._attempts = 0
        self._chunks = 0

    def emit(self, text: str) -> None:
        """Send a piece of output on."""
        self._chunks += 1
        self._emit(text)

    def call_tool(self) -> object:
        """Call the tool once more, and hand back what it returns: a coroutine or generator too."""
        self._attempts += 1
        job = self._job
        if job.tool.takes_context:
            return job.tool.call_validated(
                job.arguments, job.create_context(self._attempts, job.tool.retries + 1, self.emit)
            )
        return job.tool.call_validated(job.arguments, None)

    def set_result(self, value: object) -> None:
        """The tool has returned this."""
        if type(value) is str:  # as in `collect`: the usual case, made quick
            text, data = value, None
        else:
            found = to_tool_result(value)
            text, data = found.content, found.data
        self.outcome = ToolOutcome(self._job.call, text, data, None, self._elapsed_s(), self._attempts, self._chunks)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """A border: whatever a tool raises goes back to the model."""
        if not isinstance(error, Exception):
            return False
        if self._attempts > self._job.tool.retries:
            self.outcome = failed_outcome(self._job, error, self._elapsed_s(), self._attempts)
        return True

    def _elapsed_s(self) -> float:
        return time.perf_counter() - self._started_at


def failed_outcome(job: ToolJob, error: Exception, seconds: float, tries: int) -> ToolOutcome:
    """The outcome of a tool that raised, or did not answer in time."""
    words = str(error) or type(error).__name__
    return ToolOutcome(job.call, f"Error executing {job.tool.name}: {words}", None, error, seconds, tries)


def to_tool_result(value: object) -> ToolResult:
    """The text of what a tool returned, and the object behind it."""
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, str):
        return ToolResult(value)
    if value is None:
        return ToolResult("")
    from pydantic_core import to_json  # noqa: PLC0415 - tools that return text do not need it

    return ToolResult(to_json(value, fallback=str).decode(), value)


def execute_tool(job: ToolJob, emit: EmitCallback) -> ToolOutcome:
    """Execute a tool, waiting here."""
    attempt = ToolExecution(job, emit)
    while attempt.outcome is None:
        with attempt:
            attempt.set_result(collect_output(attempt.call_tool(), attempt.emit))
    return attempt.outcome


async def aexecute_tool(job: ToolJob, emit: EmitCallback) -> ToolOutcome:
    """Execute a tool, awaiting."""
    attempt = ToolExecution(job, emit)
    while attempt.outcome is None:
        with attempt:
            attempt.set_result(await acollect_output(attempt.call_tool(), attempt.emit))
    return attempt.outcome


def collect_output(value: object, emit: EmitCallback) -> object:
    """What a function returned; a generator's pieces are sent on and joined, a coroutine is run in a new loop."""
    if type(value) is str:  # what most tools return: the checks below take longer than many a tool
        return value
    if inspect.isgenerator(value) or (isinstance(value, Iterator) and not isinstance(value, str)):
        return _join_pieces([_emit_piece(one, emit) for one in value])
    if inspect.isawaitable(value) or isinstance(value, AsyncIterator):
        import asyncio  # noqa: PLC0415 - only asynchronous tools in synchronous runs need a loop

        return asyncio.run(_await_output(value, emit))
    return value


async def acollect_output(value: object, emit: EmitCallback) -> object:
    """What a function returned, awaited; an asynchronous generator's pieces are sent on and joined."""
    if inspect.isawaitable(value) or isinstance(value, AsyncIterator):
        return await _await_output(value, emit)
    return collect_output(value, emit)


async def _await_output(value: Awaitable[object] | AsyncIterator[object], emit: EmitCallback) -> object:
    if isinstance(value, AsyncIterator):
        return _join_pieces([_emit_piece(one, emit) async for one in value])
    return await value


def _emit_piece(value: object, emit: EmitCallback) -> ToolResult:
    found = to_tool_result(value)
    emit(found.content)
    return found


def _join_pieces(pieces: list[ToolResult]) -> ToolResult:
    """The pieces of a generator as one result; the last object that came with one stays behind the text."""
    data = next((one.data for one in reversed(pieces) if one.data is not None), None)
    return ToolResult("".join(one.content for one in pieces), data)
