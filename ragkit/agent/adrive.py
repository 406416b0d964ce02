"""The asynchronous driver of the loop: it does what the loop asks for, and awaits. It decides nothing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Generic, TypeVar

from ragkit.agent.board import Board, Item, cancelled, chunk_event, cut_off, emitter, no_answer, tool_scope
from ragkit.agent.drive import start_tool
from ragkit.agent.effects import Await, CallModel, Do, Effect, RunTools, ToolJob, Wait
from ragkit.agent.events import Event
from ragkit.agent.loop import run_loop
from ragkit.agent.providers.base import Completed, Completion, Delta
from ragkit.agent.providers.guard import check_allowed
from ragkit.agent.run import Run
from ragkit.agent.tools.execute import aexecute
from ragkit.agent.workers import WORKERS
from ragkit.usage.meter import metered

T = TypeVar("T")


async def adrive(run: Run) -> AsyncGenerator[Event, None]:
    """Drive a run in this task. Yields its events; the last one is RunEnded. Raises what ends the run."""
    flow = run_loop(run)
    hands = _Hands(run)
    try:
        step: Event | Effect = next(flow)
        while True:
            if isinstance(step, Event):
                run.watch.see(step)
                yield step
                step = flow.send(None)
                continue
            try:
                if hands.hears(step):
                    async with aclosing(hands.events(step)) as events:
                        async for event in events:
                            run.watch.see(event)
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


class _Inbox(Generic[T]):
    """A queue for one reader, for use in one event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._items: deque[T] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: T) -> None:
        """Add an item, from the loop's own thread."""
        self._items.append(item)
        self._wake()

    def put_from_anywhere(self, item: T) -> None:
        """Add an item from any thread; after the loop has ended nobody wants it."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.put, item)

    async def get(self, timeout_s: float | None) -> T | None:
        """The next item; None when none came in time."""
        if not self._items:
            self._waiter = self.loop.create_future()
            alarm = self.loop.call_later(timeout_s, self._wake) if timeout_s is not None else None
            try:
                await self._waiter
            finally:
                if alarm is not None:
                    alarm.cancel()
        return self._items.popleft() if self._items else None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Hands:
    """What the asynchronous driver can do. `outcome` is what the last `events` came to."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.outcome: object = None

    def hears(self, effect: Effect) -> bool:
        """Whether events may come on the way."""
        if isinstance(effect, RunTools):
            job = effect.lone
            return job is None or not job.tool.is_async
        return isinstance(effect, CallModel) and effect.live

    async def perform(self, effect: Effect) -> object:
        """Do what has no events on its way."""
        if isinstance(effect, CallModel):
            check_allowed(effect.provider)
            return await self._complete(effect)
        if isinstance(effect, RunTools):
            with tool_scope(effect.jobs[0]):
                return [await aexecute(effect.jobs[0], _ignore)]
        if isinstance(effect, Wait):
            return await self._result(asyncio.sleep(effect.seconds), None)
        if isinstance(effect, Do):
            return await asyncio.wrap_future(WORKERS.submit(effect.work)) if effect.waits else effect.work()
        assert isinstance(effect, Await)  # noqa: S101 - the other effects come with events
        if effect.future.done():
            return effect.future.result()
        return await self._result(asyncio.wrap_future(effect.future), self.run.within(None))

    def events(self, effect: Effect) -> AsyncGenerator[Event, None]:
        """Do what has events on its way."""
        if isinstance(effect, RunTools):
            return self._tools(effect)
        assert isinstance(effect, CallModel)  # noqa: S101 - nothing else comes with events
        check_allowed(effect.provider)
        return self._live(effect)

    async def _complete(self, call: CallModel) -> Completion:
        with metered(self.run.meter, iteration=self.run.iteration):
            if not call.provider.waits:
                return await call.provider.acomplete(call.request)
            found = await self._result(call.provider.acomplete(call.request), call.timeout_s)
        if found is None:
            raise no_answer(call)
        return found

    async def _result(self, work: Awaitable[T], timeout_s: float | None) -> T | None:
        """What `work` comes to; None when the time is over first. Raises Cancelled when the run is."""
        inbox: _Inbox[asyncio.Future[T] | BaseException] = _Inbox()
        task = asyncio.ensure_future(work)
        task.add_done_callback(inbox.put)
        forget = self._listen(inbox.put_from_anywhere)
        try:
            found = await inbox.get(timeout_s)
        finally:
            task.cancel()
            forget()
        if isinstance(found, BaseException):
            raise found
        return found.result() if found is not None else None

    def _listen(self, put: Callable[[BaseException], None]) -> Callable[[], None]:
        """Put an error where the run waits when it is cancelled. Returns what ends the listening."""
        return self.run.cancel.listen(lambda: put(cancelled())) if self.run.cancel is not None else _nothing

    async def _live(self, call: CallModel) -> AsyncGenerator[Event, None]:
        inbox: _Inbox[Delta | BaseException] = _Inbox()

        async def listen() -> None:
            with metered(self.run.meter, iteration=self.run.iteration):
                async for delta in call.provider.astream(call.request):
                    inbox.put(delta)
            inbox.put(cut_off(call))

        task = _in_task(listen(), inbox.put)
        forget = self._listen(inbox.put_from_anywhere)
        try:
            while True:
                item = await inbox.get(self.run.within(call.timeout_s))
                if item is None:
                    raise no_answer(call)
                if isinstance(item, BaseException):
                    raise item
                if isinstance(item, Completed):
                    self.outcome = item.completion
                    return
                event = chunk_event(self.run, item)
                if event is not None:
                    yield event
        finally:
            task.cancel()
            forget()

    async def _tools(self, effect: RunTools) -> AsyncGenerator[Event, None]:
        inbox: _Inbox[Item] = _Inbox()
        board = Board(effect.jobs)
        forget = self._listen(inbox.put_from_anywhere)
        tasks = [self._start(index, job, inbox) for index, job in enumerate(effect.jobs)]
        try:
            while not board.done:
                item = await inbox.get(board.patience())
                if item is None:
                    board.expire()
                    continue
                event = board.take(item)
                if event is not None:
                    yield event
        finally:
            board.abandon()
            for task in tasks:
                if task is not None:
                    task.cancel()
            forget()
        self.outcome = board.outcomes

    def _start(self, index: int, job: ToolJob, inbox: _Inbox[Item]) -> asyncio.Task[None] | None:
        """Execute a tool: an asynchronous one in a task, another in a thread."""
        if not job.tool.is_async:
            start_tool(index, job, inbox.put_from_anywhere)
            return None
        emit = emitter(job, inbox.put)

        async def work() -> None:
            with tool_scope(job):
                inbox.put((index, await aexecute(job, emit)))

        return _in_task(work(), inbox.put)


def _in_task(work: Coroutine[object, object, None], put: Callable[[BaseException], None]) -> asyncio.Task[None]:
    """Do work in a task; what it raises is put where its results are waited for."""

    async def job() -> None:
        try:
            await work
        except BaseException as error:
            put(error)
            if isinstance(error, asyncio.CancelledError):
                raise

    return asyncio.create_task(job())


def _nothing() -> None:
    return None


def _ignore(_: str) -> None:
    return None
