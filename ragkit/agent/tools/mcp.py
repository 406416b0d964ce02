"""The tools of an MCP server as tools of an agent, with the official SDK.

A connection lives in one task of a background loop, so that synchronous and asynchronous runs share it.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import re
import sys
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import cast
from urllib.parse import urlsplit

from ragkit.agent.messages import canonical_json
from ragkit.agent.runtime.background_tasks import BackgroundLoop
from ragkit.agent.tools.base import NO_ARGUMENTS, Tool, ToolContext, ToolResult
from ragkit.agent.tools.builtin import ToolError
from ragkit.agent.tools.function_schema import inline_references
from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption, MissingExtra, RagkitError, shorten
from ragkit.masking import mask_secrets
from ragkit.records import JSON

try:
    import httpx2
    import mcp_types as types
    from mcp import Client, MCPError, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client
except ImportError as error:
    raise MissingExtra("mcp_tools", extra="mcp") from error

LOG = logging.getLogger("ragkit.agent")
MCP_LOOP = BackgroundLoop("ragkit-mcp")
MAX_NAME_CHARS = 64
"""Longest name of a tool that all model services accept."""
MAX_TOOLS = 1000
"""Maximum tools of one server: a server whose pages never end must not hang the connection."""
CANCEL_POLL_S = 0.1
"""Seconds between two looks at whether the run was cancelled or no longer waits."""
CLOSE_TIMEOUT_S = 10.0
NO_VALUES: Mapping[str, str] = {}
CONNECTION_CODES = (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT)


class McpServerError(RagkitError):
    """An MCP server is unreachable, or closed the connection."""


@check_types()
def mcp_tools(
    server: str,
    args: Sequence[str] = (),
    *,
    env: Mapping[str, str] = NO_VALUES,
    headers: Mapping[str, str] = NO_VALUES,
    prefix: str = "",
    timeout_s: float = 60.0,
) -> McpConnection:
    """The tools of an MCP server, for an agent: `Agent(provider, [*await mcp_tools("https://host/mcp")])`.

    `await mcp_tools(...)` returns the tools and keeps the connection until the program ends. `async with` and, in
    synchronous programs, `with` return them too, and close the connection at the end of the block. A server that
    closed the connection is started or connected to again by the next call; the call that failed is not repeated.

    Args:
        server: the URL of a server (streamable HTTP), or the program to start (stdio).
        args: the arguments of the program.
        env: environment variables of the program, besides HOME, PATH and the like. No others are passed on.
        headers: HTTP headers, such as Authorization.
        prefix: put before the name of each tool, with an underscore. Without one, only a tool whose name is taken
            gets the name of the server as its prefix.
        timeout_s: seconds to wait for the connection, and for the result of a call.

    Raises:
        McpServerError: on connecting, if the server cannot be reached.
        InvalidOption: an argument does not fit the kind of server.
    """
    return McpConnection(McpServerOptions(server, tuple(args), dict(env), dict(headers), prefix, timeout_s))


@dataclass(frozen=True)
class McpServerOptions:
    """Where an MCP server is, and how its tools are named; see `mcp_tools`."""

    server: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    prefix: str = ""
    timeout_s: float = 60.0
    """Of the connection and of each call, in seconds."""

    def __post_init__(self) -> None:
        if not self.server.strip():
            raise InvalidOption("server", self.server, "a URL or a program")
        if self.is_url and (self.args or self.env):
            raise InvalidOption("args and env", "given", f"left out for the URL {self.label}")
        if self.headers and not self.is_url:
            raise InvalidOption("headers", "given", f"left out for the program {self.server}")
        if self.timeout_s <= 0:
            raise InvalidOption("timeout_s", self.timeout_s, "> 0")

    @property
    def is_url(self) -> bool:
        """Whether the server is reached over HTTP."""
        return self.server.startswith(("http://", "https://"))

    @property
    def label(self) -> str:
        """The server in messages: without the query and the credentials of a URL."""
        if not self.is_url:
            return " ".join([self.server, *self.args][:3])
        parts = urlsplit(self.server)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @asynccontextmanager
    async def open_client(self) -> AsyncIterator[Client]:
        """A connected client."""
        if not self.is_url:
            parameters = StdioServerParameters(command=self.server, args=list(self.args), env=dict(self.env))
            # not sys.stderr, which notebooks replace by an object without a file descriptor
            async with Client(stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr)) as client:
                yield client
            return
        timeout = httpx2.Timeout(self.timeout_s, read=None)  # calls have their own timeout
        async with (
            httpx2.AsyncClient(headers=dict(self.headers), timeout=timeout) as http,
            Client(streamable_http_client(self.server, http_client=http)) as client,
        ):
            yield client


class McpConnection:
    """A connection to an MCP server. It opens when it is awaited, entered or `connect` is called."""

    def __init__(self, options: McpServerOptions) -> None:
        self.options = options
        self._session: _McpSession | None = None
        self._closed = False
        self._opening = asyncio.Lock()  # used in MCP_LOOP only

    def connect(self) -> list[Tool]:
        """Connect, and return the tools of the server. Blocks; in a coroutine use `await connection`."""
        return MCP_LOOP.submit(self._connect()).result()

    def close(self) -> None:
        """Close the connection and stop the program. Idempotent. Calls in progress fail."""
        atexit.unregister(self.close)
        MCP_LOOP.submit(self._close()).result(CLOSE_TIMEOUT_S)

    async def aclose(self) -> None:
        """Asynchronous version of `close`."""
        atexit.unregister(self.close)
        await asyncio.wrap_future(MCP_LOOP.submit(self._close()))

    def __await__(self) -> Generator[object, None, list[Tool]]:
        """Connect, and return the tools of the server."""
        return asyncio.wrap_future(MCP_LOOP.submit(self._connect())).__await__()

    def __enter__(self) -> list[Tool]:
        return self.connect()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> list[Tool]:
        return await self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __iter__(self) -> Generator[Tool, None, None]:
        raise InvalidOption("mcp_tools(...)", "not connected", "awaited, or entered by `async with` or `with`")

    async def call(self, name: str, arguments: dict[str, object], cancelled: Callable[[], bool]) -> ToolResult:
        """Call a tool of the server, from any loop. Raises ToolError, McpServerError."""
        waiter = asyncio.wrap_future(MCP_LOOP.submit(self._call(name, arguments)))
        try:
            while not waiter.done():
                await asyncio.wait([waiter], timeout=CANCEL_POLL_S)
                if cancelled() and not waiter.done():
                    raise ToolError("the call was cancelled")
            return waiter.result()
        finally:
            waiter.cancel()  # also cancels the request to the server

    async def _connect(self) -> list[Tool]:
        self._closed = False
        client = await self._open_session()
        try:
            async with asyncio.timeout(self.options.timeout_s):
                listed = await _list_tools(client)
        except Exception as error:
            await self._close()
            raise self._server_error(error) from error
        atexit.register(self.close)
        server = client.server_info.name if client.server_info is not None else ""
        return list(_to_tools(self, listed, server or urlsplit(self.options.server).hostname or self.options.server))

    async def _open_session(self) -> Client:
        async with self._opening:
            if self._closed:
                raise McpServerError(f"the connection to the MCP server {self.options.label} is closed")
            if self._session is None or self._session.is_lost:
                await self._close_session()
                self._session = _McpSession(self.options)
            try:
                async with asyncio.timeout(self.options.timeout_s):
                    return await asyncio.shield(self._session.client)
            except Exception as error:
                await self._close_session()
                raise self._server_error(error) from error

    async def _call(self, name: str, arguments: dict[str, object]) -> ToolResult:
        client = await self._open_session()
        session = self._session
        try:
            result = await client.call_tool(name, arguments, read_timeout_seconds=self.options.timeout_s)
        except MCPError as error:
            if error.code not in CONNECTION_CODES:
                raise ToolError(error.message) from error
            if session is not None and error.code == types.CONNECTION_CLOSED:
                session.is_lost = True
            raise self._server_error(error) from error
        except Exception as error:
            if session is not None:
                session.is_lost = True
            raise self._server_error(error) from error
        if result.is_error:
            raise ToolError(_describe_content(result) or "the tool failed without a message")
        return _to_tool_result(result)

    async def _close(self) -> None:
        self._closed = True
        async with self._opening:
            await self._close_session()

    async def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _server_error(self, error: BaseException) -> McpServerError:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        timed_out = isinstance(error, TimeoutError)
        reason = f"no answer within {self.options.timeout_s:g} seconds" if timed_out else str(error) or repr(error)
        return McpServerError(mask_secrets(f"the MCP server {self.options.label} failed: {shorten(reason, 300)}"))


class _McpSession:
    """One open connection, in a task of its own: the SDK must be left in the task that entered it."""

    def __init__(self, options: McpServerOptions) -> None:
        self.client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self.is_lost = False
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._run(options))

    async def close(self) -> None:
        """Close the connection and wait until it is closed."""
        self._stop.set()
        if not self.client.done() or self.client.cancelled():
            self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self, options: McpServerOptions) -> None:
        try:
            async with options.open_client() as client:
                self.client.set_result(client)
                await self._stop.wait()
        except BaseException as error:  # the SDK raises groups of errors
            if not self.client.done():
                self.client.set_exception(error)
                self.client.exception()  # a waiter that gave up never asks for it
            elif not isinstance(error, Exception):
                raise
            else:
                LOG.debug("the connection to the MCP server %s ended", options.label, exc_info=True)
        finally:
            self.is_lost = True


@dataclass(frozen=True)
class McpTool(Tool):
    """A tool of an MCP server."""

    connection: McpConnection | None = field(default=None, repr=False, compare=False)
    remote_name: str = ""
    """Its name on the server."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "takes_context", True)  # to learn that the run no longer waits

    def call_validated(
        self, checked: Mapping[str, object], context: ToolContext | None, injected: Mapping[str, object] = NO_ARGUMENTS
    ) -> object:
        """A coroutine that calls the tool."""
        assert self.connection is not None  # noqa: S101 - set by `_to_tools`
        arguments = {**self.injected_kwargs, **injected, **checked}
        return self.connection.call(self.remote_name, arguments, (context or ToolContext()).cancelled)


