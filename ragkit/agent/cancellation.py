"""A switch that stops a run from outside."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class Cancellation:
    """Hand it to `agent.run(..., cancel=switch)` and call `cancel()` from any thread: the run ends at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._cancelled = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """Stop every run that listens, now and later. Calling it again does nothing."""
        with self._lock:
            listeners, self._listeners, self._cancelled = self._listeners, [], True
        for listener in listeners:
            listener()

    def add_listener(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when it is cancelled (at once, if it has been). Returns what ends the listening."""
        with self._lock:
            if not self._cancelled:
                self._listeners.append(listener)
                return lambda: self._remove_listener(listener)
        listener()
        return lambda: None

    def _remove_listener(self, listener: Callable[[], None]) -> None:
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)
