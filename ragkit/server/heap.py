"""The C library's heap under a server: many threads take from it and give back in another order.

Nothing of ours grows with the answers that were given, but the free memory between what is in use does, and it counts
as ours until it is handed back. Where the C library is not glibc all of this does nothing.
"""

from __future__ import annotations

import asyncio
import ctypes
import os

ARENAS = 2
"""Heaps that threads share; by default a machine has eight for each core. Threads of Python wait for each other anyway
wherever they take much."""
VARIABLE = "MALLOC_ARENA_MAX"
"""Whoever sets it has chosen for himself."""
TRIM_SECONDS = 10.0
_ARENA_MAX = -8  # M_ARENA_MAX in malloc.h


def share_arenas() -> None:
    """Have the threads of this process, and of those that it starts, share a few arenas. To be called before them."""
    if VARIABLE not in os.environ and _has("mallopt"):
        os.environ[VARIABLE] = str(ARENAS)
        ctypes.CDLL(None).mallopt(_ARENA_MAX, ARENAS)


def trim() -> bool:
    """Hand free memory back to the system: some milliseconds for 100 MB. Returns whether it can be done here."""
    if not _has("malloc_trim"):
        return False
    ctypes.CDLL(None).malloc_trim(0)
    return True


async def keep_trimmed() -> None:
    """Trim again and again, beside the event loop."""
    while await asyncio.to_thread(trim):
        await asyncio.sleep(TRIM_SECONDS)


def _has(name: str) -> bool:
    try:
        return hasattr(ctypes.CDLL(None), name)
    except (OSError, TypeError):  # TypeError: on Windows there is no library that holds them all
        return False
