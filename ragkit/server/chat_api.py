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
from ragkit.server import schemas
from ragkit.server.answer_tasks import (
    AnswerCompleted,
    AnswerEvent,
    AnswerFailed,
    AnswerRequest,
    AnswerStarted,
    AnswerTask,
    AnswerTextDelta,
    AnswerToolFinished,
    AnswerToolStarted,
    wait_for_answer,
)
from ragkit.server.dependencies import AppContext, ContextDep, JsonObject
from ragkit.server.http_errors import invalid_request
from ragkit.server.request_options import RequestOptions
from ragkit.server.streams import HEARTBEAT_SECONDS, EventStream, run_while_connected
from ragkit.store.filters.language import parse_filter
from ragkit.store.filters.where_syntax import parse_where

router = APIRouter()
Cursor = Annotated[str | None, Query(max_length=500)]
PageLimit = Annotated[int, Query(ge=1, le=200)]


@router.post(
    "/chat",
    responses={200: {"model": schemas.ChatSchema, **schemas.EVENT_STREAM_RESPONSE}},
    response_class=JSONResponse,
)
async def chat(request: Request, served: ContextDep, body: schemas.ChatBody) -> Response:
    """Answer a message in a session. With `stream` server-sent events: start, tool, tool_result, text, done, error."""
    ask = _to_answer_request(served, body)
    answering = await run_while_connected(request, served.runner.start(ask))
    if body.stream:
        return EventStream(_event_frames(answering), answering.abandon)
    over = await run_while_connected(request, wait_for_answer(answering))
    found: JsonObject = {
        "session_id": _session_id(over.session),
        "message": over.message,
        "session": over.session,
        "trace_id": over.trace_id,
        "response": over.answer.text,
        "trace": await served.traces.get(over.trace_id),
    }
    return JSONResponse(found)


@router.post("/session/start", response_model=schemas.SessionSchema)
async def start_session(served: ContextDep, body: Annotated[schemas.StartSessionBody | None, Body()] = None) -> Any:
    """Begin a session."""
    return await served.sessions.start(body.title if body else "")


@router.post("/session/end", response_model=schemas.SessionSchema)
async def end_session(served: ContextDep, body: schemas.EndSessionBody) -> Any:
    """End a session: it takes no more messages."""
    return await served.sessions.end(body.session_id)


@router.get("/sessions", response_model=schemas.SessionListSchema)
async def list_sessions(served: ContextDep, cursor: Cursor = None, limit: PageLimit = 50) -> Any:
    """The sessions, the one that was used last first."""
    found, following = await served.sessions.list(cursor, limit)
    return {"sessions": found, "next": following}


@router.get("/session/{session_id}", response_model=schemas.SessionHistorySchema)
async def get_session(served: ContextDep, session_id: schemas.Id) -> Any:
    """A session with its messages."""
    return await served.sessions.get(session_id)


@router.patch("/session/{session_id}", response_model=schemas.SessionSchema)
async def rename_session(served: ContextDep, session_id: schemas.Id, body: schemas.RenameSessionBody) -> Any:
    """Give a session another title."""
    return await served.sessions.rename(session_id, body.title)


@router.get(
    "/session/{session_id}/export",
    response_model=schemas.SessionHistorySchema,
    responses={200: {"content": {"text/markdown": {"schema": {"type": "string"}}}}},
)
async def export_session(
    served: ContextDep, session_id: schemas.Id, format: Literal["json", "markdown"] = "json"
) -> Any:
    """A session as a file."""
    found = await served.sessions.get(session_id)
    if format == "json":
        return JSONResponse(found, headers={"content-disposition": f'attachment; filename="{session_id}.json"'})
    headers = {"content-disposition": f'attachment; filename="{session_id}.md"'}
    return PlainTextResponse(_to_markdown(found), media_type="text/markdown", headers=headers)


@router.get("/traces", response_model=schemas.TraceListSchema)
async def list_traces(
    served: ContextDep, cursor: Cursor = None, limit: PageLimit = 50, session_id: str | None = None
) -> Any:
    """How answers were made, the latest first."""
    found, following = await served.traces.list(cursor, limit, session_id)
    return {"traces": found, "count": len(found), "next": following}


