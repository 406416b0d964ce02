"""Whether the server can answer, checked outside of the threads that requests use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ragkit.server.http_errors import service_unavailable

CACHE_SECONDS = 1.0
"""How long the result of a check is used for further requests."""
TIMEOUT_S = 5.0
"""Longer checks fail."""


class ReadinessCheck:
    """Runs a check in a thread of its own, once for all requests of a second."""

    def __init__(self, check: Callable[[], None]) -> None:
        """`check` raises the reason why the server cannot answer."""
        self._check = check
        self._executor = ThreadPoolExecutor(1, "ragkit-ready")
        self._running: asyncio.Future[Exception | None] | None = None
        self._checked_at = 0.0

    async def require_ready(self) -> None:
        """Raises what the check raises, or RequestRejected if it takes too long."""
        if self._running is None or (self._running.done() and time.monotonic() - self._checked_at > CACHE_SECONDS):
            self._running = asyncio.get_running_loop().run_in_executor(self._executor, self._run_check)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                error = await asyncio.shield(self._running)
        except TimeoutError:
            raise service_unavailable("the knowledge base does not respond") from None
        if error is not None:
            raise error

    def close(self) -> None:
        """Stop the thread, without waiting for a check that hangs."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _run_check(self) -> Exception | None:
        try:
            self._check()
        except Exception as error:  # noqa: BLE001 - raised in every request
            return error
        finally:
            self._checked_at = time.monotonic()
        return None
