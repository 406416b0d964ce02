"""Sessions over HTTP: `/chat`, what a session holds, and the traces of its answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from ragkit.agent.messages import Message, Role
from ragkit.answer.base import Where
from ragkit.records import JSON
from ragkit.server import shapes
from ragkit.server.answers import (
    AnswerEvent,
    Answering,
    Ask,
    Began,
    Broke,
    Over,
    Said,
    ToolBegan,
    ToolDone,
    finished,
)
from ragkit.server.faults import refuse
from ragkit.server.service import Served, Service, Shape
from ragkit.server.streams import HEARTBEAT_SECONDS, EventStream, while_connected
from ragkit.server.wishes import Wishes
from ragkit.store.filters import parse_filter
from ragkit.store.where import parse_where

router = APIRouter()
Cursor = Annotated[str | None, Query(max_length=500)]
Many = Annotated[int, Query(ge=1, le=200)]


@router.post("/chat", responses={200: {"model": shapes.ChatShape, **shapes.STREAMED}}, response_class=JSONResponse)
async def chat(request: Request, served: Served, body: shapes.ChatBody) -> Response:
    """Answer a message in a session. With `stream` server-sent events: start, tool, tool_result, text, done, error."""
    ask = _ask(served, body)
    answering = await while_connected(request, served.shop.start(ask))
    if body.stream:
        return EventStream(_frames(answering), answering.leave)
    over = await while_connected(request, finished(answering))
    found: Shape = {
        "session_id": _id_of(over.session),
        "message": over.message,
        "session": over.session,
        "trace_id": over.trace,
        "response": over.answer.text,
        "trace": await served.traces.get(over.trace),
    }
    return JSONResponse(found)


@router.post("/session/start", response_model=shapes.SessionShape)
async def start(served: Served, body: Annotated[shapes.StartBody | None, Body()] = None) -> Any:
    """Begin a session."""
    return await served.sessions.start(body.title if body else "")


@router.post("/session/end", response_model=shapes.SessionShape)
async def end(served: Served, body: shapes.EndBody) -> Any:
    """End a session: it takes no more messages."""
    return await served.sessions.end(body.session_id)


@router.get("/sessions", response_model=shapes.SessionsShape)
async def sessions(served: Served, cursor: Cursor = None, limit: Many = 50) -> Any:
    """The sessions, the one that was used last first."""
    found, following = await served.sessions.list(cursor, limit)
    return {"sessions": found, "next": following}


@router.get("/session/{session_id}", response_model=shapes.HistoryShape)
async def session(served: Served, session_id: shapes.Id) -> Any:
    """A session with its messages."""
    return await served.sessions.get(session_id)


@router.patch("/session/{session_id}", response_model=shapes.SessionShape)
async def rename(served: Served, session_id: shapes.Id, body: shapes.RenameBody) -> Any:
    """Give a session another title."""
    return await served.sessions.rename(session_id, body.title)


@router.get(
    "/session/{session_id}/export",
    response_model=shapes.HistoryShape,
    responses={200: {"content": {"text/markdown": {"schema": {"type": "string"}}}}},
)
async def export(served: Served, session_id: shapes.Id, format: Literal["json", "markdown"] = "json") -> Any:
    """A session as a file."""
    found = await served.sessions.get(session_id)
    if format == "json":
        return JSONResponse(found, headers={"content-disposition": f'attachment; filename="{session_id}.json"'})
    headers = {"content-disposition": f'attachment; filename="{session_id}.md"'}
    return PlainTextResponse(_markdown(found), media_type="text/markdown", headers=headers)


@router.get("/traces", response_model=shapes.TracesShape)
async def traces(served: Served, cursor: Cursor = None, limit: Many = 50, session_id: str | None = None) -> Any:
    """How answers were made, the latest first."""
    found, following = await served.traces.list(cursor, limit, session_id)
    return {"traces": found, "count": len(found), "next": following}


@router.get("/traces/{trace_id}", response_model=shapes.FullTraceShape)
async def trace(served: Served, trace_id: shapes.Id) -> Any:
    """How an answer was made, step by step."""
    return await served.traces.get(trace_id)


def where_of(where: Mapping[str, Any] | str | None) -> Where:
    """A filter as it is written in JSON, or as on the command line. Raises InvalidFilter."""
    if isinstance(where, str):
        return parse_where(where) if where.strip() else None
    if where:
        parse_filter(where)
    return where


def _ask(served: Service, body: shapes.ChatBody) -> Ask:
    said = [Message(Role(one.role), one.content) for one in body.messages or ()]
    if body.message is not None:
        said.append(Message.user(body.message))
    system = "\n".join(one.content for one in said if one.role == "system")
    said = [one for one in said if one.role != "system"]
    if not said or said[-1].role != "user":
        raise refuse("the last message must be the user's", "message", "no_question")
    served.check_question("".join(one.content for one in said), "message")
    served.check_question(said[-1].content, "message")
    wishes = Wishes(
        served.model(body.model),
        where_of(body.where),
        body.top_k,
        body.temperature,
        body.top_p,
        body.max_tokens,
        system,
    )
    given = tuple(said) if body.session_id is None else tuple(said[-1:])
    return Ask(said[-1].content, given, body.session_id, kept=True, wishes=wishes)


async def _frames(answering: Answering) -> AsyncIterator[bytes]:
    while True:
        try:
            events = await answering.events.take(HEARTBEAT_SECONDS)
        except StopAsyncIteration:
            return
        yield b"".join(_frame(event) for event in events) or b": still at work\n\n"


def _frame(event: AnswerEvent) -> bytes:
    name, data = _told(event)
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False, default=dict)}\n\n".encode()


def _told(event: AnswerEvent) -> tuple[str, Shape]:
    found: tuple[str, Shape] = ("discard", {})
    if isinstance(event, Began):
        found = "start", {"session_id": event.session, "trace_id": event.trace, "model": event.model}
    elif isinstance(event, ToolBegan):
        call = event.call
        found = "tool", {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}
    elif isinstance(event, ToolDone):
        done: Shape = {"id": event.call.id, "name": event.call.name, "ok": event.ok, "summary": event.summary}
        found = "tool_result", {**done, "seconds": round(event.seconds, 4)}
    elif isinstance(event, Said):
        found = "text", {"delta": event.text}
    elif isinstance(event, Over):
        found = "done", {"message": event.message, "session": event.session, "trace_id": event.trace}
    elif isinstance(event, Broke):
        found = "error", {**event.fault.to_json(), "trace_id": event.trace, "session_id": event.session}
    return found


def _id_of(session: Mapping[str, JSON] | None) -> str:
    return str(session["id"]) if session else ""


def _markdown(session: Mapping[str, JSON]) -> str:
    """A session for people: who said what, and under each answer its sources."""
    parts = [f"# {session['title']}", f"_{session['created']}_"]
    for one in cast("list[dict[str, JSON]]", session["history"]):
        who = "You" if one["role"] == "user" else "Answer"
        state = "" if one["status"] == "done" else f" ({one['status']})"
        parts += [f"## {who}{state}", str(one["content"])]
        citations = cast("list[dict[str, JSON]]", one["citations"])
        parts += ["\n".join(_cited(citation) for citation in citations)] if citations else []
    return "\n\n".join(parts) + "\n"


def _cited(citation: Mapping[str, JSON]) -> str:
    place = f"page {citation['page']}" if citation["page"] else f"lines {citation['start_line']}-{citation['end_line']}"
    return f"[{citation['n']}] {citation['source']}, {place}: {' '.join(str(citation['quote']).split())}"
