"""The knowledge base over HTTP: search, its documents, its state, and how the server is."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from itertools import accumulate
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from ragkit import __version__
from ragkit.answer.shapes import explained_json
from ragkit.errors import KnowledgeBaseError
from ragkit.index.names import shown
from ragkit.records import JSON, Document
from ragkit.server import shapes
from ragkit.server.conversations import Cursor, Many, where_of
from ragkit.server.faults import Fault, Refused, fault_of, not_found, refuse
from ragkit.server.metrics import CONTENT_TYPE
from ragkit.server.service import Served, Service, Shape
from ragkit.server.state import iso, read_cursor, write_cursor
from ragkit.usage.meter import metered

router = APIRouter()
WHOLE_CHARS = 200_000
"""A longer text is shown in part: the lines that were asked for, and what fits around them."""
Line = Annotated[int | None, Query(ge=1, le=10**9)]


@router.post("/v1/search", response_model=shapes.SearchShape)
async def search(served: Served, body: shapes.SearchBody) -> Any:
    """Find passages."""
    served.check_question(body.query, "query")
    if body.top_k is not None and body.top_k > served.settings.limits.top_k:
        raise refuse(f"{served.settings.limits.top_k} is the most", "top_k", "too_many")
    found = await asyncio.to_thread(_search, served, body)
    return JSONResponse(found)


def _search(served: Service, body: shapes.SearchBody) -> Shape:
    with metered(served.kb.meter("search")) as meter:
        served.kb.ready()
        found = served.kb.explain(body.query, body.top_k, where_of(body.where), body.mode)
    usage = meter.usage().to_dict()
    served.metrics.used(usage)
    hits: list[JSON] = [
        {**explained_json(one, body.explain), "document_id": one.hit.chunk.document_id} for one in found
    ]
    return {"question": body.query, "hits": hits, "usage": usage}


@router.get("/documents", response_model=shapes.DocumentsShape)
async def documents(
    served: Served, cursor: Cursor = None, limit: Many = 50, q: Annotated[str, Query(max_length=1000)] = ""
) -> Any:
    """The documents, by source; with `q` those that have it in source or title."""
    after = str(read_cursor(cursor, str)[0]) if cursor else ""
    rows = await asyncio.to_thread(served.kb.document_rows, after, limit + 1, q)
    found = [
        {
            "id": row.id,
            "source": shown(row.source),
            "title": row.title,
            "chunks": row.chunks,
            "characters": row.characters,
            "format": row.format,
            "modified": iso(row.modified_ns / 1e9 if row.modified_ns else None),
        }
        for row in rows[:limit]
    ]
    return {"documents": found, "next": write_cursor(rows[limit - 1].source) if len(rows) > limit else None}


@router.get("/documents/{document_id}", response_model=shapes.DocumentShape)
async def document(served: Served, document_id: shapes.Id, start_line: Line = None, end_line: Line = None) -> Any:
    """The text of a document as it was indexed; of a long one a part around the lines that are asked for."""
    found = await asyncio.to_thread(served.kb.find_document, document_id)
    if found is None:
        raise not_found("document", "document_not_found")
    stale = await asyncio.to_thread(served.kb.is_stale, found.source)
    return JSONResponse({**window(found, start_line, end_line), "stale": stale})


@router.get("/status", response_model=shapes.StatusShape)
async def status(served: Served) -> Any:
    """What is in the knowledge base, and what the server is."""
    report = await asyncio.to_thread(served.kb.status)
    limits = served.settings.limits
    shown_limits: dict[str, JSON] = {
        name: getattr(limits, name)
        for name in ("question_chars", "body_bytes", "top_k", "answer_seconds", "answer_usd", "requests_per_minute")
    }
    server: Shape = {"version": __version__, "models": list(served.models), "limits": shown_limits}
    return JSONResponse({**report.to_json(), "server": server})


@router.get("/health", response_model=shapes.HealthShape)
async def health(served: Served) -> Any:
    """Whether the knowledge base can be searched."""
    try:
        await asyncio.to_thread(served.kb.ready)
    except KnowledgeBaseError as error:
        raise Refused(fault_of(error)) from error
    if served.shop.turns.closed:
        raise Refused(Fault(503, "the server is stopping", "stopping", "server_error"))
    return {"status": "ready"}


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(served: Served) -> Response:
    """Figures for Prometheus."""
    return Response(await asyncio.to_thread(served.metrics.text), media_type=CONTENT_TYPE)


def window(document: Document, start_line: int | None, end_line: int | None) -> Shape:
    """A document's text and its lines; of more than WHOLE_CHARS characters those from `start_line` on.

    A few lines before them are shown too. Lines are counted from 1, and end at "\\n" alone, as citations count them.
    """
    lines = document.text.split("\n")
    first, last = 1, len(lines)
    if len(document.text) > WHOLE_CHARS:
        first, last = _part(lines, min(start_line or 1, len(lines)), end_line)
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    text = "\n".join(lines[first - 1 : last])
    pages: list[JSON] = [
        {"page": page, "line": bisect_right(starts, start)} for page, start in enumerate(document.page_starts, 1)
    ]
    return {
        "id": document.id,
        "source": shown(document.source),
        "title": document.title,
        "format": document.format,
        "text": text[:WHOLE_CHARS],
        "first_line": first,
        "last_line": last,
        "lines": len(lines),
        "pages": pages,
    }


def _part(lines: list[str], start: int, end: int | None) -> tuple[int, int]:
    """The lines around those wanted, as many as fit: half of the room before them at most."""
    first = start
    room = WHOLE_CHARS // 2
    while first > 1 and len(lines[first - 2]) < room:
        first -= 1
        room -= len(lines[first - 1]) + 1
    room = WHOLE_CHARS - sum(len(line) + 1 for line in lines[first - 1 : start - 1])
    last = start
    room -= len(lines[start - 1])
    while last < len(lines) and len(lines[last]) < room:
        last += 1
        room -= len(lines[last - 1]) + 1
    return first, last
