"""The C library's heap under a server: many threads take from it and give back in another order.

Nothing of ours grows with the answers that were given, but the free memory between what is in use does, and it counts
as ours until it is handed back. Where the C library is not glibc all of this does nothing.
"""

from __future__ import annotations

import asyncio
import ctypes
import os

ARENA_COUNT = 2
"""Heaps that threads share; by default a machine has eight for each core. Threads of Python wait for each other anyway
wherever they take much."""
ARENA_MAX_ENV = "MALLOC_ARENA_MAX"
"""Whoever sets it has chosen for himself."""
TRIM_INTERVAL_S = 10.0
_M_ARENA_MAX = -8  # M_ARENA_MAX in malloc.h


def limit_arenas() -> None:
    """Have the threads of this process, and of those that it starts, share a few arenas. To be called before them."""
    if ARENA_MAX_ENV not in os.environ and _libc_has("mallopt"):
        os.environ[ARENA_MAX_ENV] = str(ARENA_COUNT)
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENA_COUNT)


def trim_heap() -> bool:
    """Hand free memory back to the system: some milliseconds for 100 MB. Returns whether it can be done here."""
    if not _libc_has("malloc_trim"):
        return False
    ctypes.CDLL(None).malloc_trim(0)
    return True


async def trim_periodically() -> None:
    """Trim again and again, beside the event loop."""
    while await asyncio.to_thread(trim_heap):
        await asyncio.sleep(TRIM_INTERVAL_S)


def _libc_has(name: str) -> bool:
    try:
        return hasattr(ctypes.CDLL(None), name)
    except (OSError, TypeError):  # TypeError: on Windows there is no library that holds them all
        return False
