"""The two drivers of the loop: they do what it asks for, one waiting in threads, the other in an event loop.

Neither decides anything. What both need to know about a turn's work is in `Board` and the functions below it.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import Future
from typing import TypeAlias, TypeVar

from ragkit.agent.cancel import Cancellation
from ragkit.agent.effects import Await, CallModel, Do, Effect, RunTools, ToolJob, Wait
from ragkit.agent.events import Event, TextChunk, ToolCallChunk, ToolChunk
from ragkit.agent.loop import run_loop
from ragkit.agent.observers import Watch
from ragkit.agent.providers.base import Completed, Completion, Delta, TextDelta
from ragkit.agent.providers.guard import check_allowed
from ragkit.agent.result import ToolOutcome
from ragkit.agent.run import Run
from ragkit.agent.tools.execute import ToolTimeout, aexecute, execute, failed
from ragkit.agent.workers import WORKERS
from ragkit.errors import Cancelled, ConnectionFailed, RequestTimeout
from ragkit.usage.meter import metered

T = TypeVar("T")
Item: TypeAlias = "Event | tuple[int, Future[ToolOutcome] | asyncio.Task[ToolOutcome]] | None"
"""What arrives while tools run: an event, a job that is done, or None when the run was cancelled."""


class Board:
    """The jobs of one turn: which are done, and how long the others may still take."""

    def __init__(self, jobs: list[ToolJob]) -> None:
        now = time.monotonic()
        self.jobs = jobs
        self._found: list[ToolOutcome | None] = [None] * len(jobs)
        self._until = [float("inf") if job.timeout_s is None else now + job.timeout_s for job in jobs]
        self._began = now
        self._left = len(jobs)

    @property
    def done(self) -> bool:
        """Whether every job has an outcome."""
        return self._left == 0

    @property
    def outcomes(self) -> list[ToolOutcome]:
        """The outcomes, in the order of the jobs."""
        return [one for one in self._found if one is not None]

    def patience(self) -> float | None:
        """Seconds until the next job has taken too long; None: nothing limits the waiting."""
        until = min(until for until, found in zip(self._until, self._found, strict=True) if found is None)
        return None if until == float("inf") else max(0.0, until - time.monotonic())

    def take(self, item: Item) -> Event | None:
        """Note what arrived. Returns an event to pass on; raises Cancelled, or what broke a job from outside."""
        if item is None:
            raise Cancelled("the run was cancelled")
        if isinstance(item, Event):
            return item
        index, future = item
        if self._found[index] is None and not self.jobs[index].abandoned:
            self._settle(index, future.result())
        return None

    def expire(self) -> None:
        """Give up the jobs that have taken too long."""
        now = time.monotonic()
        for index, job in enumerate(self.jobs):
            if self._found[index] is None and self._until[index] <= now:
                job.abandoned = True
                error = ToolTimeout(job.tool.name, job.timeout_s or 0.0)
                self._settle(index, failed(job, error, now - self._began, 1))

    def abandon(self) -> None:
        """Give up every job that is not done."""
        for index, job in enumerate(self.jobs):
            job.abandoned = job.abandoned or self._found[index] is None

    def _settle(self, index: int, outcome: ToolOutcome) -> None:
        self._found[index] = outcome
        self._left -= 1


def chunk_event(run: Run, delta: Delta) -> Event | None:
    """A piece of an answer as an event; None for its end."""
    if isinstance(delta, TextDelta):
        return TextChunk(run.id, delta.text)
    if isinstance(delta, Completed):
        return None
    return ToolCallChunk(run.id, delta.index, delta.name, delta.arguments)


def _no_answer(call: CallModel) -> RequestTimeout:
    return RequestTimeout(call.provider.name, f"no answer within {call.timeout_s or 0.0:g} seconds")


def _cut_off(call: CallModel) -> ConnectionFailed:
    return ConnectionFailed(call.provider.name, "the stream ended before the answer was complete")


def _emitter(job: ToolJob, put: Callable[[Event], None]) -> Callable[[str], None]:
    return lambda text: put(ToolChunk(job.run.id, job.call, text))


def drive(run: Run, watch: Watch) -> Generator[Event, None, None]:
    """Drive a run in this thread. Yields its events; the last one is RunEnded. Raises what ends the run."""
    flow = run_loop(run)
    try:
        step: Event | Effect = next(flow)
        while True:
            if isinstance(step, Event):
                watch.see(step)
                yield step
                step = flow.send(None)
                continue
            try:
                outcome = yield from _perform(run, step, watch)
            except BaseException as error:  # noqa: BLE001 - the loop decides what an error means
                step = flow.throw(error)
            else:
                step = flow.send(outcome)
    except StopIteration:
        return
    finally:
        flow.close()


def _perform(run: Run, effect: Effect, watch: Watch) -> Generator[Event, None, object]:
    if isinstance(effect, CallModel):
        check_allowed(effect.provider)
        return (yield from _live(effect, watch)) if effect.live else _complete(effect)
    if isinstance(effect, RunTools):
        return (yield from _tools(effect, watch))
    if isinstance(effect, Wait):
        _result(Future(), effect.seconds, run.cancel)
        return None
    return effect.work() if isinstance(effect, Do) else _result(effect.future, run.within(None), run.cancel)


def _result(future: Future[T], timeout_s: float | None, cancel: Cancellation | None) -> T | None:
    """The future's result; None when the time is over first. Raises Cancelled when the run is."""
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    forget = cancel.listen(done.set) if cancel is not None else None
    try:
        done.wait(timeout_s)
    finally:
        if forget is not None:
            forget()
    if cancel is not None and cancel.cancelled:
        raise Cancelled("the run was cancelled")
    return future.result() if future.done() else None


