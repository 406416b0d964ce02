"""The synchronous driver of the loop: carries out its effects and waits in threads. It makes no decisions."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from typing import TypeVar

from ragkit.agent.events import Event
from ragkit.agent.loop.loop import run_loop
from ragkit.agent.loop.run_state import RunState
from ragkit.agent.loop.side_effects import CallModel, Effect, RunFunction, RunTools, Sleep, ToolJob
from ragkit.agent.loop.tool_execution import execute_tool
from ragkit.agent.loop.tool_tracker import (
    ToolInboxItem,
    ToolTracker,
    create_emitter,
    incomplete_stream_error,
    meter_tool,
    on_cancel,
    run_in_thread,
    timeout_error,
    to_chunk_events,
)
from ragkit.agent.providers.base import Completion, StreamCompleted, StreamDelta
from ragkit.agent.providers.request_guard import check_request_allowed
from ragkit.agent.result import ToolOutcome
from ragkit.agent.runtime.background_tasks import THREAD_POOL
from ragkit.agent.tools.base import discard_output
from ragkit.errors import RunCancelled
from ragkit.usage.meter import use_meter

T = TypeVar("T")


def drive(run: RunState) -> Generator[Event, None, None]:
    """Drive a run in this thread. Yields its events; the last one is RunEnded. Raises the error that ends the run."""
    flow = run_loop(run)
    run.memory_turn.started_in = threading.get_ident()
    try:
        step: Event | Effect = next(flow)
        while True:
            if isinstance(step, Event):
                run.observers.notify_and_wait(step)
                run.memory_turn.pause(threading.get_ident())
                yield step
                failure = run.memory_turn.resume()
                step = flow.send(None) if failure is None else flow.throw(failure)
                continue
            try:
                if step.has_events:
                    outcome: object = yield from _perform_with_events(step)
                else:
                    outcome = _perform(run, step)
            except BaseException as error:  # noqa: BLE001 - the loop handles errors
                step = flow.throw(error)
            else:
                step = flow.send(outcome)
    except StopIteration:
        return
    finally:
        flow.close()


def _perform_with_events(effect: Effect) -> Generator[Event, None, object]:
    """Perform an effect that may emit events."""
    if isinstance(effect, RunTools):
        return (yield from _run_tools(effect))
    assert isinstance(effect, CallModel)  # noqa: S101 - no other effect has events
    check_request_allowed(effect.provider)
    return (yield from _stream_completion(effect))


def _perform(run: RunState, effect: Effect) -> object:
    """Perform an effect without events."""
    if isinstance(effect, CallModel):
        check_request_allowed(effect.provider)
        return _complete(effect)
    if isinstance(effect, RunTools):
        return [_execute_metered(job, discard_output) for job in effect.jobs]
    if isinstance(effect, Sleep):
        return _wait_for_result(run, Future(), effect.seconds)
    if isinstance(effect, RunFunction):
        return effect.function()
    return _wait_for_result(run, effect.future, run.cap_timeout(effect.timeout_s))


def _wait_for_result(run: RunState, future: Future[T], timeout_s: float | None) -> T | None:
    """The future's result; None on timeout. Raises RunCancelled."""
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    remove_listener = on_cancel(run, lambda _: done.set())
    try:
        done.wait(timeout_s)
    finally:
        remove_listener()
    if run.cancel is not None and run.cancel.cancelled:
        raise RunCancelled("the run was cancelled")
    return future.result() if future.done() else None


def _call_provider(call: CallModel) -> Completion:
    with use_meter(call.run.meter, iteration=call.run.iteration):
        return call.provider.complete(call.request)


def _complete(call: CallModel) -> Completion:
    if not call.provider.blocking or (call.timeout_s is None and call.run.cancel is None):
        return _call_provider(call)
    completion = _wait_for_result(call.run, THREAD_POOL.submit(lambda: _call_provider(call)), call.timeout_s)
    if completion is None:
        raise timeout_error(call)
    return completion


def _stream_completion(call: CallModel) -> Generator[Event, None, Completion]:
    inbox: queue.SimpleQueue[StreamDelta | BaseException] = queue.SimpleQueue()
    stopped = threading.Event()

    def listen() -> None:
        with use_meter(call.run.meter, iteration=call.run.iteration):
            delta = None
            for delta in call.provider.stream(call.request):
                inbox.put(delta)
                if stopped.is_set():
                    return
        if not isinstance(delta, StreamCompleted):
            inbox.put(incomplete_stream_error(call))

    run_in_thread(listen, inbox.put)
    remove_listener = on_cancel(call.run, inbox.put)
    try:
        while True:
            try:
                item = inbox.get(timeout=call.run.cap_timeout(call.timeout_s))
            except queue.Empty:
                raise timeout_error(call) from None
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, StreamCompleted):
                return item.completion
            for event in to_chunk_events(call.run, item):
                yield from _notify_and_yield(event, call.run)
    finally:
        stopped.set()
        remove_listener()


def _run_tools(effect: RunTools) -> Generator[Event, None, list[ToolOutcome]]:
    inbox: queue.SimpleQueue[ToolInboxItem] = queue.SimpleQueue()
    tracker = ToolTracker(effect.jobs)
    remove_listener = on_cancel(effect.run, inbox.put)
    for index, job in enumerate(effect.jobs):
        start_tool(index, job, inbox.put)
    try:
        while not tracker.is_done:
            try:
                item = inbox.get(timeout=tracker.seconds_left())
            except queue.Empty:
                tracker.expire_overdue()
                continue
            yield from _notify_and_yield(tracker.receive(item), effect.run)
    finally:
        tracker.abandon_unfinished()
        remove_listener()
    return tracker.outcomes


def start_tool(index: int, job: ToolJob, put: Callable[[ToolInboxItem], None]) -> None:
    """Execute a tool in a thread; put its output chunks and its outcome into the inbox."""
    emit = create_emitter(job, put)
    run_in_thread(lambda: put((index, _execute_metered(job, emit))), put)


def _execute_metered(job: ToolJob, emit: Callable[[str], None]) -> ToolOutcome:
    with meter_tool(job):
        return execute_tool(job, emit)


def _notify_and_yield(event: Event | None, run: RunState) -> Iterator[Event]:
    if event is not None:
        run.observers.notify_and_wait(event)
        run.memory_turn.pause(threading.get_ident())
        yield event
        if failure := run.memory_turn.resume():
            raise failure
