"""The application: routes, errors in one shape, and what begins and ends with it."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
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
"""How often what is too old is dropped."""
ROUTERS = (chat_api.router, knowledge_base_api.router, openai_api.router)
_ERROR_CODES = {404: "not_found", 405: "method_not_allowed"}
_ERROR_STATUSES = (400, 401, 402, 403, 404, 405, 408, 409, 413, 421, 429, 500, 502, 503, 504)
_ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorSchema} for status in _ERROR_STATUSES
}


@dataclass(frozen=True)
class Mount:
    """Another application under a path of this one, and what must be open while it is asked."""

    path: str
    app: ASGIApp
    lifespan: Callable[[], AbstractAsyncContextManager[object]] | None = None
    exact: bool = False
    """It is asked under this very path, and not below it."""


def create_app(
    kb: ServedKnowledgeBase, directory: Path, settings: ServerSettings | None = None, mounts: Sequence[Mount] = ()
) -> FastAPI:
    """The application that serves a knowledge base.

    Args:
        kb: what is served. It stays open; whoever opened it closes it.
        directory: where the state file lies: the knowledge base's own directory.
        settings: None: as they are by default, for loopback.
        mounts: further applications, behind the same gate.

    Raises:
        KnowledgeBaseDamaged: the state file cannot be used.
    """
    chosen = settings or ServerSettings()
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        state = StateDatabase(directory)
        sessions, traces = SessionStore(state, chosen.retention), TraceStore(state, chosen.retention)
        shop = AnswerRunner(
            kb, sessions, traces, ConcurrencyLimiter(chosen.limits, metrics.set_queue), metrics, chosen.limits
        )
        app.state.service = AppContext(kb, chosen, state, sessions, traces, shop, metrics)
        besides = (asyncio.create_task(_run_cleanup(sessions, traces)), asyncio.create_task(trim_periodically()))
        async with AsyncExitStack() as stack:
            for mount in mounts:
                if mount.lifespan is not None:
                    await stack.enter_async_context(mount.lifespan())
            with _SignalStop(shop, chosen.limits.shutdown_seconds):
                yield
            for task in besides:
                task.cancel()
            await shop.stop(0.0)
            with suppress(TimeoutError):
                async with asyncio.timeout(5.0):
                    await shop.wait_until_idle()
        state.close()

    app = FastAPI(
        title="ragkit",
        version=__version__,
        summary="Cited answers over a folder of documents.",
        lifespan=lifespan,
        docs_url=None,  # the page of it fetches scripts from elsewhere
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
    """The OpenAPI document: as FastAPI makes it, without the answer 422, in whose place stands 400."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        for path in found["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            found["components"]["schemas"].pop(name, None)
        app.openapi_schema = found
    return app.openapi_schema


def _to_response(fault: ErrorResponse) -> JSONResponse:
    return JSONResponse(fault.to_json(), fault.status, dict(fault.headers))


async def _handle_validation_error(request: Request, error: Exception) -> Response:
    """A request of the wrong form: the first thing that is wrong with it."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
    first: Mapping[str, Any] = error.errors()[0]
    where = ".".join(str(one) for one in first["loc"][1:])
    param = where if where and first["type"] != "json_invalid" else None
    return _to_response(
        ErrorResponse(400, f"{param or first['loc'][0]}: {first['msg']}", "invalid_request", param=param)
    )


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    headers |= {"allow": ", ".join(sorted(_allowed_methods(request.url.path)))} if error.status_code == 405 else {}
    message = {404: "there is nothing here", 405: "this is not how it is asked for"}.get(error.status_code)
    return _to_response(ErrorResponse(error.status_code, message or error.detail, _ERROR_CODES.get(error.status_code, "http_error"),
                           headers=headers))  # fmt: skip


def _allowed_methods(path: str) -> set[str]:
    """How a path may be asked for: by the routes that name it, else by those that it fits."""
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    fitting = [route for route in routes if route.path == path] or [
        route for route in routes if route.path_regex.match(path)
    ]
    return {method for route in fitting for method in route.methods or ()} or {"GET"}


async def _handle_ragkit_error(request: Request, error: Exception) -> Response:
    fault = to_error_response(error)
    if fault.status >= 500:
        LOG.warning("a request failed: %s", error)
    return _to_response(fault)


async def _handle_disconnect(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it; the log shows it


async def _run_cleanup(sessions: SessionStore, traces: TraceStore) -> None:
    while True:
        try:
            await sessions.delete_expired()
            await traces.delete_expired()
        except Exception:  # a border: what nobody asked for must not end
            LOG.exception("what is too old could not be dropped")
        await asyncio.sleep(CLEANUP_INTERVAL_S)


class _SignalStop:
    """While it is open, the signals that stop the server also begin the end of the answers that are being made."""

    def __init__(self, shop: AnswerRunner, seconds: float) -> None:
        self._runner = shop
        self._grace_s = seconds
        self._loop = asyncio.get_running_loop()
        self._previous_handlers: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(ValueError):  # not in the main thread: somebody else looks after the signals
                self._previous_handlers[number] = signal.signal(number, self._handle_signal)

    def __exit__(self, *error: object) -> None:
        for number, before in self._previous_handlers.items():
            signal.signal(number, before)

    def _handle_signal(self, number: int, frame: Any) -> None:
        self._loop.call_soon_threadsafe(lambda: self._runner.schedule_stop(self._grace_s))
        before = self._previous_handlers.get(number)
        if callable(before):
            before(number, frame)
