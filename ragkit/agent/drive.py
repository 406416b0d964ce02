"""The synchronous driver of the loop: it does what the loop asks for, and waits in threads. It decides nothing."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from typing import TypeVar

from ragkit.agent.board import (
    Board,
    Item,
    cancelled,
    chunk_event,
    cut_off,
    emitter,
    in_thread,
    no_answer,
    tool_scope,
)
from ragkit.agent.cancel import Cancellation
from ragkit.agent.effects import CallModel, Do, Effect, RunTools, ToolJob, Wait
from ragkit.agent.events import Event
from ragkit.agent.loop import run_loop
from ragkit.agent.providers.base import Completed, Completion, Delta
from ragkit.agent.providers.guard import check_allowed
from ragkit.agent.result import ToolOutcome
from ragkit.agent.run import Run
from ragkit.agent.tools.execute import execute
from ragkit.usage.meter import metered

T = TypeVar("T")


def drive(run: Run) -> Generator[Event, None, None]:
    """Drive a run in this thread. Yields its events; the last one is RunEnded. Raises what ends the run."""
    flow = run_loop(run)
    try:
        step: Event | Effect = next(flow)
        while True:
            if isinstance(step, Event):
                run.watch.see(step)
                yield step
                step = flow.send(None)
                continue
            try:
                if step.has_events:
                    outcome: object = yield from _watched(step)
                else:
                    outcome = _perform(run, step)
            except BaseException as error:  # noqa: BLE001 - the loop decides what an error means
                step = flow.throw(error)
            else:
                step = flow.send(outcome)
    except StopIteration:
        return
    finally:
        flow.close()


def _watched(effect: Effect) -> Generator[Event, None, object]:
    """Do what has events on its way."""
    if isinstance(effect, RunTools):
        return (yield from _tools(effect))
    assert isinstance(effect, CallModel)  # noqa: S101 - nothing else has events
    check_allowed(effect.provider)
    return (yield from _live(effect))


def _perform(run: Run, effect: Effect) -> object:
    """Do what has no events on its way."""
    if isinstance(effect, CallModel):
        check_allowed(effect.provider)
        return _complete(effect)
    if isinstance(effect, RunTools):
        return [_execute(job, _ignore) for job in effect.jobs]
    if isinstance(effect, Wait):
        _result(Future(), effect.seconds, run.cancel)
        return None
    return effect.work() if isinstance(effect, Do) else _result(effect.future, run.within(None), run.cancel)


def _result(future: Future[T], timeout_s: float | None, cancel: Cancellation | None) -> T | None:
    """The future's result; None when the time is over first. Raises Cancelled when the run is."""
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    forget = _listen(cancel, done.set)
    try:
        done.wait(timeout_s)
    finally:
        forget()
    if cancel is not None and cancel.cancelled:
        raise cancelled()
    return future.result() if future.done() else None


def _listen(cancel: Cancellation | None, stop: Callable[[], None]) -> Callable[[], None]:
    """Call `stop` when the run is cancelled. Returns what ends the listening."""
    return cancel.listen(stop) if cancel is not None else _nothing


def _nothing() -> None:
    return None


def _ask(call: CallModel) -> Completion:
    with metered(call.run.meter, iteration=call.run.iteration):
        return call.provider.complete(call.request)


def _complete(call: CallModel) -> Completion:
    if not call.provider.waits or (call.timeout_s is None and call.run.cancel is None):
        return _ask(call)
    inbox: queue.SimpleQueue[Completion | BaseException] = queue.SimpleQueue()
    in_thread(lambda: inbox.put(_ask(call)), inbox.put)
    forget = _listen(call.run.cancel, lambda: inbox.put(cancelled()))
    try:
        found = inbox.get(timeout=call.timeout_s)
    except queue.Empty:
        raise no_answer(call) from None
    finally:
        forget()
    if isinstance(found, BaseException):
        raise found
    return found


def _live(call: CallModel) -> Generator[Event, None, Completion]:
    inbox: queue.SimpleQueue[Delta | BaseException] = queue.SimpleQueue()
    unwanted = threading.Event()

    def listen() -> None:
        with metered(call.run.meter, iteration=call.run.iteration):
            for delta in call.provider.stream(call.request):
                inbox.put(delta)
                if unwanted.is_set():
                    return
        inbox.put(cut_off(call))

    in_thread(listen, inbox.put)
    forget = _listen(call.run.cancel, lambda: inbox.put(cancelled()))
    try:
        while True:
            try:
                item = inbox.get(timeout=call.run.within(call.timeout_s))
            except queue.Empty:
                raise no_answer(call) from None
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, Completed):
                return item.completion
            yield from _seen(chunk_event(call.run, item), call.run)
    finally:
        unwanted.set()
        forget()


def _tools(effect: RunTools) -> Generator[Event, None, list[ToolOutcome]]:
    inbox: queue.SimpleQueue[Item] = queue.SimpleQueue()
    board = Board(effect.jobs)
    forget = _listen(effect.run.cancel, lambda: inbox.put(cancelled()))
    for index, job in enumerate(effect.jobs):
        start_tool(index, job, inbox.put)
    try:
        while not board.done:
            try:
                item = inbox.get(timeout=board.patience())
            except queue.Empty:
                board.expire()
                continue
            yield from _seen(board.take(item), effect.run)
    finally:
        board.abandon()
        forget()
    return board.outcomes


def start_tool(index: int, job: ToolJob, put: Callable[[Item], None]) -> None:
    """Execute a tool in a thread; its pieces and its outcome are put where they are waited for."""
    emit = emitter(job, put)
    in_thread(lambda: put((index, _execute(job, emit))), put)


def _execute(job: ToolJob, emit: Callable[[str], None]) -> ToolOutcome:
    with tool_scope(job):
        return execute(job, emit)


def _ignore(_: str) -> None:
    return None


def _seen(event: Event | None, run: Run) -> Iterator[Event]:
    if event is not None:
        run.watch.see(event)
        yield event
