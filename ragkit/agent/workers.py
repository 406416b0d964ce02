"""Threads and a loop in the background, for calls that must not hold up who waits for them.

A thread that hangs is left behind: it is a daemon, so it cannot keep a run, or the process, from ending.
Context variables travel with the work.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from threading import Event, Lock, Thread
from typing import TypeVar

T = TypeVar("T")

IDLE_S = 10.0
"""Seconds that a thread without work is kept."""


class Workers:
    """Threads that are started when none is free and kept for a while."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._free = 0
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def start(self, work: Callable[[], None]) -> None:
        """Run `work`, which must not raise, in a thread of its own, in a copy of the caller's context."""
        self._put(partial(copy_context().run, work))

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

        self._put(job)
        return future

    def _put(self, job: Callable[[], None]) -> None:
        with self._lock:
            start = self._free == 0
            self._free -= not start
        self._jobs.put(job)
        if start:
            Thread(target=self._work, name="ragkit-worker", daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._free == 0:  # a job was promised to this thread while it gave up waiting
                        continue
                    self._free -= 1
                    return
            job()
            del job
            with self._lock:
                self._free += 1


WORKERS = Workers()


class BackgroundLoop:
    """An event loop in a thread, started with its first use: where synchronous code runs coroutines."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = Lock()
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, work: Coroutine[object, object, T]) -> Future[T]:
        """Run a coroutine on the loop; the future may be cancelled."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                # a thread that is not alive: this is a forked child
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name=self._name, daemon=True)
                self._thread.start()
            return self._loop


LOOP = BackgroundLoop("ragkit-loop")
SERVICES = BackgroundLoop("ragkit-services")
"""Where services are asked. No code of users runs here: a tool that waits in LOOP for a model's answer gets it."""


async def _feed(items: AsyncIterator[T], put: Callable[[tuple[T] | BaseException | None], None]) -> None:
    """Put each item, in a tuple; at last None, or what ended it."""
    try:
        async for item in items:
            put((item,))
    except BaseException as error:
        put(error)
        raise
    put(None)


def iterate(items: AsyncIterator[T], loop: BackgroundLoop = LOOP) -> Iterator[T]:
    """An asynchronous iterator as a synchronous one; it runs in one task of a background loop."""
    pieces: queue.SimpleQueue[tuple[T] | BaseException | None] = queue.SimpleQueue()
    feeding = loop.start(_feed(items, pieces.put))
    try:
        while (piece := pieces.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            yield piece[0]
    finally:
        feeding.cancel()


async def brought(items: AsyncIterator[T], origin: BackgroundLoop) -> AsyncGenerator[T, None]:
    """The items of an iterator that runs in one task of a background loop, in whatever loop they are wanted."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[tuple[T] | BaseException | None] = asyncio.Queue()
    unwanted = Event()

    def put(piece: tuple[T] | BaseException | None) -> None:
        if not unwanted.is_set():
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

    feeding = origin.start(_feed(items, put))
    try:
        while (piece := await pieces.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            yield piece[0]
    finally:
        unwanted.set()
        feeding.cancel()


async def aiterate(items: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
    """A synchronous iterator as an asynchronous one; it runs in one thread."""
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[tuple[T] | BaseException | None] = asyncio.Queue()
    unwanted = Event()

    def put(piece: tuple[T] | BaseException | None) -> None:
        if not unwanted.is_set():
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

    def feed() -> None:
        try:
            for item in items():
                put((item,))
                if unwanted.is_set():
                    return
            put(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the items are wanted
            put(error)

    WORKERS.submit(feed)
    try:
        while (piece := await pieces.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            yield piece[0]
    finally:
        unwanted.set()
