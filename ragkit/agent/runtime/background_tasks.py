"""Background threads and event loops for blocking calls.

Threads are daemons: one that hangs blocks neither the run nor process exit. Work runs in a copy of the caller's
context variables. asyncio, which takes 20 ms, is imported by what needs it: a synchronous run does not.
"""

from __future__ import annotations

import queue
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from contextvars import copy_context
from functools import partial
from threading import Event, Lock, Thread, current_thread
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

IDLE_TIMEOUT_S = 10.0
"""Seconds until an idle thread ends."""


class DaemonThreadPool:
    """A pool without a size limit: threads start on demand and end after an idle time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle_threads = 0
        self._jobs: queue.Queue[Callable[[], None]] = queue.Queue()
        # SimpleQueue.get of CPython 3.11 may wait for ever when its timeout ends while another thread takes the item

    def start(self, work: Callable[[], None]) -> None:
        """Run `work`, which must not raise, in a thread, in a copy of the caller's context."""
        with self._lock:
            start = self._idle_threads == 0
            self._idle_threads -= not start
        self._jobs.put(partial(copy_context().run, work))
        if start:
            Thread(target=self._run_worker, name="ragkit-worker", daemon=True).start()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run `work` in a thread, in a copy of the caller's context."""
        future: Future[T] = Future()

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - set on the future
                future.set_exception(error)
            else:
                future.set_result(result)

        self.start(job)
        return future

    def _run_worker(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_TIMEOUT_S)
            except queue.Empty:
                with self._lock:
                    if self._idle_threads == 0:  # a job was assigned to this thread while its wait timed out
                        continue
                    self._idle_threads -= 1
                    return
            job()
            del job
            with self._lock:
                self._idle_threads += 1


THREAD_POOL = DaemonThreadPool()


class BackgroundLoop:
    """An event loop in a thread, started on first use: runs coroutines for synchronous code."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = Lock()
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, work: Coroutine[object, object, T]) -> Future[T]:
        """Run a coroutine on the loop. Cancelling the future cancels it."""
        import asyncio

        return asyncio.run_coroutine_threadsafe(work, self._get_loop())

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine to its end. A caller inside this loop does not wait for itself: a new loop runs it."""
        import asyncio

        if current_thread() is self._thread:
            return THREAD_POOL.submit(partial(asyncio.run, work)).result()
        return self.submit(work).result()

    def _get_loop(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                # the thread is not alive in a forked child
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name=self._name, daemon=True)
                self._thread.start()
            return self._loop


BACKGROUND_LOOP = BackgroundLoop("ragkit-loop")
PROVIDER_LOOP = BackgroundLoop("ragkit-services")
"""Runs requests to services, and no user code: a tool that blocks BACKGROUND_LOOP can still get a model's answer."""


async def _feed_items(items: AsyncIterator[T], put: Callable[[tuple[T] | BaseException | None], None]) -> None:
    """Put each item as a tuple; finally None, or the exception."""
    try:
        async for item in items:
            put((item,))
    except BaseException as error:
        put(error)
        raise
    put(None)


def iterate_sync(items: AsyncIterator[T], loop: BackgroundLoop = BACKGROUND_LOOP) -> Iterator[T]:
    """A synchronous iterator over an asynchronous one, which runs in one task of a background loop."""
    pieces: queue.SimpleQueue[tuple[T] | BaseException | None] = queue.SimpleQueue()
    task = loop.submit(_feed_items(items, pieces.put))
    try:
        while (piece := pieces.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            yield piece[0]
    finally:
        task.cancel()


class _ThreadInbox(Generic[T]):
    """Items from another thread for this event loop, which is woken once per batch of items."""

    def __init__(self) -> None:
        self.closed = Event()
        """Set when the consumer has stopped."""
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._has_items = asyncio.Event()
        self._lock = Lock()
        self._items: list[tuple[T] | BaseException | None] = []

    def put(self, piece: tuple[T] | BaseException | None) -> None:
        """Add an item as a tuple; finally None, or the exception. Called in the other thread."""
        if self.closed.is_set():
            return
        with self._lock:
            self._items.append(piece)
            wake = len(self._items) == 1
        if wake:
            self._loop.call_soon_threadsafe(self._has_items.set)

    async def items(self) -> AsyncGenerator[T, None]:
        """Yield each item; raises the producer's exception."""
        while True:
            await self._has_items.wait()
            with self._lock:
                self._has_items.clear()
                pieces, self._items = self._items, []
            for piece in pieces:
                if piece is None:
                    return
                if isinstance(piece, BaseException):
                    raise piece
                yield piece[0]


async def iterate_on_loop(items: AsyncIterator[T], origin: BackgroundLoop) -> AsyncGenerator[T, None]:
    """Iterate in the current loop over an iterator that runs in one task of a background loop."""
    inbox: _ThreadInbox[T] = _ThreadInbox()
    task = origin.submit(_feed_items(items, inbox.put))
    try:
        async with aclosing(inbox.items()) as stream:
            async for item in stream:
                yield item
    finally:
        inbox.closed.set()
        task.cancel()


async def iterate_in_thread(items: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
    """An asynchronous iterator over a synchronous one, which runs in one thread."""
    inbox: _ThreadInbox[T] = _ThreadInbox()

    def feed() -> None:
        try:
            for item in items():
                inbox.put((item,))
                if inbox.closed.is_set():
                    return
            inbox.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer
            inbox.put(error)

    THREAD_POOL.submit(feed)
    try:
        async with aclosing(inbox.items()) as stream:
            async for item in stream:
                yield item
    finally:
        inbox.closed.set()
