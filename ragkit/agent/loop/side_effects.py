"""The effects that the loop yields; a driver carries them out. The loop itself does no I/O."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, cast

from ragkit.agent.events import Event
from ragkit.agent.messages import ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest, Provider
from ragkit.agent.result import ToolOutcome
from ragkit.agent.tools.base import Tool, ToolContext

if TYPE_CHECKING:
    from ragkit.agent.loop.run_state import RunState

T = TypeVar("T")


@dataclass(slots=True)
class CallModel:
    """Send a request to a model. The result is a Completion; a ProviderError is thrown into the loop."""

    run: RunState
    provider: Provider
    request: ModelRequest
    timeout_s: float | None
    streaming: bool = False
    """Whether to stream the answer."""

    @property
    def has_events(self) -> bool:
        """Whether events may precede the result."""
        return self.streaming


@dataclass(slots=True)
class ToolJob:
    """One validated tool call."""

    run: RunState
    call: ToolCall
    tool: Tool
    arguments: dict[str, object]
    timeout_s: float | None
    abandoned: bool = False
    """The run no longer waits for it."""

    def create_context(self, attempt: int, attempts: int, emit: Callable[[str], None]) -> ToolContext:
        """The context for the tool."""
        run = self.run
        return ToolContext(
            run.context,
            run.state,
            run.agent.name,
            self.tool.name,
            self.call.id,
            run.id,
            attempt,
            attempts,
            emit,
            self.is_cancelled,
        )

    def is_cancelled(self) -> bool:
        """Whether the run was cancelled, or no longer waits for this tool."""
        return self.abandoned or (self.run.cancel is not None and self.run.cancel.cancelled)


@dataclass(slots=True)
class RunTools:
    """Execute tools concurrently. The result is a list of ToolOutcomes, in the order of the jobs."""

    run: RunState
    jobs: list[ToolJob]

    @property
    def single_direct_job(self) -> ToolJob | None:
        """The only job, if it only returns and has no timeout: the driver may call it directly."""
        if len(self.jobs) != 1 or self.run.cancel is not None:
            return None
        job = self.jobs[0]
        return job if job.timeout_s is None and job.tool.only_returns else None

    @property
    def has_events(self) -> bool:
        """Whether events may precede the result, or a timeout applies.

        False for a single call of a plain function without a timeout: it needs no thread.
        """
        job = self.single_direct_job
        return job is None or job.tool.is_async


@dataclass(slots=True)
class Sleep:
    """Wait `seconds`."""

    seconds: float
    has_events = False


@dataclass(slots=True)
class RunFunction(Generic[T]):
    """Call a function that may block on disk, network or user input. The result is its return value."""

    function: Callable[[], T]
    blocking: bool
    """False: it returns at once and may be called in an event loop."""
    has_events = False


@dataclass(slots=True)
class AwaitFuture(Generic[T]):
    """Wait for a future. The result is that of the future; None after `timeout_s` seconds, without cancelling it."""

    future: Future[T]
    timeout_s: float | None = None
    has_events = False


Effect: TypeAlias = CallModel | RunTools | Sleep | RunFunction[object] | AwaitFuture[object]
EffectGenerator: TypeAlias = "Generator[Event | Effect, object, T]"
"""A generator of the loop: yields events and effects, receives the results of the effects, returns a T."""


def call_model(effect: CallModel) -> EffectGenerator[Completion]:
    """Yield CallModel."""
    return cast("Completion", (yield effect))


def run_tools(effect: RunTools) -> EffectGenerator[list[ToolOutcome]]:
    """Yield RunTools."""
    return cast("list[ToolOutcome]", (yield effect))


def sleep(seconds: float) -> EffectGenerator[None]:
    """Yield Sleep."""
    yield Sleep(seconds)


def run_function(work: Callable[[], T], *, blocking: bool) -> EffectGenerator[T]:
    """Yield RunFunction."""
    return cast("T", (yield cast("RunFunction[object]", RunFunction(work, blocking))))


def await_future(future: Future[T]) -> EffectGenerator[T]:
    """Yield AwaitFuture."""
    return cast("T", (yield cast("AwaitFuture[object]", AwaitFuture(future))))


def wait_for_future(future: Future[T], timeout_s: float) -> EffectGenerator[None]:
    """Yield AwaitFuture, for some seconds at most."""
    yield cast("AwaitFuture[object]", AwaitFuture(future, timeout_s))
