"""The asynchronous driver of the loop: carries out its effects and awaits them. It makes no decisions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Generic, TypeVar

from ragkit.agent.events import Event
from ragkit.agent.loop.loop import run_loop
from ragkit.agent.loop.run_state import RunState
from ragkit.agent.loop.side_effects import AwaitFuture, CallModel, Effect, RunFunction, RunTools, Sleep, ToolJob
from ragkit.agent.loop.sync_driver import start_tool
from ragkit.agent.loop.tool_execution import aexecute_tool
from ragkit.agent.loop.tool_tracker import (
    ToolInboxItem,
    ToolTracker,
    create_emitter,
    incomplete_stream_error,
    meter_tool,
    on_cancel,
    timeout_error,
    to_chunk_events,
)
from ragkit.agent.providers.base import Completion, StreamCompleted, StreamDelta
from ragkit.agent.providers.request_guard import check_request_allowed
from ragkit.agent.runtime.background_tasks import THREAD_POOL
from ragkit.agent.tools.base import discard_output
from ragkit.usage.meter import use_meter

T = TypeVar("T")


async def adrive(run: RunState) -> AsyncGenerator[Event, None]:
    """Drive a run in this task. Yields its events; the last one is RunEnded. Raises the error that ends the run."""
    flow = run_loop(run)
    handler = _EffectHandler(run)
    run.memory_turn.started_in = asyncio.current_task()
    try:
        step: Event | Effect = next(flow)
        while True:
            if isinstance(step, Event):
                await _notify(run, step)
                run.memory_turn.pause(asyncio.current_task())
                yield step
                failure = run.memory_turn.resume()
                step = flow.send(None) if failure is None else flow.throw(failure)
                continue
            try:
                if handler.has_events(step):
                    async with aclosing(handler.perform_with_events(step)) as events:
                        async for event in events:
                            await _notify(run, event)
                            run.memory_turn.pause(asyncio.current_task())
                            yield event
                            if failure := run.memory_turn.resume():
                                raise failure
                else:
                    handler.last_outcome = await handler.perform(step)
            except BaseException as error:  # noqa: BLE001 - the loop handles errors
                step = flow.throw(error)
            else:
                step = flow.send(handler.last_outcome)
    except StopIteration:
        return
    finally:
        flow.close()


async def _notify(run: RunState, event: Event) -> None:
    pending = run.observers.notify(event)
    if pending is not None:
        await pending


class _AsyncInbox(Generic[T]):
    """A single-consumer queue of one event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._items: deque[T] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: T) -> None:
        """Add an item from the loop's thread."""
        self._items.append(item)
        self._wake()

    def put_threadsafe(self, item: T) -> None:
        """Add an item from any thread; dropped if the loop is closed."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.put, item)

    async def get(self, timeout_s: float | None) -> T | None:
        """The next item; None on timeout."""
        if not self._items:
            self._waiter = self.loop.create_future()
            timer = self.loop.call_later(timeout_s, self._wake) if timeout_s is not None else None
            try:
                await self._waiter
            finally:
                if timer is not None:
                    timer.cancel()
        return self._items.popleft() if self._items else None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _EffectHandler:
    """Performs effects. `last_outcome` is the result of the last effect with events."""

    def __init__(self, run: RunState) -> None:
        self.run = run
        self.last_outcome: object = None

    def has_events(self, effect: Effect) -> bool:
        """Whether the effect may emit events."""
        if isinstance(effect, RunTools):
            job = effect.single_direct_job
            return job is None or not job.tool.is_async
        return isinstance(effect, CallModel) and effect.streaming

    async def perform(self, effect: Effect) -> object:
        """Perform an effect without events."""
        if isinstance(effect, CallModel):
            check_request_allowed(effect.provider)
            return await self._complete(effect)
        if isinstance(effect, RunTools):
            with meter_tool(effect.jobs[0]):
                return [await aexecute_tool(effect.jobs[0], discard_output)]
        if isinstance(effect, Sleep):
            return await self._wait_for_result(asyncio.sleep(effect.seconds), None)
        if isinstance(effect, RunFunction):
            work = effect.function
            return await asyncio.wrap_future(THREAD_POOL.submit(work)) if effect.blocking else work()
        assert isinstance(effect, AwaitFuture)  # noqa: S101 - the other effects have events
        if effect.future.done():
            return effect.future.result()
        waiting = asyncio.wrap_future(effect.future)
        if effect.timeout_s is not None:  # the end of the wait must not cancel the future
            waiting = asyncio.shield(waiting)
        return await self._wait_for_result(waiting, self.run.cap_timeout(effect.timeout_s))

    def perform_with_events(self, effect: Effect) -> AsyncGenerator[Event, None]:
        """Perform an effect that may emit events."""
        if isinstance(effect, RunTools):
            return self._run_tools(effect)
        assert isinstance(effect, CallModel)  # noqa: S101 - no other effect has events
        check_request_allowed(effect.provider)
        return self._stream_completion(effect)

    async def _complete(self, call: CallModel) -> Completion:
        with use_meter(self.run.meter, iteration=self.run.iteration):
            if not call.provider.blocking:
                return await call.provider.acomplete(call.request)
            completion = await self._wait_for_result(call.provider.acomplete(call.request), call.timeout_s)
        if completion is None:
            raise timeout_error(call)
        return completion

    async def _wait_for_result(self, work: Awaitable[T], timeout_s: float | None) -> T | None:
        """The result of `work`; None on timeout. Raises RunCancelled."""
        inbox: _AsyncInbox[asyncio.Future[T] | BaseException] = _AsyncInbox()
        task = asyncio.ensure_future(work)
        task.add_done_callback(inbox.put)
        remove_listener = on_cancel(self.run, inbox.put_threadsafe)
        try:
            outcome = await inbox.get(timeout_s)
        finally:
            task.cancel()
            remove_listener()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome.result() if outcome is not None else None

    async def _stream_completion(self, call: CallModel) -> AsyncGenerator[Event, None]:
        inbox: _AsyncInbox[StreamDelta | BaseException] = _AsyncInbox()

        async def listen() -> None:
            with use_meter(self.run.meter, iteration=self.run.iteration):
                delta = None
                async for delta in call.provider.astream(call.request):
                    inbox.put(delta)
            if not isinstance(delta, StreamCompleted):
                inbox.put(incomplete_stream_error(call))

        task = _run_in_task(listen(), inbox.put)
        remove_listener = on_cancel(self.run, inbox.put_threadsafe)
        try:
            while True:
                item = await inbox.get(self.run.cap_timeout(call.timeout_s))
                if item is None:
                    raise timeout_error(call)
                if isinstance(item, BaseException):
                    raise item
                if isinstance(item, StreamCompleted):
                    self.last_outcome = item.completion
                    return
                for event in to_chunk_events(self.run, item):
                    yield event
        finally:
            task.cancel()
            remove_listener()

    async def _run_tools(self, effect: RunTools) -> AsyncGenerator[Event, None]:
        inbox: _AsyncInbox[ToolInboxItem] = _AsyncInbox()
        tracker = ToolTracker(effect.jobs)
        remove_listener = on_cancel(self.run, inbox.put_threadsafe)
        tasks = [self._start_tool(index, job, inbox) for index, job in enumerate(effect.jobs)]
        try:
            while not tracker.is_done:
                item = await inbox.get(tracker.seconds_left())
                if item is None:
                    tracker.expire_overdue()
                    continue
                event = tracker.receive(item)
                if event is not None:
                    yield event
        finally:
            tracker.abandon_unfinished()
            for task in tasks:
                if task is not None:
                    task.cancel()
            remove_listener()
        self.last_outcome = tracker.outcomes

    def _start_tool(self, index: int, job: ToolJob, inbox: _AsyncInbox[ToolInboxItem]) -> asyncio.Task[None] | None:
        """Execute a tool: an asynchronous tool in a task, any other in a thread."""
        if not job.tool.is_async:
            start_tool(index, job, inbox.put_threadsafe)
            return None
        emit = create_emitter(job, inbox.put)

        async def work() -> None:
            with meter_tool(job):
                inbox.put((index, await aexecute_tool(job, emit)))

        return _run_in_task(work(), inbox.put)


def _run_in_task(work: Coroutine[object, object, None], put: Callable[[BaseException], None]) -> asyncio.Task[None]:
    """Run `work` in a task; put its exception into the inbox."""

    async def job() -> None:
        try:
            await work
        except BaseException as error:
            put(error)
            if isinstance(error, asyncio.CancelledError):
                raise

    return asyncio.create_task(job())
