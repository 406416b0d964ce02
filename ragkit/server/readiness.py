"""Whether the server can answer, checked outside of the threads that requests use."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

LOG = logging.getLogger("ragkit.server")
CACHE_SECONDS = 1.0
"""How long the result of a check is used for further requests."""
TIMEOUT_S = 2.0
"""Longer checks fail."""
READY = "ok"
"""What is said of a part that works."""


class ReadinessCheck:
    """Checks the parts of a server, once for all requests of a second."""

    def __init__(self, search: Callable[[], None], write: Callable[[], Awaitable[None]]) -> None:
        """`search` and `write` raise the reason why the knowledge base cannot be searched, or the state written."""
        self._search, self._write = search, write
        self._executor = ThreadPoolExecutor(1, "ragkit-ready")
        self._searching: asyncio.Future[None] | None = None
        self._checking: asyncio.Future[Mapping[str, str]] | None = None
        self._checked_at = 0.0

    async def check(self) -> Mapping[str, str]:
        """`knowledge_base` and `state`, each READY or why it fails. Takes TIMEOUT_S at most."""
        if self._checking is None or (self._checking.done() and time.monotonic() - self._checked_at > CACHE_SECONDS):
            self._checking = asyncio.ensure_future(self._check())
        return await asyncio.shield(self._checking)

    def close(self) -> None:
        """Stop the thread, without waiting for a check that hangs."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _check(self) -> Mapping[str, str]:
        if self._searching is None or self._searching.done():  # one that hangs is waited for again
            self._searching = asyncio.get_running_loop().run_in_executor(self._executor, self._search)
        searching, writing = await asyncio.gather(
            _outcome(asyncio.shield(self._searching), "the knowledge base"), _outcome(self._write(), "the state")
        )
        self._checked_at = time.monotonic()
        return {"knowledge_base": searching, "state": writing}


async def _outcome(check: Awaitable[None], what: str) -> str:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await check
    except TimeoutError:
        return f"{what} does not respond"
    except Exception as error:  # noqa: BLE001 - boundary: a server request
        LOG.warning("%s is not available: %s", what, error)
        return f"{what} is not available"
    return READY
