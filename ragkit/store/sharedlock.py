"""A lock that many readers hold at once, or one writer alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SharedLock:
    """Readers wait while a writer is at work or waits for its turn: writers are never kept out by a stream of readers.

    Not reentrant: a thread that holds it must not ask for it again.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._writers_waiting = 0
        self._is_writing = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold it together with other readers."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_writing and not self._writers_waiting)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold it alone."""
        with self._changed:
            self._writers_waiting += 1
            self._changed.wait_for(lambda: not self._is_writing and not self._readers)
            self._writers_waiting -= 1
            self._is_writing = True
        try:
            yield
        finally:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
