"""The MCP server over streamable HTTP: an endpoint for a server that has others, and an application of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ragkit.server.base import ServedKnowledgeBase
from ragkit.server.mcp import McpServer, StreamableHTTPSessionManager
from ragkit.server.mcp_tools import McpAskOptions, McpTools
from ragkit.server.metrics import Metrics
from ragkit.server.middleware import RequestMiddleware
from ragkit.server.settings import ServerSettings

MCP_PATH = "/mcp"
MAX_SESSIONS = 200
"""Sessions that may be open at the same time."""
SESSION_IDLE_S = 1800.0
"""Seconds after which a session is closed that nobody uses."""
MAX_BODY_BYTES = 262_144
"""Of one request."""


class McpEndpoint:
    """The server as an ASGI application for one path. Serve it behind a gate, while `running()` is open."""

    def __init__(self, server: McpServer, *, stateless: bool = False) -> None:
        """`stateless` keeps no sessions: needed where several processes share one port."""
        self._manager = StreamableHTTPSessionManager(
            app=server.protocol,
            stateless=stateless,
            max_request_body_size=MAX_BODY_BYTES,
            session_idle_timeout=SESSION_IDLE_S,
            max_sessions=MAX_SESSIONS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._manager.handle_request(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        """Open for requests; at the end every session is closed. May be entered once."""
        async with self._manager.run():
            yield


def create_mcp_app(server: McpServer, settings: ServerSettings) -> ASGIApp:
    """The server by itself, at PATH, behind a gate that checks Host, Origin and the bearer token."""
    endpoint = McpEndpoint(server)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        async with endpoint.lifespan():
            yield

    return RequestMiddleware(Starlette(routes=[Route(MCP_PATH, endpoint)], lifespan=lifespan), settings, Metrics())


def create_mcp_endpoint(kb: ServedKnowledgeBase, settings: ServerSettings, *, stateless: bool = False) -> McpEndpoint:
    """The endpoint for a server that has the page and OpenAI's API, with its model and its limits."""
    answering = McpAskOptions(settings.models[0] if settings.models else None)
    return McpEndpoint(McpServer(McpTools(kb, answering, limits=settings.limits)), stateless=stateless)
