"""A lock that many readers share or one writer holds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReadWriteLock:
    """A lock for many readers or one writer. A waiting writer takes precedence over new readers."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._condition = threading.Condition(self._mutex)
        self._readers = 0
        self._is_writing = False
        self._waiting_writers = 0

    # Ctrl-C may come within any call, also when `__exit__` of the mutex returns or when that of a Python class begins.
    # So the mutex is locked by itself, not by the condition, whose `__exit__` is Python code, and what is taken is
    # noted in the same step, without a call between.

    @contextmanager
    def read(self) -> Iterator[None]:
        """Hold the lock together with other readers."""
        is_reading = False
        try:
            with self._mutex:
                if self._is_writing or self._waiting_writers:
                    self._condition.wait_for(lambda: not self._is_writing and not self._waiting_writers)
                self._readers += 1
                is_reading = True
            yield
        finally:
            if is_reading:
                with self._mutex:
                    self._readers -= 1
                    if not self._readers and self._waiting_writers:
                        self._condition.notify_all()

    @contextmanager
    def write(self) -> Iterator[None]:
        """Hold the lock exclusively."""
        is_waiting = is_writing = False
        try:
            with self._mutex:
                self._waiting_writers += 1
                is_waiting = True
                self._condition.wait_for(lambda: not self._is_writing and not self._readers)
                self._waiting_writers -= 1
                is_waiting = False
                self._is_writing = is_writing = True
            yield
        finally:
            if is_waiting or is_writing:
                with self._mutex:
                    self._waiting_writers -= is_waiting
                    self._is_writing = self._is_writing and not is_writing
                    self._condition.notify_all()
