"""The MCP server over streamable HTTP, as an endpoint of another application or as its own application."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

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
"""Maximum open sessions."""
SESSION_IDLE_S = 1800.0
"""Seconds without a request after which a session is closed."""
MAX_BODY_BYTES = 262_144
"""Maximum size of a request body."""


class McpEndpoint:
    """The MCP server as an ASGI application for one path. Run it behind RequestMiddleware, inside `lifespan()`."""

    def __init__(self, server: McpServer, *, stateless: bool = False) -> None:
        """`stateless` disables sessions, as needed when several processes share one port."""
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

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Accept requests; close all sessions at the end. Can be entered once."""
        return self._manager.run()


def create_mcp_app(server: McpServer, settings: ServerSettings) -> ASGIApp:
    """An application with the MCP server at MCP_PATH, behind RequestMiddleware."""
    endpoint = McpEndpoint(server)
    app = Starlette(routes=[Route(MCP_PATH, endpoint)], lifespan=lambda _: endpoint.lifespan())
    return RequestMiddleware(app, settings, Metrics())


def create_mcp_endpoint(kb: ServedKnowledgeBase, settings: ServerSettings, *, stateless: bool = False) -> McpEndpoint:
    """The endpoint for the main application, with its default model and limits."""
    ask_options = McpAskOptions(settings.models[0] if settings.models else None)
    return McpEndpoint(McpServer(McpTools(kb, ask_options, limits=settings.limits)), stateless=stateless)
