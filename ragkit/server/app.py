"""The FastAPI application: routes, error handlers and lifespan."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

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
from ragkit.agent.observers import AgentObserver
from ragkit.agent.tools.base import Tool
from ragkit.agent.tools.served import get_builtin_tool
from ragkit.errors import DatabaseFailed, RagkitError
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.writing import Writer
from ragkit.server.answering.answer_cache import AnswerCache
from ragkit.server.answering.answer_tasks import AnswerRunner
from ragkit.server.api import administration as administration_api
from ragkit.server.api import base_management as base_management_api
from ragkit.server.api import chat as chat_api
from ragkit.server.api import knowledge_base as knowledge_base_api
from ragkit.server.api import management as management_api
from ragkit.server.api.dependencies import AppContext
from ragkit.server.api.openai import completions as completions_api
from ragkit.server.api.openai import embeddings as embeddings_api
from ragkit.server.api.openai import responses as responses_api
from ragkit.server.api.schemas.errors import ErrorSchema
from ragkit.server.base_folder import BaseFolder
from ragkit.server.bases import Base, KbPathMiddleware
from ragkit.server.concurrency import ConcurrencyLimiter
from ragkit.server.http_errors import ErrorResponse, to_error_response
from ragkit.server.malloc_trim import trim_periodically
from ragkit.server.metrics import Metrics
from ragkit.server.middleware import RequestMiddleware
from ragkit.server.page import originals as originals_api
from ragkit.server.page import overview as overview_api
from ragkit.server.page import start as start_api
from ragkit.server.page.static_files import static_routes
from ragkit.server.principals import AccessControl, as_server, restrict
from ragkit.server.readiness import ReadinessCheck
from ragkit.server.revocation import RevocationGuard
from ragkit.server.serve import stop_signals
from ragkit.server.settings import ServerLimits, ServerSettings
from ragkit.server.state.database import StateDatabase
from ragkit.server.state.job_store import JobStore
from ragkit.server.state.jobs import JobRunner
from ragkit.server.state.rights_filter import RightsFilter
from ragkit.server.state.sessions import SessionStore
from ragkit.server.state.shares import ShareStore
from ragkit.server.state.traces import TraceStore
from ragkit.server.state.uploads import UploadFolder
from ragkit.server.watching import watch_sources

_T = TypeVar("_T")
LOG = logging.getLogger("ragkit.server")
CLEANUP_INTERVAL_S = 3600.0
"""Seconds between two deletions of expired sessions and traces."""
START_SECONDS = 30.0
"""Seconds that a server waits at its start for a database that rejects it."""
JOB_STOP_SECONDS = 5.0
"""Seconds for a running job to stop in good order. A job that does not is resumed by the next server, too."""
ROUTERS = (
    chat_api.router,
    start_api.router,
    knowledge_base_api.router,
    originals_api.router,
    overview_api.router,
    management_api.router,
    administration_api.router,
    base_management_api.router,
    completions_api.router,
    responses_api.router,
    embeddings_api.router,
)
_ERROR_CODES = {404: "not_found", 405: "method_not_allowed"}
_ERROR_STATUSES = (400, 401, 402, 403, 404, 405, 408, 409, 413, 415, 421, 429, 500, 502, 503, 504, 507)
_ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {status: {"model": ErrorSchema} for status in _ERROR_STATUSES}


@dataclass(frozen=True)
class Mount:
    """Another ASGI application under a path of this one, with its lifespan."""

    path: str
    app: ASGIApp
    lifespan: Callable[[], AbstractAsyncContextManager[object]] | None = None
    exact: bool = False
    """Serve only this path, not the paths below it."""


def create_app(
    kb: KnowledgeBase,
    directory: Path,
    settings: ServerSettings | None = None,
    mounts: Sequence[Mount] = (),
    bases: Mapping[str, Base] | None = None,
    base_folder: BaseFolder | None = None,
) -> FastAPI:
    """The application that serves a knowledge base, or several.

    Args:
        kb: the knowledge base to serve. The caller closes it.
        directory: directory of the state file: that of the knowledge base.
        settings: None: the defaults, for loopback.
        mounts: more applications, behind the same middleware.
        bases: all knowledge bases by name, the first of them `kb`; None: only `kb`, without a name.
        base_folder: where owners make, rename and delete them; None: nowhere. The caller starts again after a change.

    Raises:
        KnowledgeBaseDamaged: the state file cannot be read.
        UnknownName, MissingExtra: a tool of the settings is unknown or needs a package.
    """
    chosen = settings or ServerSettings()
    metrics = Metrics()
    tools = tuple(map(get_builtin_tool, chosen.tools))
    observers = (_create_exporter(),) if chosen.otel else ()

    served = {
        name: replace(base, kb=restrict(base.kb, name)) for name, base in (bases or {"": Base(kb, directory)}).items()
    }
    stores = {name: base.kb.location.access for name, base in served.items()}
    access = AccessControl(stores, chosen.proxy_secret)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for store in stores.values():
            await asyncio.to_thread(store.follow)
        limiters = _create_limiters(chosen.limits, metrics)
        contexts: dict[str, AppContext] = {}
        for name, base in served.items():
            contexts[name] = await _open_context(name, base, chosen, (metrics, tools, limiters, observers), contexts)
        app.state.service = next(iter(contexts.values()))
        opened = list(contexts.values())
        if bases is None:
            contexts.clear()  # without names, no request can choose
        background = [asyncio.create_task(_run_cleanup(context.sessions, context.traces)) for context in opened]
        background.append(asyncio.create_task(trim_periodically()))
        if chosen.watch_seconds:
            background += [asyncio.create_task(watch_sources(context, chosen.watch_seconds)) for context in opened]
        async with AsyncExitStack() as stack:
            for mount in mounts:
                if mount.lifespan is not None:
                    await stack.enter_async_context(mount.lifespan())
            with _stop_on_signals([context.runner for context in opened], chosen.limits.shutdown_seconds):
                yield
            for task in background:
                task.cancel()
            await asyncio.gather(*map(_close_context, opened))
        for context in opened:
            context.state.close()

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
    app.state.base_folder = base_folder
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
    app.add_middleware(RevocationGuard, access=access)
    app.add_middleware(RequestMiddleware, settings=chosen, metrics=metrics, access=access)
    if bases is not None:
        app.add_middleware(KbPathMiddleware, names=tuple(bases))
    app.openapi = partial(_openapi_document, app)  # type: ignore[method-assign]
    return app


def _create_exporter() -> AgentObserver:
    """Exports the trace of each answer as the variables of OpenTelemetry say."""
    from ragkit.agent.exporters.otel import OpenTelemetryObserver, provider_from_environment  # noqa: PLC0415

    return OpenTelemetryObserver(provider_from_environment(os.environ))


@dataclass(frozen=True)
class _Limiters:
    """What all knowledge bases of a server share."""

    answers: ConcurrencyLimiter
    embeddings: ConcurrencyLimiter
    searches: ConcurrencyLimiter
    uploads: ConcurrencyLimiter
    drawings: ConcurrencyLimiter

    def are_busy(self) -> bool:
        """Whether requests that need a processor are running."""
        return any(one.running for one in (self.answers, self.embeddings, self.searches, self.uploads, self.drawings))


def _create_limiters(limits: ServerLimits, metrics: Metrics) -> _Limiters:
    embedding_limits = replace(limits, max_running=limits.max_embeddings, max_wait_seconds=limits.answer_seconds)
    return _Limiters(
        ConcurrencyLimiter(limits, metrics.set_queue),
        ConcurrencyLimiter(embedding_limits),
        ConcurrencyLimiter(replace(limits, max_running=limits.max_searches)),
        ConcurrencyLimiter(replace(limits, max_running=limits.max_uploads)),
        ConcurrencyLimiter(replace(limits, max_running=limits.max_drawings)),
    )


def _require_ready(kb: KnowledgeBase) -> None:
    """Raises KnowledgeBaseError if the knowledge base cannot be searched, whoever asks."""
    with as_server(), kb.session() as session:
        session.require_ready()


async def _open_context(
    name: str,
    base: Base,
    settings: ServerSettings,
    shared: tuple[Metrics, tuple[Tool, ...], _Limiters, tuple[AgentObserver, ...]],
    bases: Mapping[str, AppContext],
) -> AppContext:
    """Open the state of a knowledge base, and start its jobs."""
    kb, limits, (metrics, tools, limiters, observers) = base.kb, settings.limits, shared

    async def open_state() -> StateDatabase:
        return StateDatabase(kb.location.state_in(base.directory))

    state = await _wait_for_locks(open_state)
    rights = RightsFilter(kb)
    sessions = SessionStore(state, settings.retention, rights)
    traces = TraceStore(state, settings.retention, rights)
    host = socket.gethostname() if state.is_shared else ""
    uploads = UploadFolder(base.directory, state, limits, kb.components.folder_options.max_file_bytes, host)
    jobs = JobStore(state, settings.retention, uploads.place)
    shares = ShareStore(state, settings.retention)
    for part in (uploads, jobs, shares):
        await _wait_for_locks(part.open)
    return AppContext(
        kb,
        settings,
        state,
        sessions,
        traces,
        AnswerRunner(
            kb,
            sessions,
            traces,
            limiters.answers,
            metrics,
            limits,
            tools,
            name,
            observers,
            AnswerCache(limits.cached_answers),
        ),
        metrics,
        limiters.embeddings,
        limiters.searches,
        ReadinessCheck(partial(_require_ready, kb), state.check_writable),
        uploads,
        limiters.uploads,
        jobs,
        JobRunner(
            jobs,
            lambda: Writer(kb.location.reopen(), kb.components),
            uploads,
            None if state.is_shared else limiters.are_busy,
        ),
        limiters.drawings,
        shares,
        name,
        bases,
    )


async def _wait_for_locks(start: Callable[[], Awaitable[_T]]) -> _T:
    """Open a part of the state: again while the database rejects it, since a machine that vanished may hold its lock.

    Raises:
        DatabaseFailed: for START_SECONDS.
    """
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return await start()
        except DatabaseFailed as error:
            if time.monotonic() >= deadline:
                raise
            LOG.warning("the server does not start yet: %s", error)
            await asyncio.sleep(1)


async def _close_context(context: AppContext) -> None:
    """Stop the jobs and answers of a knowledge base."""
    context.readiness.close()
    await context.job_runner.close(JOB_STOP_SECONDS)
    await context.runner.stop(0.0)
    with suppress(TimeoutError):
        async with asyncio.timeout(5.0):
            await context.runner.wait_until_idle()


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
def _stop_on_signals(runners: Sequence[AnswerRunner], seconds: float) -> Iterator[None]:
    """Let a signal that stops the server stop running answers after `seconds`, before the previous handlers are called.

    uvicorn does not handle SIGHUP, which a closed terminal sends to each process: it means the same as SIGTERM.
    """
    loop = asyncio.get_running_loop()
    previous: dict[int, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        for runner in runners:
            loop.call_soon_threadsafe(runner.schedule_stop, seconds)
        handler = previous.get(number)
        if callable(handler):
            handler(number, frame)
        elif number == signal.SIGHUP:
            signal.raise_signal(signal.SIGTERM)

    for signal_number in stop_signals():
        with suppress(ValueError):  # not in the main thread: the caller handles signals
            previous[signal_number] = signal.signal(signal_number, handle)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
