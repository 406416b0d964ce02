"""A lock that many threads hold together, or one alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


class ReadWriteLock:
    """For readers, who do not disturb one another, and writers, who want to be alone. A waiting writer goes first."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._condition = threading.Condition(self._mutex)
        self._readers = 0
        self._is_writing = False
        self._waiting_writers = 0
        self._read_guard = _ReadGuard(self)

    def read(self) -> AbstractContextManager[None]:
        """Hold it with others who hold it so."""
        return self._read_guard

    @contextmanager
    def write(self) -> Iterator[None]:
        """Hold it alone."""
        with self._condition:
            self._waiting_writers += 1
            self._condition.wait_for(lambda: not self._is_writing and not self._readers)
            self._waiting_writers -= 1
            self._is_writing = True
        try:
            yield
        finally:
            with self._condition:
                self._is_writing = False
                self._condition.notify_all()


class _ReadGuard:
    """Holds the lock with others for as long as a `with`; one for all of them, as it remembers nothing."""

    def __init__(self, lock: ReadWriteLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        lock = self._lock
        with lock._mutex:  # not by its condition, which is entered in Python: a short search would notice
            if lock._is_writing or lock._waiting_writers:
                lock._condition.wait_for(lambda: not lock._is_writing and not lock._waiting_writers)
            lock._readers += 1

    def __exit__(self, *_: object) -> None:
        lock = self._lock
        with lock._mutex:
            lock._readers -= 1
            if not lock._readers and lock._waiting_writers:
                lock._condition.notify_all()
