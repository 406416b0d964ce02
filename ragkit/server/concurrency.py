"""Limits how many answers run at the same time; the others wait in a bounded FIFO queue."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ragkit.server.http_errors import service_unavailable
from ragkit.server.settings import ServerLimits


class ConcurrencyLimiter:
    """A FIFO semaphore with a queue limit, a timeout and `close`."""

    def __init__(self, limits: ServerLimits, on_change: Callable[[int, int], None] | None = None) -> None:
        """`on_change` is called with the numbers of running and waiting callers whenever one changes."""
        self._limits = limits
        self._on_change = on_change
        self._queue: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self.running = 0

    @property
    def waiting(self) -> int:
        """Number of waiting callers."""
        return len(self._queue)

    @property
    def closed(self) -> bool:
        """Whether new callers are rejected."""
        return self._closed

    async def acquire(self) -> None:
        """Wait for a slot; free it with `release`. Raises RequestRejected if the queue is full, closed or too slow."""
        if self._closed:
            raise service_unavailable("the server is stopping")
        if self.running < self._limits.max_running:
            self.running += 1
            self._notify()
            return
        if len(self._queue) >= self._limits.max_waiting:
            raise service_unavailable("the queue is full: retry later")
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(slot)
        self._notify()
        try:
            async with asyncio.timeout(self._limits.max_wait_seconds):
                await slot
        except BaseException as error:
            if slot in self._queue:
                self._queue.remove(slot)
            elif slot.done() and not slot.cancelled() and slot.exception() is None:
                self.release()  # the slot was granted while this caller gave up
            self._notify()
            if isinstance(error, TimeoutError):
                raise service_unavailable("timed out in the queue: retry later") from None
            raise

    def release(self) -> None:
        """Free a slot: the next waiting caller gets it."""
        while self._queue:
            slot = self._queue.popleft()
            if not slot.done():
                slot.set_result(None)
                self._notify()
                return
        self.running -= 1
        self._notify()

    def close(self) -> None:
        """Reject waiting callers and all later ones."""
        self._closed = True
        while self._queue:
            slot = self._queue.popleft()
            if not slot.done():
                slot.set_exception(service_unavailable("the server is stopping"))

    def _notify(self) -> None:
        if self._on_change is not None:
            self._on_change(self.running, len(self._queue))
