"""Routes for search, documents, status, health and metrics."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from itertools import accumulate
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from ragkit import __version__
from ragkit.answer.json_shapes import explanation_json
from ragkit.index.catalog.directory import CATALOG_FILE
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.session import Session
from ragkit.records import JSON, Document
from ragkit.server.api.chat import Cursor, PageLimit, parse_filter_param
from ragkit.server.api.dependencies import AppContext, ContextDep, JsonObject
from ragkit.server.api.schemas.answers import SearchSchema
from ragkit.server.api.schemas.documents import DocumentRowsSchema, DocumentSchema
from ragkit.server.api.schemas.requests import Id, SearchBody
from ragkit.server.api.schemas.status import HealthSchema, ReadySchema, StatusSchema
from ragkit.server.http_errors import ErrorResponse, RequestRejected, invalid_request, not_found
from ragkit.server.metrics import CONTENT_TYPE
from ragkit.server.principals import require_operator
from ragkit.server.readiness import READY
from ragkit.server.state.database import decode_cursor, encode_cursor, format_time
from ragkit.usage.meter import use_meter

router = APIRouter()
MAX_DOCUMENT_CHARS = 200_000
"""Of a longer document, the requested lines are returned and as much context as fits."""
MAX_HEADINGS = 2_000
"""Headings that are returned with a document."""
_VIEWS = {"pdf": "pages", "html": "html", "markdown": "markdown", "csv": "table", "tsv": "table", "xlsx": "table",
          "xls": "table", "ods": "table", "code": "code"}  # fmt: skip
LineParam = Annotated[
    int | None,
    Query(
        ge=1,
        le=10**9,
        description="The first or last requested line, counted from 1: of a long document, an excerpt with the lines"
        " from `start_line` to `end_line` and those around them is returned.",
    ),
]
DocumentQuery = Annotated[str, Query(max_length=1000, description="Text in the source or title.")]


@router.post("/v1/search", response_model=SearchSchema)
async def search(context: ContextDep, body: SearchBody) -> Any:
    """Search for passages."""
    context.check_question(body.query, "query")
    limit = context.settings.limits.top_k
    if body.top_k is not None and body.top_k > limit:
        raise invalid_request(f"top_k must be <= {limit} (got {body.top_k})", "top_k", "too_many")
    return JSONResponse(await context.read(lambda session: _run_search(context, session, body)))


def _run_search(context: AppContext, session: Session, body: SearchBody) -> JsonObject:
    with use_meter(context.create_meter("search")) as meter:
        session.require_ready()
        explanations = session.explain(body.query, body.top_k, parse_filter_param(body.where), body.mode)
    usage = meter.usage().to_dict()
    context.metrics.count_usage(usage, context.embedder_name, context.name)
    hits: list[JSON] = [
        {**explanation_json(explanation, body.explain), "document_id": explanation.hit.chunk.document_id}
        for explanation in explanations
    ]
    return {"question": body.query, "hits": hits, "usage": usage}


@router.get("/documents", response_model=DocumentRowsSchema)
async def list_documents(
    context: ContextDep, cursor: Cursor = None, limit: PageLimit = 50, q: DocumentQuery = ""
) -> Any:
    """List documents by source; `q` filters by source and title."""
    after = str(decode_cursor(cursor, str)[0]) if cursor else ""
    rows = await context.read(lambda session: session.list_documents(after, limit + 1, q))
    documents = [
        {
            "id": row.id,
            "source": display_name(row.source),
            "title": row.title,
            "chunks": row.chunks,
            "characters": row.characters,
            "format": row.format,
            "modified": format_time(row.modified_ns / 1e9 if row.modified_ns else None),
        }
        for row in rows[:limit]
    ]
    return {"documents": documents, "next": encode_cursor(rows[limit - 1].source) if len(rows) > limit else None}


@router.get("/documents/{document_id}", response_model=DocumentSchema)
async def get_document(
    context: ContextDep, document_id: Id, start_line: LineParam = None, end_line: LineParam = None
) -> Any:
    """Get the indexed text of a document; of a long one, an excerpt around the requested lines."""

    def find(session: Session) -> tuple[Document, bool] | None:
        document = session.find_document(document_id)
        return None if document is None else (document, session.is_stale(document.source))

    found = await context.read(find)
    if found is None:
        raise not_found("document", "document_not_found")
    document, stale = found
    return JSONResponse({**document_excerpt(document, start_line, end_line), "stale": stale})


@router.get("/status", response_model=StatusSchema)
async def get_status(context: ContextDep) -> Any:
    """Get the status of the knowledge base, and the version, models and limits of the server."""
    report = await context.read(Session.status)
    shown = ("question_chars", "body_bytes", "top_k", "answer_seconds", "answer_usd", "requests_per_minute")
    shown_limits: dict[str, JSON] = {name: getattr(context.settings.limits, name) for name in shown}
    server: JsonObject = {"version": __version__, "models": list(context.models), "limits": shown_limits}
    return JSONResponse({**report.to_json(), "server": server})


@router.get("/health", response_model=HealthSchema)
async def get_health(context: ContextDep) -> Any:
    """Return 200: the server is alive. For liveness checks; it waits for nothing."""
    return {"status": "live"}


@router.get("/ready", response_model=ReadySchema)
async def get_ready(context: ContextDep) -> Any:
    """Return 200 if the knowledge base can be searched, and sessions and jobs can be stored, else 503.

    `parts` says what fails. A server that stops is not ready either.
    """
    parts = await context.readiness.check()
    if context.runner.limiter.closed:
        raise RequestRejected(ErrorResponse(503, "the server is stopping", "stopping", "server_error"))
    failed = {name: reason for name, reason in parts.items() if reason != READY}
    if not failed:
        return {"status": "ready", "parts": parts}
    name, reason = next(iter(failed.items()))
    error = ErrorResponse(503, reason, f"{name}_unavailable", "server_error")
    return JSONResponse({**error.to_json(), "status": "degraded", "parts": parts}, 503)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def get_metrics(context: ContextDep) -> Response:
    """Get metrics in the text format of Prometheus."""
    require_operator()
    for base in context.bases.values() or (context,):
        written = await asyncio.to_thread(_index_time, base)
        if written is not None:
            context.metrics.index_time.labels(base.name).set(written)
    return Response(await asyncio.to_thread(context.metrics.render), media_type=CONTENT_TYPE)


def _index_time(context: AppContext) -> float | None:
    """When the catalog was written last; None if this machine has none."""
    try:
        return (context.kb.path / CATALOG_FILE).stat().st_mtime
    except OSError:
        return None


def document_excerpt(document: Document, start_line: int | None, end_line: int | None) -> JsonObject:
    """The text of a document; beyond MAX_DOCUMENT_CHARS characters, an excerpt around the requested lines.

    Lines are counted from 1 and end at "\\n" alone, as in citations.
    """
    lines = document.text.split("\n")
    start = start_line or end_line or 1
    if end_line is not None and end_line < start:
        raise invalid_request(f"end_line must be >= start_line, {start} (got {end_line})", "end_line")
    first, last = 1, len(lines)
    if len(document.text) > MAX_DOCUMENT_CHARS:
        first, last = _excerpt_range(lines, min(start, len(lines)), min(end_line or start, len(lines)))
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    text = "\n".join(lines[first - 1 : last])
    headings: list[JSON] = [
        {"line": bisect_right(starts, heading.start), "level": heading.level, "text": heading.text[:500]}
        for heading in document.headings
        if first <= bisect_right(starts, heading.start) <= last
    ]
    pages: list[JSON] = [
        {"page": page, "line": bisect_right(starts, start)} for page, start in enumerate(document.page_starts, 1)
    ]
    return {
        "id": document.id,
        "source": display_name(document.source),
        "title": document.title,
        "format": document.format,
        "text": text[:MAX_DOCUMENT_CHARS],
        "first_line": first,
        "last_line": last,
        "lines": len(lines),
        "pages": pages,
        "view": document_view(document),
        "language": document.language,
        "headings": headings[:MAX_HEADINGS],
    }


def document_view(document: Document) -> str:
    """How a document is shown as its readers know it."""
    if document.format == "pdf" and not document.page_starts:
        return "text"
    return _VIEWS.get(document.format, "text")


def _excerpt_range(lines: list[str], start: int, end: int) -> tuple[int, int]:
    """First and last line of an excerpt with the lines from `start` to `end`, as many as fit.

    It starts at most half of MAX_DOCUMENT_CHARS before line `start`.
    """
    first = start
    requested = sum(len(line) + 1 for line in lines[start - 1 : end])
    room = min(MAX_DOCUMENT_CHARS // 2, max(0, MAX_DOCUMENT_CHARS - requested))
    while first > 1 and len(lines[first - 2]) < room:
        first -= 1
        room -= len(lines[first - 1]) + 1
    room = MAX_DOCUMENT_CHARS - sum(len(line) + 1 for line in lines[first - 1 : start - 1])
    last = start
    room -= len(lines[start - 1])
    while last < len(lines) and len(lines[last]) < room:
        last += 1
        room -= len(lines[last - 1]) + 1
    return first, last
