"""Limits how much work runs at the same time, fairly by principal; the rest waits in a bounded queue."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TypeVar

from ragkit.agent.runtime.background_tasks import THREAD_POOL
from ragkit.server.http_errors import service_unavailable
from ragkit.server.settings import ServerLimits

T = TypeVar("T")

PRINCIPAL: ContextVar[str] = ContextVar("ragkit_principal", default="")
"""Who sent the current request: the name of a token, or the address of a client without one."""


class ConcurrencyLimiter:
    """A semaphore with a queue limit, a timeout and `close`, in which no principal takes the places of all others.

    A principal can hold as many slots as are free besides: at most half of them alone, so that another one always
    finds a free slot. The queue is divided in the same way, and served in turns.
    """

    def __init__(self, limits: ServerLimits, on_change: Callable[[int, int], None] | None = None) -> None:
        """`on_change` is called with the numbers of running and waiting callers whenever one changes."""
        self._limits = limits
        self._on_change = on_change
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._running: Counter[str] = Counter()
        self._closed = False
        self.running = 0

    @property
    def waiting(self) -> int:
        """Number of waiting callers."""
        return sum(map(len, list(self._queues.values())))

    @property
    def closed(self) -> bool:
        """Whether new callers are rejected."""
        return self._closed

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot in a block. Raises as `acquire`."""
        principal = await self.acquire()
        try:
            yield
        finally:
            self.release(principal)

    async def acquire(self) -> str:
        """Wait for a slot; free it with `release(principal)`, where the principal is the result.

        Raises RequestRejected if the queue is full, closed or too slow.
        """
        principal = PRINCIPAL.get()
        if self._closed:
            raise service_unavailable("the server is stopping")
        if not self._queues.get(principal) and self._can_start(principal):
            self._start(principal)
            return principal
        queue = self._queues.setdefault(principal, deque())
        if len(queue) >= self._limits.max_waiting - self.waiting:
            self._drop_empty_queue(principal)
            raise service_unavailable("the queue is full: retry later")
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(slot)
        self._notify()
        try:
            async with asyncio.timeout(self._limits.max_wait_seconds):
                await slot
        except BaseException as error:
            if slot in queue:
                queue.remove(slot)
                self._drop_empty_queue(principal)
            elif slot.done() and not slot.cancelled() and slot.exception() is None:
                self.release(principal)  # the slot was granted while this caller gave up
            self._notify()
            if isinstance(error, TimeoutError):
                raise service_unavailable("timed out in the queue: retry later") from None
            raise
        return principal

    def release(self, principal: str) -> None:
        """Free a slot of a principal: waiting callers get it in turns."""
        self.running -= 1
        self._running[principal] -= 1
        if not self._running[principal]:
            del self._running[principal]
        while (waiting := next(filter(self._can_start, self._queues), None)) is not None:
            queue = self._queues.pop(waiting)
            slot = queue.popleft()
            if queue:
                self._queues[waiting] = queue  # at the end: the others are next
            if not slot.done():
                self._start(waiting)
                slot.set_result(None)
        self._notify()

    def close(self) -> None:
        """Reject waiting callers and all later ones."""
        self._closed = True
        for queue in self._queues.values():
            for slot in queue:
                if not slot.done():
                    slot.set_exception(service_unavailable("the server is stopping"))
        self._queues.clear()

    def _can_start(self, principal: str) -> bool:
        return self._running[principal] < self._limits.max_running - self.running

    def _start(self, principal: str) -> None:
        self.running += 1
        self._running[principal] += 1
        self._notify()

    def _drop_empty_queue(self, principal: str) -> None:
        if not self._queues.get(principal, True):
            del self._queues[principal]

    def _notify(self) -> None:
        if self._on_change is not None:
            self._on_change(self.running, self.waiting)


async def run_in_thread(work: Callable[[], T]) -> T:
    """The result of `work`, in a thread of a pool without a limit: use it in a slot of a limiter."""
    return await asyncio.wrap_future(THREAD_POOL.submit(work))
