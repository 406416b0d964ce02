"""A lock that many readers share or one writer holds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


class ReadWriteLock:
    """A lock for many readers or one writer. A waiting writer takes precedence over new readers."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._condition = threading.Condition(self._mutex)
        self._readers = 0
        self._is_writing = False
        self._waiting_writers = 0
        self._read_guard = _ReadGuard(self)

    def read(self) -> AbstractContextManager[None]:
        """Hold the lock together with other readers."""
        return self._read_guard

    @contextmanager
    def write(self) -> Iterator[None]:
        """Hold the lock exclusively."""
        with self._condition:
            self._waiting_writers += 1
            try:
                self._condition.wait_for(lambda: not self._is_writing and not self._readers)
            except BaseException:  # Ctrl-C: those that waited for this writer go on
                self._condition.notify_all()
                raise
            finally:
                self._waiting_writers -= 1
            self._is_writing = True
        try:
            yield
        finally:
            with self._condition:
                self._is_writing = False
                self._condition.notify_all()


class _ReadGuard:
    """Holds the lock for reading during a `with` block. It has no state, so that all readers share one."""

    def __init__(self, lock: ReadWriteLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        lock = self._lock
        with lock._mutex:  # faster than the condition, whose `__enter__` is Python code
            if lock._is_writing or lock._waiting_writers:
                lock._condition.wait_for(lambda: not lock._is_writing and not lock._waiting_writers)
            lock._readers += 1

    def __exit__(self, *_: object) -> None:
        lock = self._lock
        with lock._mutex:
            lock._readers -= 1
            if not lock._readers and lock._waiting_writers:
                lock._condition.notify_all()