def _complete(call: CallModel) -> Completion:
    def work() -> Completion:
        with metered(call.run.meter, iteration=call.run.iteration):
            return call.provider.complete(call.request)

    if call.timeout_s is None and call.run.cancel is None:
        return work()
    found = _result(WORKERS.submit(work), call.timeout_s, call.run.cancel)
    if found is None:
        raise _no_answer(call)
    return found


def _live(call: CallModel, watch: Watch) -> Generator[Event, None, Completion]:
    inbox: queue.SimpleQueue[Delta | Future[None] | None] = queue.SimpleQueue()
    unwanted = threading.Event()

    def work() -> None:
        with metered(call.run.meter, iteration=call.run.iteration):
            for delta in call.provider.stream(call.request):
                inbox.put(delta)
                if unwanted.is_set():
                    return

    cancel = call.run.cancel
    forget = cancel.listen(lambda: inbox.put(None)) if cancel is not None else None
    WORKERS.submit(work).add_done_callback(inbox.put)
    try:
        while True:
            try:
                item = inbox.get(timeout=call.run.within(call.timeout_s))
            except queue.Empty:
                raise _no_answer(call) from None
            if item is None:
                raise Cancelled("the run was cancelled")
            if isinstance(item, Future):
                item.result()
                raise _cut_off(call)
            if isinstance(item, Completed):
                return item.completion
            yield from _seen(chunk_event(call.run, item), watch)
    finally:
        unwanted.set()
        if forget is not None:
            forget()


def _tools(effect: RunTools, watch: Watch) -> Generator[Event, None, list[ToolOutcome]]:
    inbox: queue.SimpleQueue[Item] = queue.SimpleQueue()
    board = Board(effect.jobs)
    cancel = effect.run.cancel
    forget = cancel.listen(lambda: inbox.put(None)) if cancel is not None else None
    for index, job in enumerate(effect.jobs):
        _start(index, job, inbox.put)
    try:
        while not board.done:
            try:
                item = inbox.get(timeout=board.patience())
            except queue.Empty:
                board.expire()
                continue
            yield from _seen(board.take(item), watch)
    finally:
        board.abandon()
        if forget is not None:
            forget()
    return board.outcomes


def _start(index: int, job: ToolJob, put: Callable[[Item], None]) -> None:
    """Execute a tool in a thread; its pieces and its end are put where they are waited for."""
    emit = _emitter(job, put)

    def work() -> ToolOutcome:
        with metered(job.run.meter, iteration=job.run.iteration, tool=job.tool.name):
            return execute(job, emit)

    WORKERS.submit(work).add_done_callback(lambda future: put((index, future)))


def _seen(event: Event | None, watch: Watch) -> Iterator[Event]:
    if event is not None:
        watch.see(event)
        yield event


async def adrive(run: Run, watch: Watch) -> AsyncIterator[Event]:
    """Drive a run in this task. Yields its events; the last one is RunEnded. Raises what ends the run."""
    flow = run_loop(run)
    hands = _Hands(run)
    try:
        step: Event | Effect = next(flow)
        while True:
            if isinstance(step, Event):
                watch.see(step)
                yield step
                step = flow.send(None)
                continue
            try:
                if isinstance(step, RunTools) or (isinstance(step, CallModel) and step.live):
                    async for event in hands.events(step):
                        watch.see(event)
                        yield event
                else:
                    hands.outcome = await hands.perform(step)
            except BaseException as error:  # noqa: BLE001 - the loop decides what an error means
                step = flow.throw(error)
            else:
                step = flow.send(hands.outcome)
    except StopIteration:
        return
    finally:
        flow.close()


