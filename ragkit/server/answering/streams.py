"""Channels between a running answer and its client, server-sent events, and detection of disconnects.

Knows ASGI, not answers.
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
"""Seconds of silence after which a comment is sent: proxies close idle connections."""


class Channel(Generic[T]):
    """A bounded queue for one reader in the same event loop. Writers wait while it is full."""

    def __init__(self, limit: int = 256) -> None:
        self._items: deque[T] = deque()
        self._limit = limit
        self._changed = asyncio.Condition()
        self._closed = False
        self._abandoned = False

    async def put(self, item: T) -> None:
        """Add an item; it is dropped if the channel is abandoned."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._abandoned or len(self._items) < self._limit)
            if not self._abandoned:
                self._items.append(item)
                self._changed.notify_all()

    async def close(self) -> None:
        """End the channel: no more items will be added."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()

    async def end_with(self, item: T) -> None:
        """End the channel with an item, at once: what waits in it and later items are dropped."""
        async with self._changed:
            self._items = deque([item] * (not self._abandoned))
            self._closed = self._abandoned = True
            self._changed.notify_all()

    async def abandon(self) -> None:
        """Stop reading: items are dropped and writers do not wait."""
        async with self._changed:
            self._abandoned = True
            self._items.clear()
            self._changed.notify_all()

    async def get(self, seconds: float | None = None) -> T | None:
        """The next item; None after `seconds`. Raises StopAsyncIteration at the end of the channel."""
        async with self._changed:
            try:
                # cancelled timers stay in the event loop: create none if an item is available
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
        """All available items; empty after `seconds`. Raises StopAsyncIteration at the end of the channel."""
        first = await self.get(seconds)
        if first is None:
            return []
        async with self._changed:
            items = [first, *self._items]
            self._items.clear()
            self._changed.notify_all()
            return items


async def run_while_connected(request: Request, work: Coroutine[object, object, T]) -> T:
    """The result of `work`. If the client disconnects, cancel it and raise ClientDisconnect."""
    task = asyncio.ensure_future(work)
    disconnected = asyncio.ensure_future(_wait_for_disconnect(request.receive))
    try:
        await asyncio.wait((task, disconnected), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        disconnected.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))


async def _wait_for_disconnect(receive: Callable[[], Awaitable[Message]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Server-sent events from `frames`; `on_disconnect` is awaited if the client disconnects before the end."""

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncIterator[bytes], on_disconnect: Callable[[], Awaitable[None]]) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._frames = frames
        self._on_disconnect = on_disconnect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the frames end or the client disconnects."""
        done = False
        sending = asyncio.ensure_future(self._send(send))
        disconnected = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait((sending, disconnected), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
                done = True
        finally:
            for task in (disconnected, sending):
                task.cancel()
            if not done:
                await self._on_disconnect()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for frame in self._frames:
            await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
