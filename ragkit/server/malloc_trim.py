"""Returns free heap memory to the operating system. Does nothing where the C library is not glibc.

Threads allocate and free in different orders, so the heap fragments: free memory between live blocks counts as used by
the process until it is trimmed.
"""

from __future__ import annotations

import asyncio
import ctypes
import os

ARENA_COUNT = 2
"""Number of malloc arenas. glibc's default is eight per core; the GIL leaves few concurrent allocations."""
ARENA_MAX_ENV = "MALLOC_ARENA_MAX"
"""Environment variable of glibc; a value set by the user is kept."""
TRIM_INTERVAL_S = 10.0
_M_ARENA_MAX = -8  # M_ARENA_MAX in malloc.h


def limit_arenas() -> None:
    """Limit the arenas of this process and its children. Call it before threads start."""
    if ARENA_MAX_ENV not in os.environ and _libc_has("mallopt"):
        os.environ[ARENA_MAX_ENV] = str(ARENA_COUNT)
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENA_COUNT)


def trim_heap() -> bool:
    """Return free memory to the system, in some milliseconds per 100 MB. False if malloc_trim is not available."""
    if not _libc_has("malloc_trim"):
        return False
    ctypes.CDLL(None).malloc_trim(0)
    return True


async def trim_periodically() -> None:
    """Trim every TRIM_INTERVAL_S seconds in a thread."""
    while await asyncio.to_thread(trim_heap):
        await asyncio.sleep(TRIM_INTERVAL_S)


def _libc_has(name: str) -> bool:
    try:
        return hasattr(ctypes.CDLL(None), name)
    except (OSError, TypeError):  # TypeError: CDLL(None) does not exist on Windows
        return False
