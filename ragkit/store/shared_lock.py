"""A lock that many threads hold together, or one alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SharedLock:
    """For readers, who do not disturb one another, and writers, who want to be alone. A waiting writer goes first."""

    def __init__(self) -> None:
        self._state = threading.Condition()
        self._readers = 0
        self._writing = False
        self._waiting = 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Hold it with others who hold it so."""
        with self._state:
            if self._writing or self._waiting:
                self._state.wait_for(lambda: not self._writing and not self._waiting)
            self._readers += 1
        try:
            yield
        finally:
            with self._state:
                self._readers -= 1
                if not self._readers and self._waiting:
                    self._state.notify_all()

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
