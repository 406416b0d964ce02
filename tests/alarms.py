"""KeyboardInterrupt at real moments: wherever Python runs the handlers of signals."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from types import FrameType


def call_interrupted(call: Callable[[], object], seconds: float, seed: random.Random) -> None:
    """Call `call`, in the main thread, and raise KeyboardInterrupt in it after up to `seconds`."""
    is_armed = True

    def interrupt(number: int, frame: FrameType | None) -> None:
        if is_armed:
            raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(1e-5, seconds * seed.random()))
        call()
    except KeyboardInterrupt:
        pass
    finally:
        is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
