"""The knowledge base over HTTP: search, its documents, its state, and how the server is."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from itertools import accumulate
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from ragkit import __version__
from ragkit.answer.json_shapes import explanation_json
from ragkit.errors import KnowledgeBaseError
from ragkit.index.source_ids import display_name
from ragkit.records import JSON, Document
from ragkit.server import schemas
from ragkit.server.chat_api import Cursor, PageLimit, parse_filter_param
from ragkit.server.database import decode_cursor, encode_cursor, format_time
from ragkit.server.dependencies import AppContext, ContextDep, JsonObject
from ragkit.server.http_errors import ErrorResponse, RequestRejected, invalid_request, not_found, to_error_response
from ragkit.server.metrics import CONTENT_TYPE
from ragkit.usage.meter import use_meter

router = APIRouter()
MAX_DOCUMENT_CHARS = 200_000
"""A longer text is shown in part: the lines that were asked for, and what fits around them."""
LineParam = Annotated[int | None, Query(ge=1, le=10**9)]


@router.post("/v1/search", response_model=schemas.SearchSchema)
async def search(served: ContextDep, body: schemas.SearchBody) -> Any:
    """Find passages."""
    served.check_question(body.query, "query")
    if body.top_k is not None and body.top_k > served.settings.limits.top_k:
        raise invalid_request(f"{served.settings.limits.top_k} is the most", "top_k", "too_many")
    found = await asyncio.to_thread(_run_search, served, body)
    return JSONResponse(found)


def _run_search(served: AppContext, body: schemas.SearchBody) -> JsonObject:
    with use_meter(served.kb.create_meter("search")) as meter:
        served.kb.require_ready()
        found = served.kb.explain(body.query, body.top_k, parse_filter_param(body.where), body.mode)
    usage = meter.usage().to_dict()
    served.metrics.count_usage(usage)
    hits: list[JSON] = [
        {**explanation_json(one, body.explain), "document_id": one.hit.chunk.document_id} for one in found
    ]
    return {"question": body.query, "hits": hits, "usage": usage}


@router.get("/documents", response_model=schemas.DocumentRowsSchema)
async def list_documents(
    served: ContextDep, cursor: Cursor = None, limit: PageLimit = 50, q: Annotated[str, Query(max_length=1000)] = ""
) -> Any:
    """The documents, by source; with `q` those that have it in source or title."""
    after = str(decode_cursor(cursor, str)[0]) if cursor else ""
    rows = await asyncio.to_thread(served.kb.document_rows, after, limit + 1, q)
    found = [
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
    return {"documents": found, "next": encode_cursor(rows[limit - 1].source) if len(rows) > limit else None}


@router.get("/documents/{document_id}", response_model=schemas.DocumentSchema)
async def get_document(
    served: ContextDep, document_id: schemas.Id, start_line: LineParam = None, end_line: LineParam = None
) -> Any:
    """The text of a document as it was indexed; of a long one a part around the lines that are asked for."""
    found = await asyncio.to_thread(served.kb.find_document, document_id)
    if found is None:
        raise not_found("document", "document_not_found")
    stale = await asyncio.to_thread(served.kb.is_stale, found.source)
    return JSONResponse({**document_excerpt(found, start_line, end_line), "stale": stale})


@router.get("/status", response_model=schemas.StatusSchema)
async def get_status(served: ContextDep) -> Any:
    """What is in the knowledge base, and what the server is."""
    report = await asyncio.to_thread(served.kb.status)
    limits = served.settings.limits
    shown_limits: dict[str, JSON] = {
        name: getattr(limits, name)
        for name in ("question_chars", "body_bytes", "top_k", "answer_seconds", "answer_usd", "requests_per_minute")
    }
    server: JsonObject = {"version": __version__, "models": list(served.models), "limits": shown_limits}
    return JSONResponse({**report.to_json(), "server": server})


@router.get("/health", response_model=schemas.HealthSchema)
async def get_health(served: ContextDep) -> Any:
    """Whether the knowledge base can be searched."""
    try:
        await asyncio.to_thread(served.kb.require_ready)
    except KnowledgeBaseError as error:
        raise RequestRejected(to_error_response(error)) from error
    if served.runner.limiter.closed:
        raise RequestRejected(ErrorResponse(503, "the server is stopping", "stopping", "server_error"))
    return {"status": "ready"}


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def get_metrics(served: ContextDep) -> Response:
    """Figures for Prometheus."""
    return Response(await asyncio.to_thread(served.metrics.render), media_type=CONTENT_TYPE)


def document_excerpt(document: Document, start_line: int | None, end_line: int | None) -> JsonObject:
    """A document's text and its lines; of more than WHOLE_CHARS characters those from `start_line` on.

    A few lines before them are shown too. Lines are counted from 1, and end at "\\n" alone, as citations count them.
    """
    lines = document.text.split("\n")
    first, last = 1, len(lines)
    if len(document.text) > MAX_DOCUMENT_CHARS:
        first, last = _excerpt_range(lines, min(start_line or 1, len(lines)), end_line)
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    text = "\n".join(lines[first - 1 : last])
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
    }


def _excerpt_range(lines: list[str], start: int, end: int | None) -> tuple[int, int]:
    """The lines around those wanted, as many as fit: half of the room before them at most."""
    first = start
    room = MAX_DOCUMENT_CHARS // 2
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