class _Hands:
    """What the asynchronous driver can do. `outcome` is what the last `events` came to."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.outcome: object = None

    async def perform(self, effect: Effect) -> object:
        if isinstance(effect, CallModel):
            check_allowed(effect.provider)
            return await self._complete(effect)
        if isinstance(effect, Wait):
            return await self._result(asyncio.sleep(effect.seconds), None)
        if isinstance(effect, Do):
            return await asyncio.wrap_future(WORKERS.submit(effect.work)) if effect.waits else effect.work()
        assert isinstance(effect, Await)  # noqa: S101 - the other effects come with events
        return await self._result(asyncio.wrap_future(effect.future), self.run.within(None))

    def events(self, effect: Effect) -> AsyncIterator[Event]:
        if isinstance(effect, RunTools):
            return self._tools(effect)
        assert isinstance(effect, CallModel)  # noqa: S101 - nothing else comes with events
        check_allowed(effect.provider)
        return self._live(effect)

    async def _complete(self, call: CallModel) -> Completion:
        with metered(self.run.meter, iteration=self.run.iteration):
            found = await self._result(call.provider.acomplete(call.request), call.timeout_s)
        if found is None:
            raise _no_answer(call)
        return found

    async def _result(self, work: Awaitable[T], timeout_s: float | None) -> T | None:
        """What `work` comes to; None when the time is over first. Raises Cancelled when the run is."""
        task = asyncio.ensure_future(work)
        stop, forget = self._stop()
        try:
            futures: list[asyncio.Future[T] | asyncio.Future[None]] = [task, stop] if stop else [task]
            await asyncio.wait(futures, timeout=timeout_s, return_when="FIRST_COMPLETED")
            if stop is not None and stop.done():
                raise Cancelled("the run was cancelled")
            return task.result() if task.done() else None
        finally:
            task.cancel()
            forget()

    def _stop(self) -> tuple[asyncio.Future[None] | None, Callable[[], None]]:
        """A future that is done when the run is cancelled, and what ends the listening."""
        if self.run.cancel is None:
            return None, lambda: None
        stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done() -> None:
            if not stop.done():
                stop.set_result(None)

        return stop, self._listen(done)

    async def _live(self, call: CallModel) -> AsyncIterator[Event]:
        inbox: asyncio.Queue[Delta | asyncio.Task[None] | None] = asyncio.Queue()

        async def work() -> None:
            with metered(self.run.meter, iteration=self.run.iteration):
                async for delta in call.provider.astream(call.request):
                    inbox.put_nowait(delta)

        task = asyncio.create_task(work())
        task.add_done_callback(inbox.put_nowait)
        forget = self._listen(lambda: inbox.put_nowait(None))
        try:
            while True:
                item = await _get(inbox, self.run.within(call.timeout_s))
                if isinstance(item, TimeoutError):
                    raise _no_answer(call)
                if item is None:
                    raise Cancelled("the run was cancelled")
                if isinstance(item, asyncio.Task):
                    item.result()
                    raise _cut_off(call)
                if isinstance(item, Completed):
                    self.outcome = item.completion
                    return
                event = chunk_event(self.run, item)
                if event is not None:
                    yield event
        finally:
            task.cancel()
            forget()

    async def _tools(self, effect: RunTools) -> AsyncIterator[Event]:
        inbox: asyncio.Queue[Item] = asyncio.Queue()
        board = Board(effect.jobs)
        forget = self._listen(lambda: inbox.put_nowait(None))
        tasks = [self._start(index, job, inbox) for index, job in enumerate(effect.jobs)]
        try:
            while not board.done:
                item = await _get(inbox, board.patience())
                if isinstance(item, TimeoutError):
                    board.expire()
                    continue
                event = board.take(item)
                if event is not None:
                    yield event
        finally:
            board.abandon()
            for task in tasks:
                task.cancel()
            forget()
        self.outcome = board.outcomes

    def _start(
        self, index: int, job: ToolJob, inbox: asyncio.Queue[Item]
    ) -> asyncio.Task[ToolOutcome] | Future[ToolOutcome]:
        """Execute a tool: an asynchronous one in a task, another in a thread."""
        loop = asyncio.get_running_loop()
        if not job.tool.is_async:

            def put(item: Item) -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(inbox.put_nowait, item)

            _start(index, job, put)
            return Future()
        emit = _emitter(job, inbox.put_nowait)

        async def work() -> ToolOutcome:
            with metered(job.run.meter, iteration=job.run.iteration, tool=job.tool.name):
                return await aexecute(job, emit)

        task = asyncio.create_task(work())
        task.add_done_callback(lambda done: inbox.put_nowait((index, done)))
        return task

    def _listen(self, stop: Callable[[], None]) -> Callable[[], None]:
        if self.run.cancel is None:
            return lambda: None
        loop = asyncio.get_running_loop()

        def tell() -> None:
            loop.call_soon_threadsafe(stop)

        return self.run.cancel.listen(tell)


async def _get(inbox: asyncio.Queue[T], timeout_s: float | None) -> T | TimeoutError:
    """The next item, or the TimeoutError when none came in time."""
    try:
        async with asyncio.timeout(timeout_s):
            return await inbox.get()
    except TimeoutError as error:
        return error
