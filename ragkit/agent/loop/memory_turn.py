"""Runs that share a memory take turns. A stream that nobody reads any more loses its turn to a run that waits."""

from __future__ import annotations

import time
from concurrent.futures import Future

from ragkit.agent.memory.memory import FifoLock
from ragkit.errors import RunError

MAX_UNREAD_S = 10.0
"""How long a stream may be left unread while another run waits for the same memory."""


class MemoryTurn:
    """The turn of a run in its memory, and since when its consumer has not asked for the next event."""

    def __init__(self) -> None:
        self.started_in: object = None
        """The thread or task that drives the run."""
        self.paused_in: object = None
        """The thread or task whose code received the last event of the run, until it asks for the next one."""
        self.granted: Future[None] | None = None
        """Its place in the lock, while it waits for it or has it; None without a memory."""
        # Empty: the run goes on, or another one has taken its turn. `pop` tells atomically which of the two it is.
        self._paused_since: list[float] = []

    def pause(self, where: object) -> None:
        """The code of a thread or task has the last event."""
        if self.granted is not None:
            self.paused_in = where
            self._paused_since.append(time.monotonic())

    def resume(self) -> RunError | None:
        """The next event is asked for. Returns an error if another run has taken the turn."""
        if self.granted is None or self.paused_in is None:
            return None
        self.paused_in = None
        try:
            self._paused_since.pop()
        except IndexError:
            reason = f"the stream was not read for {MAX_UNREAD_S:g} seconds, and another run took over its conversation"
            return RunError(f"{reason}: ask again")
        return None

    def end_if_unread(self) -> float:
        """Seconds until another run may take the turn; 0: it may now, and this run will fail."""
        try:
            left = MAX_UNREAD_S - (time.monotonic() - self._paused_since[-1])
            if left > 0:
                return left
            self._paused_since.pop()
        except IndexError:
            return MAX_UNREAD_S
        return 0.0

    def waits_for_itself(self, lock: FifoLock) -> bool:
        """Whether the lock is held by a stream that only the caller of this run could continue."""
        holder = lock.holder
        return isinstance(holder, MemoryTurn) and holder.paused_in is not None and holder.paused_in == self.started_in