async def _list_tools(client: Client) -> list[types.Tool]:
    tools: list[types.Tool] = []
    cursor: str | None = None
    while len(tools) < MAX_TOOLS:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor or not page.tools:
            break
    return tools[:MAX_TOOLS]


def _to_tools(connection: McpConnection, listed: Sequence[types.Tool], server: str) -> Generator[Tool, None, None]:
    """The tools with safe and distinct names. A tool with an unusable schema is left out with a warning."""
    options, taken = connection.options, set[str]()
    for item in listed:
        name = _safe_name(f"{options.prefix}_{item.name}" if options.prefix else item.name)
        if name in taken:  # two names that differ only in characters that are replaced
            name = _safe_name(f"{name}_{blake2b(item.name.encode(), digest_size=3).hexdigest()}")
        taken.add(name)

        async def function(_name: str = item.name, /, **arguments: object) -> ToolResult:
            return await connection.call(_name, arguments, ToolContext().cancelled)

        try:
            yield McpTool(
                name,
                item.description or item.title or item.name,
                function,
                inline_references(cast("Mapping[str, JSON]", item.input_schema)),
                timeout_s=options.timeout_s,
                fallback_name="" if options.prefix else _safe_name(f"{server}_{item.name}"),
                connection=connection,
                remote_name=item.name,
            )
        except InvalidOption as error:
            LOG.warning("the tool %r of the MCP server %s is left out: %s", item.name, options.label, error)


