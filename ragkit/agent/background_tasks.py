"""Threads and a loop in the background, for calls that must not hold up who waits for them.

A thread that hangs is left behind: it is a daemon, so it cannot keep a run, or the process, from ending.
Context variables travel with the work.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from contextvars import copy_context
from functools import partial
from threading import Event, Lock, Thread
from typing import Generic, TypeVar

T = TypeVar("T")

IDLE_TIMEOUT_S = 10.0
"""Seconds that a thread without work is kept."""


class DaemonThreadPool:
    """Threads that are started when none is free and kept for a while."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle_threads = 0
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def start(self, work: Callable[[], None]) -> None:
        """Run `work`, which must not raise, in a thread of its own, in a copy of the caller's context."""
        self._enqueue(partial(copy_context().run, work))

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run `work` in a thread of its own, in a copy of the caller's context."""
        future: Future[T] = Future()
        context = copy_context()

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                found = context.run(work)
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the future
                future.set_exception(error)
            else:
                future.set_result(found)

        self._enqueue(job)
        return future

    def _enqueue(self, job: Callable[[], None]) -> None:
        with self._lock:
            start = self._idle_threads == 0
            self._idle_threads -= not start
        self._jobs.put(job)
        if start:
            Thread(target=self._run_worker, name="ragkit-worker", daemon=True).start()

    def _run_worker(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_TIMEOUT_S)
            except queue.Empty:
                with self._lock:
                    if self._idle_threads == 0:  # a job was promised to this thread while it gave up waiting
                        continue
                    self._idle_threads -= 1
                    return
            job()
            del job
            with self._lock:
                self._idle_threads += 1


THREAD_POOL = DaemonThreadPool()


class BackgroundLoop:
    """An event loop in a thread, started with its first use: where synchronous code runs coroutines."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = Lock()
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, work: Coroutine[object, object, T]) -> Future[T]:
        """Run a coroutine on the loop; the future may be cancelled."""
        return asyncio.run_coroutine_threadsafe(work, self._get_loop())

    def _get_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                # a thread that is not alive: this is a forked child
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name=self._name, daemon=True)
                self._thread.start()
            return self._loop


BACKGROUND_LOOP = BackgroundLoop("ragkit-loop")
PROVIDER_LOOP = BackgroundLoop("ragkit-services")
"""Where services are asked. No code of users runs here: a tool that waits in LOOP for a model's answer gets it."""


async def _feed_items(items: AsyncIterator[T], put: Callable[[tuple[T] | BaseException | None], None]) -> None:
    """Put each item, in a tuple; at last None, or what ended it."""
    try:
        async for item in items:
            put((item,))
    except BaseException as error:
        put(error)
        raise
    put(None)


def iterate_sync(items: AsyncIterator[T], loop: BackgroundLoop = BACKGROUND_LOOP) -> Iterator[T]:
    """An asynchronous iterator as a synchronous one; it runs in one task of a background loop."""
    pieces: queue.SimpleQueue[tuple[T] | BaseException | None] = queue.SimpleQueue()
    feeding = loop.submit(_feed_items(items, pieces.put))
    try:
        while (piece := pieces.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            yield piece[0]
    finally:
        feeding.cancel()


class _ThreadInbox(Generic[T]):
    """What another thread hands to this event loop, which is woken once for all that has come by the time it looks."""

    def __init__(self) -> None:
        self.closed = Event()
        """Set when nobody will look any more."""
        self._loop = asyncio.get_running_loop()
        self._has_items = asyncio.Event()
        self._lock = Lock()
        self._items: list[tuple[T] | BaseException | None] = []

    def put(self, piece: tuple[T] | BaseException | None) -> None:
        """Add an item, in a tuple; at last None, or what ended it. Called in the other thread."""
        if self.closed.is_set():
            return
        with self._lock:
            self._items.append(piece)
            wake = len(self._items) == 1
        if wake:
            self._loop.call_soon_threadsafe(self._has_items.set)

    async def items(self) -> AsyncGenerator[T, None]:
        """Each item; raises what ended them."""
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
    """The items of an iterator that runs in one task of a background loop, in whatever loop they are wanted."""
    inbox: _ThreadInbox[T] = _ThreadInbox()
    feeding = origin.submit(_feed_items(items, inbox.put))
    try:
        async with aclosing(inbox.items()) as found:
            async for item in found:
                yield item
    finally:
        inbox.closed.set()
        feeding.cancel()


async def iterate_in_thread(items: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
    """A synchronous iterator as an asynchronous one; it runs in one thread."""
    inbox: _ThreadInbox[T] = _ThreadInbox()

    def feed() -> None:
        try:
            for item in items():
                inbox.put((item,))
                if inbox.closed.is_set():
                    return
            inbox.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the items are wanted
            inbox.put(error)

    THREAD_POOL.submit(feed)
    try:
        async with aclosing(inbox.items()) as found:
            async for item in found:
                yield item
    finally:
        inbox.closed.set()
