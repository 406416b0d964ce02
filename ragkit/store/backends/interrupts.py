"""Ctrl-C during calls of clients that it must not interrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def delay_interrupts() -> Iterator[None]:
    """Call the handler of SIGINT after the block instead of within it; a second SIGINT calls it at once.

    For clients that hold locks in Python code, as those of gRPC do: an exception that a handler raises there leaves a
    lock held, and every later call waits forever. And for those with threads of their own: a write of LanceDB goes on
    after its call was interrupted, DuckDB may wait forever for the threads of a query. Outside the main thread, where
    no handlers run, it does nothing.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    received: list[int] = []

    def receive(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            handler(number, frame)

    signal.signal(signal.SIGINT, receive)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if len(received) == 1:
            handler(signal.SIGINT, None)
