"""How many answers are worked on at the same time, and who waits for a turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ragkit.server.faults import overloaded
from ragkit.server.settings import Limits


class Turns:
    """Lets so many in at once, in the order of asking. The line has an end, and nobody stands in it for ever."""

    def __init__(self, limits: Limits, changed: Callable[[int, int], None] | None = None) -> None:
        """`changed` is told how many run and how many wait, each time that it is another number."""
        self._limits = limits
        self._changed = changed
        self._line: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self.running = 0

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._line)

    @property
    def closed(self) -> bool:
        """Whether nobody is let in any more."""
        return self._closed

    async def enter(self) -> None:
        """Wait for a turn. Whoever got one calls `leave` once. Raises Refused."""
        if self._closed:
            raise overloaded("the server is stopping")
        if self.running < self._limits.running:
            self.running += 1
            self._tell()
            return
        if len(self._line) >= self._limits.waiting:
            raise overloaded("too many answers are being waited for: ask again later")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        self._tell()
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                await turn
        except BaseException as error:
            if turn in self._line:
                self._line.remove(turn)
            elif turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave()  # it became our turn while we gave up
            self._tell()
            if isinstance(error, TimeoutError):
                raise overloaded("no turn came in time: ask again later") from None
            raise

    def leave(self) -> None:
        """Let the next one in."""
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                self._tell()
                return
        self.running -= 1
        self._tell()

    def close(self) -> None:
        """Send away who waits, and let nobody in any more."""
        self._closed = True
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_exception(overloaded("the server is stopping"))

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed(self.running, len(self._line))
