"""How many answers are worked on at the same time, and who waits for a turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ragkit.server.http_errors import service_unavailable
from ragkit.server.settings import ServerLimits


class ConcurrencyLimiter:
    """Lets so many in at once, in the order of asking. The line has an end, and nobody stands in it for ever."""

    def __init__(self, limits: ServerLimits, changed: Callable[[int, int], None] | None = None) -> None:
        """`changed` is told how many run and how many wait, each time that it is another number."""
        self._limits = limits
        self._on_change = changed
        self._queue: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self.running = 0

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._queue)

    @property
    def closed(self) -> bool:
        """Whether nobody is let in any more."""
        return self._closed

    async def acquire(self) -> None:
        """Wait for a turn. Whoever got one calls `leave` once. Raises RequestRejected."""
        if self._closed:
            raise service_unavailable("the server is stopping")
        if self.running < self._limits.max_running:
            self.running += 1
            self._notify()
            return
        if len(self._queue) >= self._limits.max_waiting:
            raise service_unavailable("too many answers are being waited for: ask again later")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        self._notify()
        try:
            async with asyncio.timeout(self._limits.max_wait_seconds):
                await turn
        except BaseException as error:
            if turn in self._queue:
                self._queue.remove(turn)
            elif turn.done() and not turn.cancelled() and turn.exception() is None:
                self.release()  # it became our turn while we gave up
            self._notify()
            if isinstance(error, TimeoutError):
                raise service_unavailable("no turn came in time: ask again later") from None
            raise

    def release(self) -> None:
        """Let the next one in."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                self._notify()
                return
        self.running -= 1
        self._notify()

    def close(self) -> None:
        """Send away who waits, and let nobody in any more."""
        self._closed = True
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(service_unavailable("the server is stopping"))

    def _notify(self) -> None:
        if self._on_change is not None:
            self._on_change(self.running, len(self._queue))
