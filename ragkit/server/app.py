"""The FastAPI application: routes, error handlers and lifespan."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import ASGIApp

from ragkit import __version__
from ragkit.agent.tools.served import get_builtin_tool
from ragkit.errors import RagkitError
from ragkit.server import chat_api, knowledge_base_api, openai_api, schemas
from ragkit.server.answer_tasks import AnswerRunner
from ragkit.server.base import ServedKnowledgeBase
from ragkit.server.concurrency import ConcurrencyLimiter
from ragkit.server.database import StateDatabase
from ragkit.server.dependencies import AppContext
from ragkit.server.http_errors import ErrorResponse, to_error_response
from ragkit.server.malloc_trim import trim_periodically
from ragkit.server.metrics import Metrics
from ragkit.server.middleware import RequestMiddleware
from ragkit.server.sessions import SessionStore
from ragkit.server.settings import ServerSettings
from ragkit.server.static_files import static_routes
from ragkit.server.traces import TraceStore

LOG = logging.getLogger("ragkit.server")
CLEANUP_INTERVAL_S = 3600.0
"""Seconds between two deletions of expired sessions and traces."""
MAX_RUNNING_EMBEDDINGS = 2
"""Requests for embeddings that run at the same time; more wait, as long as an answer may take."""
ROUTERS = (chat_api.router, knowledge_base_api.router, openai_api.router)
_ERROR_CODES = {404: "not_found", 405: "method_not_allowed"}
_ERROR_STATUSES = (400, 401, 402, 403, 404, 405, 408, 409, 413, 421, 429, 500, 502, 503, 504)
_ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorSchema} for status in _ERROR_STATUSES
}


@dataclass(frozen=True)
class Mount:
    """Another ASGI application under a path of this one, with its lifespan."""

    path: str
    app: ASGIApp
    lifespan: Callable[[], AbstractAsyncContextManager[object]] | None = None
    exact: bool = False
    """Serve only this path, not the paths below it."""


def create_app(
    kb: ServedKnowledgeBase, directory: Path, settings: ServerSettings | None = None, mounts: Sequence[Mount] = ()
) -> FastAPI:
    """The application that serves a knowledge base.

    Args:
        kb: the knowledge base to serve. The caller closes it.
        directory: directory of the state file: that of the knowledge base.
        settings: None: the defaults, for loopback.
        mounts: more applications, behind the same middleware.

    Raises:
        KnowledgeBaseDamaged: the state file cannot be read.
        UnknownName, MissingExtra: a tool of the settings is unknown or needs a package.
    """
    chosen = settings or ServerSettings()
    metrics = Metrics()
    tools = tuple(map(get_builtin_tool, chosen.tools))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        state = StateDatabase(directory)
        sessions, traces = SessionStore(state, chosen.retention), TraceStore(state, chosen.retention)
        limiter = ConcurrencyLimiter(chosen.limits, metrics.set_queue)
        runner = AnswerRunner(kb, sessions, traces, limiter, metrics, chosen.limits, tools)
        embedding_limits = replace(
            chosen.limits, max_running=MAX_RUNNING_EMBEDDINGS, max_wait_seconds=chosen.limits.answer_seconds
        )
        embedding_limiter = ConcurrencyLimiter(embedding_limits)
        app.state.service = AppContext(kb, chosen, state, sessions, traces, runner, metrics, embedding_limiter)
        background = (asyncio.create_task(_run_cleanup(sessions, traces)), asyncio.create_task(trim_periodically()))
        async with AsyncExitStack() as stack:
            for mount in mounts:
                if mount.lifespan is not None:
                    await stack.enter_async_context(mount.lifespan())
            with _stop_on_signals(runner, chosen.limits.shutdown_seconds):
                yield
            for task in background:
                task.cancel()
            await runner.stop(0.0)
            with suppress(TimeoutError):
                async with asyncio.timeout(5.0):
                    await runner.wait_until_idle()
        state.close()

    app = FastAPI(
        title="ragkit",
        version=__version__,
        summary="Cited answers over a folder of documents.",
        lifespan=lifespan,
        docs_url=None,  # its page loads scripts from a CDN
        redoc_url=None,
        responses=_ERROR_RESPONSES,
        redirect_slashes=False,
    )
    for router in ROUTERS:
        app.include_router(router)
    app.router.routes.extend(static_routes())
    for mount in mounts:
        if mount.exact:
            app.router.routes.append(Route(mount.path, mount.app))
        else:
            app.mount(mount.path, mount.app)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_exception_handler(RagkitError, _handle_ragkit_error)
    app.add_exception_handler(ClientDisconnect, _handle_disconnect)
    app.add_middleware(RequestMiddleware, settings=chosen, metrics=metrics)
    app.openapi = partial(_openapi_document, app)  # type: ignore[method-assign]
    return app


def _openapi_document(app: FastAPI) -> dict[str, Any]:
    """FastAPI's OpenAPI document without the 422 responses: validation errors are 400 here."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        for path in document["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            document["components"]["schemas"].pop(name, None)
        app.openapi_schema = document
    return app.openapi_schema


def _to_response(response: ErrorResponse) -> JSONResponse:
    return JSONResponse(response.to_json(), response.status, dict(response.headers))


async def _handle_validation_error(request: Request, error: Exception) -> Response:
    """Report the first validation error."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
    first: Mapping[str, Any] = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    param = where if where and first["type"] != "json_invalid" else None
    message = f"{param or first['loc'][0]}: {first['msg']}"
    return _to_response(ErrorResponse(400, message, "invalid_request", param=param))


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    headers |= {"allow": ", ".join(sorted(_allowed_methods(request.url.path)))} if error.status_code == 405 else {}
    message = {404: "not found", 405: "method not allowed"}.get(error.status_code, error.detail)
    code = _ERROR_CODES.get(error.status_code, "http_error")
    return _to_response(ErrorResponse(error.status_code, message, code, headers=headers))


def _allowed_methods(path: str) -> set[str]:
    """The methods of a path: those of the routes with this exact path, else of the routes that match it."""
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    exact = [route for route in routes if route.path == path]
    matching = exact or [route for route in routes if route.path_regex.match(path)]
    return {method for route in matching for method in route.methods or ()} or {"GET"}


async def _handle_ragkit_error(request: Request, error: Exception) -> Response:
    response = to_error_response(error)
    if response.status >= 500:
        LOG.warning("a request failed: %s", error)
    return _to_response(response)


async def _handle_disconnect(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # only the request log shows it


async def _run_cleanup(sessions: SessionStore, traces: TraceStore) -> None:
    while True:
        try:
            await sessions.delete_expired()
            await traces.delete_expired()
        except Exception:  # boundary: the background task must go on
            LOG.exception("expired sessions and traces could not be deleted")
        await asyncio.sleep(CLEANUP_INTERVAL_S)


@contextmanager
def _stop_on_signals(runner: AnswerRunner, seconds: float) -> Iterator[None]:
    """Let SIGINT and SIGTERM stop running answers after `seconds`, before the previous handlers are called."""
    loop = asyncio.get_running_loop()
    previous: dict[int, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(lambda: runner.schedule_stop(seconds))
        handler = previous.get(number)
        if callable(handler):
            handler(number, frame)

    for signal_number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError):  # not in the main thread: the caller handles signals
            previous[signal_number] = signal.signal(signal_number, handle)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
