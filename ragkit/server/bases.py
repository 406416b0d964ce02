"""Several knowledge bases in one server: their names, and how a request chooses one.

`/kb/NAME/` before any path chooses a knowledge base, for the page too: all its addresses are relative. The parameter
`kb` and the model name `ragkit/NAME` do the same. Nothing chosen: the first one. Each has its own directory, and with
it its own sessions, traces, uploads, ratings and jobs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ragkit.knowledge_base.knowledge_base import KnowledgeBase

BASE_KEY = "ragkit.kb"
"""Key of a request's scope: the name of the knowledge base that its path chose."""
PREFIX = "/kb/"


@dataclass(frozen=True)
class Base:
    """A knowledge base, and the directory of its state file."""

    kb: KnowledgeBase
    directory: Path


class KbPathMiddleware:
    """ASGI middleware: takes `/kb/NAME` from the path, and notes the name in the scope."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self._app, self._names = app, frozenset(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["path"].startswith(PREFIX):
            name, slash, rest = scope["path"][len(PREFIX) :].partition("/")
            if name in self._names and not slash:
                await RedirectResponse(f"{name}/")(scope, receive, send)  # relative: also behind a proxy
                return
            if name in self._names:
                raw = scope.get("raw_path", b"").removeprefix(f"{PREFIX}{name}".encode())
                scope = {**scope, "path": f"/{rest}", "raw_path": raw, BASE_KEY: name}
        await self._app(scope, receive, send)
