"""A lock that many threads hold together, or one alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


class SharedLock:
    """For readers, who do not disturb one another, and writers, who want to be alone. A waiting writer goes first."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._state = threading.Condition(self._mutex)
        self._readers = 0
        self._writing = False
        self._waiting = 0
        self._together = _Together(self)

    def together(self) -> AbstractContextManager[None]:
        """Hold it with others who hold it so."""
        return self._together

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold it alone."""
        with self._state:
            self._waiting += 1
            self._state.wait_for(lambda: not self._writing and not self._readers)
            self._waiting -= 1
            self._writing = True
        try:
            yield
        finally:
            with self._state:
                self._writing = False
                self._state.notify_all()


class _Together:
    """Holds the lock with others for as long as a `with`; one for all of them, as it remembers nothing."""

    def __init__(self, lock: SharedLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        lock = self._lock
        with lock._mutex:  # not by its condition, which is entered in Python: a short search would notice
            if lock._writing or lock._waiting:
                lock._state.wait_for(lambda: not lock._writing and not lock._waiting)
            lock._readers += 1

    def __exit__(self, *_: object) -> None:
        lock = self._lock
        with lock._mutex:
            lock._readers -= 1
            if not lock._readers and lock._waiting:
                lock._state.notify_all()
