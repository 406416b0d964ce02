"""State that both drivers share: finished jobs, timeouts and errors of a turn's tools."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

from ragkit.agent.events import Event, ReasoningChunk, TextChunk, ToolCallChunk, ToolChunk
from ragkit.agent.loop.run_state import RunState
from ragkit.agent.loop.side_effects import CallModel, ToolJob
from ragkit.agent.loop.tool_execution import failed_outcome
from ragkit.agent.providers.base import ReasoningDelta, StreamDelta, TextDelta, ToolCallDelta
from ragkit.agent.result import ToolOutcome
from ragkit.agent.runtime.background_tasks import THREAD_POOL
from ragkit.errors import ConnectionFailed, RequestTimeout, RunCancelled, ToolTimeout
from ragkit.usage.meter import use_meter

ToolInboxItem: TypeAlias = "Event | tuple[int, ToolOutcome] | BaseException"
"""What arrives while tools run: an event, the outcome of a job, or an error."""


class ToolTracker:
    """The jobs of one turn, with their outcomes and deadlines."""

    def __init__(self, jobs: list[ToolJob]) -> None:
        now = time.monotonic()
        self.jobs = jobs
        self._outcomes: list[ToolOutcome | None] = [None] * len(jobs)
        self._deadlines = [float("inf") if job.timeout_s is None else now + job.timeout_s for job in jobs]
        self._started_at = now
        self._remaining = len(jobs)

    @property
    def is_done(self) -> bool:
        """Whether every job has an outcome."""
        return self._remaining == 0

    @property
    def outcomes(self) -> list[ToolOutcome]:
        """The outcomes, in the order of the jobs."""
        return [outcome for outcome in self._outcomes if outcome is not None]

    def seconds_left(self) -> float | None:
        """Seconds until the next job times out; None: no timeout."""
        until = min(until for until, outcome in zip(self._deadlines, self._outcomes, strict=True) if outcome is None)
        return None if until == float("inf") else max(0.0, until - time.monotonic())

    def receive(self, item: ToolInboxItem) -> Event | None:
        """Record an arrival. Returns an event to pass on; raises an error that ends the run."""
        if isinstance(item, BaseException):
            raise item
        if isinstance(item, Event):
            return item
        index, outcome = item
        if self._outcomes[index] is None:
            self._set_outcome(index, outcome)
        return None

    def expire_overdue(self) -> None:
        """Abandon the jobs that exceeded their timeout."""
        now = time.monotonic()
        for index, job in enumerate(self.jobs):
            if self._outcomes[index] is None and self._deadlines[index] <= now:
                job.abandoned = True
                error = ToolTimeout(job.tool.name, job.timeout_s or 0.0)
                self._set_outcome(index, failed_outcome(job, error, now - self._started_at, 1))

    def abandon_unfinished(self) -> None:
        """Abandon every unfinished job."""
        for index, job in enumerate(self.jobs):
            job.abandoned = job.abandoned or self._outcomes[index] is None

    def _set_outcome(self, index: int, outcome: ToolOutcome) -> None:
        self._outcomes[index] = outcome
        self._remaining -= 1


def run_in_thread(work: Callable[[], None], put: Callable[[BaseException], None]) -> None:
    """Run `work` in a thread; put its exception into the inbox."""

    def job() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again in the driver
            put(error)

    THREAD_POOL.start(job)


def on_cancel(run: RunState, put: Callable[[RunCancelled], None]) -> Callable[[], None]:
    """Put RunCancelled into the inbox when the run is cancelled. Returns a function that unsubscribes."""
    if run.cancel is None:
        return lambda: None
    return run.cancel.add_listener(lambda: put(RunCancelled("the run was cancelled")))


def meter_tool(job: ToolJob) -> use_meter:
    """The usage meter scope of a tool's own calls."""
    return use_meter(job.run.meter, iteration=job.run.iteration, tool=job.tool.name)


def create_emitter(job: ToolJob, put: Callable[[Event], None]) -> Callable[[str], None]:
    """The callback that receives a tool's output chunks."""
    return lambda text: put(ToolChunk(job.run.id, job.call, text))


def to_chunk_events(run: RunState, delta: StreamDelta) -> Iterator[Event]:
    """A stream delta as events; none if there is nothing to show."""
    if isinstance(delta, TextDelta):
        text = run.stream_filter.feed(delta.text)
        reasoning = run.stream_filter.take_reasoning()
        if reasoning:
            yield ReasoningChunk(run.id, reasoning)
        if text:
            run.has_streamed_text = True
            yield TextChunk(run.id, text)
    elif isinstance(delta, ReasoningDelta):
        yield ReasoningChunk(run.id, delta.text)
    elif isinstance(delta, ToolCallDelta):
        yield ToolCallChunk(run.id, delta.index, delta.name, delta.arguments)


def timeout_error(call: CallModel) -> RequestTimeout:
    """The error for a model timeout."""
    return RequestTimeout(call.provider.name, f"no answer within {call.timeout_s or 0.0:g} seconds")


def incomplete_stream_error(call: CallModel) -> ConnectionFailed:
    """The error for a stream that ended early."""
    return ConnectionFailed(call.provider.name, "the stream ended before the answer was complete")