def _safe_name(name: str) -> str:
    """A name that model services accept: ASCII letters, digits, `_` and `-`, up to 64."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_") or "tool"
    if len(safe) <= MAX_NAME_CHARS:
        return safe
    return f"{safe[: MAX_NAME_CHARS - 7]}_{blake2b(name.encode(), digest_size=3).hexdigest()}"


def _to_tool_result(result: types.CallToolResult) -> ToolResult:
    """Text for the model; as `data` the structured result, else the content if it is not text alone."""
    data: object = result.structured_content
    if data is None and any(not isinstance(item, types.TextContent) for item in result.content):
        data = [item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in result.content]
    return ToolResult(_describe_content(result), data)


def _describe_content(result: types.CallToolResult) -> str:
    """The parts of a result as text, one below the other; the structured result if there are none."""
    parts = [_describe_part(item) for item in result.content]
    if not parts and result.structured_content is not None:
        return canonical_json(cast("JSON", result.structured_content))
    return "\n".join(parts)


def _describe_part(part: types.ContentBlock) -> str:
    if isinstance(part, types.TextContent):
        return part.text
    if isinstance(part, types.ImageContent | types.AudioContent):
        return f"[{part.type}: {part.mime_type}, {_count_bytes(part.data)} bytes, not shown]"
    if isinstance(part, types.ResourceLink):
        return f"[resource: {part.name}, {part.uri}]"
    content = part.resource
    if isinstance(content, types.TextResourceContents):
        return content.text
    return f"[resource: {content.uri}, {content.mime_type or 'binary'}, {_count_bytes(content.blob)} bytes, not shown]"


def _count_bytes(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")
