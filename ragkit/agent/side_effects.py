"""What the loop asks of whoever drives it. The loop itself waits for nothing and calls nobody."""

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
    from ragkit.agent.run_state import RunState

T = TypeVar("T")


@dataclass(slots=True)
class CallModel:
    """Send a request to a model. The outcome is a Completion; a ProviderError is raised into the loop."""

    run: RunState
    provider: Provider
    request: ModelRequest
    timeout_s: float | None
    streaming: bool = False
    """Whether the pieces of the answer are wanted as they come."""

    @property
    def has_events(self) -> bool:
        """Whether events may come before the outcome."""
        return self.streaming


@dataclass(slots=True)
class ToolJob:
    """One tool call, checked and ready."""

    run: RunState
    call: ToolCall
    tool: Tool
    arguments: dict[str, object]
    timeout_s: float | None
    abandoned: bool = False
    """Nobody waits for it any more."""

    def create_context(self, attempt: int, tries: int, emit: Callable[[str], None]) -> ToolContext:
        """What the tool sees of the run."""
        run = self.run
        return ToolContext(
            run.context,
            run.state,
            run.agent.name,
            self.tool.name,
            self.call.id,
            run.id,
            attempt,
            tries,
            emit,
            self.is_cancelled,
        )

    def is_cancelled(self) -> bool:
        """Whether the run was stopped, or has stopped waiting for this tool."""
        return self.abandoned or (self.run.cancel is not None and self.run.cancel.cancelled)


@dataclass(slots=True)
class RunTools:
    """Execute tools at the same time. The outcome is a list of ToolOutcomes, in the order of the jobs."""

    run: RunState
    jobs: list[ToolJob]

    @property
    def single_direct_job(self) -> ToolJob | None:
        """The only job, where it can only return and nothing limits it: who drives may call it and wait."""
        if len(self.jobs) != 1 or self.run.cancel is not None:
            return None
        job = self.jobs[0]
        return job if job.timeout_s is None and job.tool.only_returns else None

    @property
    def has_events(self) -> bool:
        """Whether events may come before the outcome, or somebody must watch the clock.

        Not so for a single call of a plain function that nothing limits: no thread is needed to wait for it.
        """
        job = self.single_direct_job
        return job is None or job.tool.is_async


@dataclass(slots=True)
class Sleep:
    """Let so many seconds pass."""

    seconds: float
    has_events = False


@dataclass(slots=True)
class RunFunction(Generic[T]):
    """Call a function that may wait for a disk, a network or a person. The outcome is what it returns."""

    function: Callable[[], T]
    blocking: bool
    """False: it takes no time worth speaking of and may be called anywhere."""
    has_events = False


@dataclass(slots=True)
class AwaitFuture(Generic[T]):
    """Wait for a future. The outcome is its result."""

    future: Future[T]
    has_events = False


Effect: TypeAlias = CallModel | RunTools | Sleep | RunFunction[object] | AwaitFuture[object]
EffectGenerator: TypeAlias = "Generator[Event | Effect, object, T]"
"""A part of the loop: yields events and effects, is sent the outcomes of the effects, returns a T."""


def call_model(effect: CallModel) -> EffectGenerator[Completion]:
    """Ask for a completion."""
    return cast("Completion", (yield effect))


def run_tools(effect: RunTools) -> EffectGenerator[list[ToolOutcome]]:
    """Ask for tools to be executed."""
    return cast("list[ToolOutcome]", (yield effect))


def sleep(seconds: float) -> EffectGenerator[None]:
    """Ask for time to pass."""
    yield Sleep(seconds)


def run_function(work: Callable[[], T], *, waits: bool) -> EffectGenerator[T]:
    """Ask for a function to be called."""
    return cast("T", (yield cast("RunFunction[object]", RunFunction(work, waits))))


def await_future(future: Future[T]) -> EffectGenerator[T]:
    """Ask for a future's result."""
    return cast("T", (yield cast("AwaitFuture[object]", AwaitFuture(future))))
