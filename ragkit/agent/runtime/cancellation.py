"""Cancel a run from another thread."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class Cancellation:
    """Pass it as `agent.run(..., cancel=...)` and call `cancel()` from any thread: the run ends at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._cancelled = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """Cancel the current and all later runs that use it. Idempotent."""
        with self._lock:
            listeners, self._listeners, self._cancelled = self._listeners, [], True
        for listener in listeners:
            listener()

    def add_listener(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` on cancellation (at once if already cancelled). Returns a function that unsubscribes."""
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
