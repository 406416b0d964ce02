"""The MCP server over streamable HTTP, as an endpoint of another application or as its own application."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragkit.server.base import ServedKnowledgeBase
from ragkit.server.mcp import McpServer, StreamableHTTPSessionManager
from ragkit.server.mcp_tools import McpAskOptions, McpTools
from ragkit.server.metrics import Metrics
from ragkit.server.middleware import RequestMiddleware
from ragkit.server.settings import ServerSettings

MCP_PATH = "/mcp"
MAX_SESSIONS = 200
"""Maximum open sessions. A new one closes an idle one beyond that: its client has to initialize again."""
SESSION_IDLE_S = 1800.0
"""Seconds without a request after which a session is closed."""
SESSION_HEADER = b"mcp-session-id"
MAX_BODY_BYTES = 262_144
"""Maximum size of a request body."""


@dataclass(slots=True)
class _Session:
    """The use of an open session."""

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
        session_id = _header(scope["headers"], SESSION_HEADER)
        if not session_id:
            await self._make_room()
        session = self._sessions.get(session_id, _Session())
        session.requests += 1
        session.running += 1

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                opened = _header(message.get("headers", ()), SESSION_HEADER)
                if message["status"] == 404 or scope["method"] == "DELETE":
                    self._sessions.pop(session_id, None)
                elif not session_id and opened:
                    self._sessions[opened] = _Session()
            await send(message)

        try:
            await self._manager.handle_request(scope, receive, watch)
        finally:
            session.running -= 1
            session.used_at = time.monotonic()

    async def _make_room(self) -> None:
        while len(self._sessions) >= MAX_SESSIONS:
            idle = [session_id for session_id, session in self._sessions.items() if not session.running]
            if not idle:
                return
            closed = min(idle, key=lambda session_id: self._sessions[session_id].rank)
            del self._sessions[closed]
            await self._manager.handle_request(_delete_request(closed), _receive_nothing, _discard)

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


async def _discard(message: Message) -> None:
    """Ignore a response."""


def create_mcp_app(server: McpServer, settings: ServerSettings) -> ASGIApp:
    """An application with the MCP server at MCP_PATH, behind RequestMiddleware."""
    endpoint = McpEndpoint(server)
    app = Starlette(routes=[Route(MCP_PATH, endpoint)], lifespan=lambda _: endpoint.lifespan())
    return RequestMiddleware(app, settings, Metrics())


def create_mcp_endpoint(kb: ServedKnowledgeBase, settings: ServerSettings, *, stateless: bool = False) -> McpEndpoint:
    """The endpoint for the main application, with its default model and limits."""
    ask_options = McpAskOptions(settings.models[0] if settings.models else None)
    return McpEndpoint(McpServer(McpTools(kb, ask_options, limits=settings.limits)), stateless=stateless)