@router.get("/traces/{trace_id}", response_model=schemas.TraceDetailSchema)
async def get_trace(served: ContextDep, trace_id: schemas.Id) -> Any:
    """How an answer was made, step by step."""
    return await served.traces.get(trace_id)


def parse_filter_param(where: Mapping[str, Any] | str | None) -> Where:
    """A filter as it is written in JSON, or as on the command line. Raises InvalidFilter."""
    if isinstance(where, str):
        return parse_where(where) if where.strip() else None
    if where:
        parse_filter(where)
    return where


def _to_answer_request(served: AppContext, body: schemas.ChatBody) -> AnswerRequest:
    said = [Message(Role(one.role), one.content) for one in body.messages or ()]
    if body.message is not None:
        said.append(Message.user(body.message))
    system = "\n".join(one.content for one in said if one.role == "system")
    said = [one for one in said if one.role != "system"]
    if not said or said[-1].role != "user":
        raise invalid_request("the last message must be the user's", "message", "no_question")
    served.check_question("".join(one.content for one in said), "message")
    served.check_question(said[-1].content, "message")
    wishes = RequestOptions(
        served.resolve_model(body.model),
        parse_filter_param(body.where),
        body.top_k,
        body.temperature,
        body.top_p,
        body.max_tokens,
        system,
    )
    given = tuple(said) if body.session_id is None else tuple(said[-1:])
    return AnswerRequest(said[-1].content, given, body.session_id, in_session=True, options=wishes)


async def _event_frames(answering: AnswerTask) -> AsyncIterator[bytes]:
    while True:
        try:
            events = await answering.events.get_batch(HEARTBEAT_SECONDS)
        except StopAsyncIteration:
            return
        yield b"".join(_encode_event(event) for event in events) or b": still at work\n\n"


def _encode_event(event: AnswerEvent) -> bytes:
    name, data = _event_payload(event)
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False, default=dict)}\n\n".encode()


def _event_payload(event: AnswerEvent) -> tuple[str, JsonObject]:
    found: tuple[str, JsonObject] = ("discard", {})
    if isinstance(event, AnswerStarted):
        found = "start", {"session_id": event.session_id, "trace_id": event.trace_id, "model": event.model}
    elif isinstance(event, AnswerToolStarted):
        call = event.call
        found = "tool", {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}
    elif isinstance(event, AnswerToolFinished):
        done: JsonObject = {"id": event.call.id, "name": event.call.name, "ok": event.ok, "summary": event.summary}
        found = "tool_result", {**done, "seconds": round(event.seconds, 4)}
    elif isinstance(event, AnswerTextDelta):
        found = "text", {"delta": event.text}
    elif isinstance(event, AnswerCompleted):
        found = "done", {"message": event.message, "session": event.session, "trace_id": event.trace_id}
    elif isinstance(event, AnswerFailed):
        found = "error", {**event.error.to_json(), "trace_id": event.trace_id, "session_id": event.session_id}
    return found


def _session_id(session: Mapping[str, JSON] | None) -> str:
    return str(session["id"]) if session else ""


def _to_markdown(session: Mapping[str, JSON]) -> str:
    """A session for people: who said what, and under each answer its sources."""
    parts = [f"# {session['title']}", f"_{session['created']}_"]
    for one in cast("list[dict[str, JSON]]", session["history"]):
        who = "You" if one["role"] == "user" else "Answer"
        state = "" if one["status"] == "done" else f" ({one['status']})"
        parts += [f"## {who}{state}", str(one["content"])]
        citations = cast("list[dict[str, JSON]]", one["citations"])
        parts += ["\n".join(_format_citation(citation) for citation in citations)] if citations else []
    return "\n\n".join(parts) + "\n"


def _format_citation(citation: Mapping[str, JSON]) -> str:
    place = f"page {citation['page']}" if citation["page"] else f"lines {citation['start_line']}-{citation['end_line']}"
    return f"[{citation['n']}] {citation['source']}, {place}: {' '.join(str(citation['quote']).split())}"
