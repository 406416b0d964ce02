"""A small knowledge base for the MCP tests, served over stdio and HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from ragkit import KnowledgeBase
from ragkit.pipeline.settings import Pipeline

T = TypeVar("T")
HASHING = "embed: {name: hashing, dimension: 64}\n"
"""A pipeline without a model: the tests do not depend on the vectors."""
REFUNDS = "# Refunds\n\nMoney comes back within 14 days.\n\nShipping is not paid back.\n"
SECRET = "the password is swordfish\n"
LINES = 6_000
"""Lines of the long document."""


def build(directory: Path) -> Path:
    """A knowledge base over three documents in `directory/docs`, next to a file that is not indexed."""
    docs = directory / "docs"
    docs.mkdir()
    (directory / "secret.txt").write_text(SECRET)
    (docs / "refunds.md").write_text(REFUNDS)
    (docs / "retries.md").write_text("# Retries\n\nA request is tried three times.\n")
    (docs / "long.txt").write_text("".join(f"line {n} of the log\n" for n in range(1, LINES + 1)))
    with KnowledgeBase.open(directory / "kb", Pipeline.from_yaml(HASHING)) as kb:
        kb.index(docs)
    return directory


def process(directory: Path, *arguments: str, env: Mapping[str, str] | None = None) -> StdioServerParameters:
    """`ragkit mcp` over stdio in a separate process, with `directory` as its working directory."""
    place = () if "--kb" in arguments else ("--kb", str(directory / "kb"))
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "ragkit", "mcp", *place, *arguments],
        env={**os.environ, **(env or {})},
        cwd=directory,
    )


class McpConnection:
    """A connected client in its own event loop, for synchronous tests."""

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._connect = connect
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()
        self._client: Future[Client] = Future()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run_client(),), daemon=True)

    def __enter__(self) -> McpConnection:
        self._thread.start()
        self._client.result(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(30)
        assert not self._thread.is_alive()
        self._loop.close()

    def do(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Run a coroutine with the client and wait for its result."""

        async def within() -> T:
            async with asyncio.timeout(60):
                return await work(self._client.result(0))

        return asyncio.run_coroutine_threadsafe(within(), self._loop).result(90)

    def call(self, name: str, /, **arguments: Any) -> CallToolResult:
        """Call a tool."""
        result = self.do(lambda client: client.call_tool(name, arguments))
        assert isinstance(result, CallToolResult)
        return result

    def call_rejected(self, name: str, /, **arguments: Any) -> str:
        """Call a tool that must fail; returns its one-line error."""
        result = self.call(name, **arguments)
        assert result.is_error and result.structured_content is None, text(result)
        assert "\n" not in text(result)
        return text(result)

    async def _run_client(self) -> None:
        try:
            async with self._connect() as client:
                self._client.set_result(client)
                await self._done.wait()
        except BaseException as error:
            if self._client.done():
                raise
            self._client.set_exception(error)


def text(result: CallToolResult) -> str:
    """The text of a result."""
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


@contextmanager
def serving(app: Any, port: int = 0) -> Iterator[str]:
    """Serve an application with uvicorn on a loopback port, 0: a free one; yields its URL without a path."""
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, lifespan="on", timeout_graceful_shutdown=5))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        assert thread.is_alive() and time.monotonic() < deadline, "uvicorn did not start"
        time.sleep(0.01)
    [socket] = server.servers[0].sockets
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
