"""The MCP server over streamable HTTP, as an endpoint of another application or as its own application."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server.bases import BASE_KEY
from ragkit.server.concurrency import PRINCIPAL
from ragkit.server.http_errors import ErrorResponse
from ragkit.server.mcp.server import McpServer, StreamableHTTPSessionManager
from ragkit.server.mcp.tools import McpAskOptions, McpTools
from ragkit.server.metrics import Metrics
from ragkit.server.middleware import RequestMiddleware
from ragkit.server.principals import AccessControl, restrict
from ragkit.server.settings import ServerSettings

MCP_PATH = "/mcp"
MAX_SESSIONS = 200
"""Maximum open sessions. A new one closes an idle one beyond that: its client has to initialize again."""
MAX_CLIENT_SESSIONS = 50
"""Maximum open sessions of one client (token or address). A new one closes an idle one of the same client."""
SESSION_IDLE_S = 300.0
"""Seconds without a request after which a session is closed."""
SESSION_HEADER = b"mcp-session-id"
MAX_BODY_BYTES = 262_144
"""Maximum size of a request body."""


@dataclass(slots=True)
class _Session:
    """The use of an open session."""

    principal: str = ""
    """Who opened it. Others get 404, as for a session that does not exist."""
    requests: int = 1
    running: int = 0
    used_at: float = field(default_factory=time.monotonic)

    @property
    def rank(self) -> tuple[bool, float]:
        """Lower: closed first. Sessions that were opened and never used come before all others."""
        return self.requests > 1, self.used_at


class McpEndpoint:
    """The MCP server as an ASGI application for one path. Run it behind RequestMiddleware, inside `lifespan()`."""

    def __init__(self, server: McpServer, *, stateless: bool = False) -> None:
        """`stateless` disables sessions, as needed when several processes share one port."""
        self._manager = StreamableHTTPSessionManager(
            app=server.protocol,
            stateless=stateless,
            max_request_body_size=MAX_BODY_BYTES,
            session_idle_timeout=SESSION_IDLE_S,
            max_sessions=2 * MAX_SESSIONS,  # some may open while others close
        )
        self._sessions: dict[str, _Session] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. A request that opens a session closes the least useful idle one if there are too many."""
        session_id, principal = _header(scope["headers"], SESSION_HEADER), PRINCIPAL.get()
        if not session_id:
            await self._make_room(principal)
        session = self._sessions.get(session_id, _Session(principal))
        if session.principal != principal:
            await _send_not_found(send)
            return
        session.requests += 1
        session.running += 1

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                opened = _header(message.get("headers", ()), SESSION_HEADER)
                if message["status"] == 404 or scope["method"] == "DELETE":
                    self._sessions.pop(session_id, None)
                elif not session_id and opened:
                    self._sessions[opened] = _Session(principal)
            await send(message)

        try:
            await self._manager.handle_request(scope, receive, watch)
        finally:
            session.running -= 1
            session.used_at = time.monotonic()

    async def _make_room(self, principal: str) -> None:
        """Close idle sessions until a client can open one: of the client, or of whoever has most."""
        while (client := self._find_excess(principal)) is not None:
            idle = [key for key, session in self._sessions.items() if session.principal == client]
            idle = [key for key in idle if not self._sessions[key].running]
            if not idle:
                return
            closed = min(idle, key=lambda session_id: self._sessions[session_id].rank)
            del self._sessions[closed]
            await self._manager.handle_request(_delete_request(closed), _receive_nothing, _discard)

    def _find_excess(self, principal: str) -> str | None:
        """The client that must close a session before `principal` opens one."""
        counts = Counter(session.principal for session in self._sessions.values())
        if counts[principal] >= MAX_CLIENT_SESSIONS:
            return principal
        return counts.most_common(1)[0][0] if counts.total() >= MAX_SESSIONS else None

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Accept requests; close all sessions at the end. Can be entered once."""
        return self._manager.run()


def _header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in headers if key.lower() == name), "")


def _delete_request(session_id: str) -> Scope:
    """The request by which a client ends its session."""
    headers = [(SESSION_HEADER, session_id.encode("latin-1")), (b"host", b"localhost")]
    request = {"type": "http", "method": "DELETE", "path": MCP_PATH, "raw_path": MCP_PATH.encode(), "query_string": b""}
    return {**request, "root_path": "", "scheme": "http", "http_version": "1.1", "headers": headers}


async def _receive_nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _send_not_found(send: Send) -> None:
    """The response for a session that does not exist: the client initializes again."""
    body = ErrorResponse(404, "session not found", "session_not_found").encode()
    await send({"type": "http.response.start", "status": 404, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})


async def _discard(message: Message) -> None:
    """Ignore a response."""


def create_mcp_app(server: McpServer, settings: ServerSettings, access: AccessControl | None = None) -> ASGIApp:
    """An application with the MCP server at MCP_PATH, behind RequestMiddleware. `access`: the users, if there are."""
    endpoint = McpEndpoint(server)
    app = Starlette(routes=[Route(MCP_PATH, endpoint)], lifespan=lambda _: endpoint.lifespan())
    return RequestMiddleware(app, settings, Metrics(), access)


class McpEndpoints:
    """An endpoint for all knowledge bases, and one for each that a path chooses."""

    def __init__(self, every: McpEndpoint, single: Mapping[str, McpEndpoint]) -> None:
        self._every, self._single = every, single

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._single.get(scope.get(BASE_KEY, ""), self._every)(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Accept requests; close all sessions at the end."""
        async with AsyncExitStack() as stack:
            for endpoint in (self._every, *self._single.values()):
                await stack.enter_async_context(endpoint.lifespan())
            yield


def create_mcp_endpoint(
    kb: KnowledgeBase,
    settings: ServerSettings,
    bases: Mapping[str, KnowledgeBase] | None = None,
    *,
    stateless: bool = False,
) -> McpEndpoint | McpEndpoints:
    """The endpoint for the main application, with its default model and limits; `bases`: all by name, `kb` first."""
    kb = restrict(kb, "")
    ask_options = McpAskOptions(settings.models[0] if settings.models else None)
    if bases is None:
        return McpEndpoint(McpServer(McpTools(kb, ask_options, limits=settings.limits)), stateless=stateless)
    tools = {name: McpTools(restrict(base, name), ask_options, limits=settings.limits) for name, base in bases.items()}
    every = McpEndpoint(McpServer(next(iter(tools.values())), tools), stateless=stateless)
    single = {name: McpEndpoint(McpServer(own), stateless=stateless) for name, own in tools.items()}
    return McpEndpoints(every, single)
