"""KeyboardInterrupt at real moments: wherever Python runs the handlers of signals."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from types import FrameType

import pytest

may_leave_warnings = pytest.mark.filterwarnings(
    "ignore:unclosed file:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
"""For tests that interrupt: a file may be freed unclosed, and Python swallows what is raised in a callback."""


def call_interrupted(call: Callable[[], object], seconds: float, rng: random.Random) -> None:
    """Call `call`, in the main thread, and raise KeyboardInterrupt in it after up to `seconds`.

    Raised again after each second: Python swallows an exception that comes in a callback, as that of the collector.
    """
    is_armed = True

    def interrupt(number: int, frame: FrameType | None) -> None:
        if is_armed:
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(1e-5, seconds * rng.random()), 1.0)
        call()
    except KeyboardInterrupt:
        pass
    finally:
        is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
