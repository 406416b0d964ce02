"""Between an answer that is being made and the client that reads it: neither may hold up the other for long.

Knows ASGI and no answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Generic, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

T = TypeVar("T")

HEARTBEAT_SECONDS = 15.0
"""After so long without a word a comment is sent: proxies cut connections that are silent."""


class Channel(Generic[T]):
    """A queue with a limit, for one reader in the same event loop. Whoever writes into a full one waits."""

    def __init__(self, limit: int = 256) -> None:
        self._items: deque[T] = deque()
        self._limit = limit
        self._changed = asyncio.Condition()
        self._closed = False
        self._abandoned = False

    async def put(self, item: T) -> None:
        """Add an item. When nobody reads any more it is dropped."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._abandoned or len(self._items) < self._limit)
            if not self._abandoned:
                self._items.append(item)
                self._changed.notify_all()

    async def close(self) -> None:
        """No more items will come."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    async def abandon(self) -> None:
        """Nobody reads any more: writers do not wait."""
        async with self._changed:
            self._abandoned = True
            self._items.clear()
            self._changed.notify_all()

    async def get(self, seconds: float | None = None) -> T | None:
        """The next item; None when none came in time. Raises StopAsyncIteration when no more will come."""
        async with self._changed:
            try:
                # a timer stays in the loop after it was called off: none is made for what is there
                async with asyncio.timeout(None if self._items else seconds):
                    await self._changed.wait_for(lambda: self._closed or bool(self._items))
            except TimeoutError:
                return None
            if not self._items:
                raise StopAsyncIteration
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    async def get_batch(self, seconds: float) -> list[T]:
        """The next items, all that are there; none when none came in time. Raises StopAsyncIteration as `get` does."""
        first = await self.get(seconds)
        if first is None:
            return []
        async with self._changed:
            found = [first, *self._items]
            self._items.clear()
            self._changed.notify_all()
            return found


async def run_while_connected(request: Request, work: Coroutine[object, object, T]) -> T:
    """What `work` comes to. It is cancelled when the client leaves first, and ClientDisconnect raised."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_wait_for_disconnect(request.receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))


async def _wait_for_disconnect(receive: Callable[[], Awaitable[Message]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Server-sent events. `frames` yields them as bytes; `left` is awaited when the client leaves before their end."""

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncIterator[bytes], left: Callable[[], Awaitable[None]]) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._frames = frames
        self._on_disconnect = left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the frames end or the client leaves."""
        done = False
        sending = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
                done = True
        finally:
            for task in (gone, sending):
                task.cancel()
            if not done:
                await self._on_disconnect()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for frame in self._frames:
            await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
