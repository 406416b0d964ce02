"""Routes for `/chat`, sessions and traces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from ragkit.agent.messages import Message, Role
from ragkit.answer.answer_events import AnswerEvent, encode_sse
from ragkit.index.sources.ids import display_name
from ragkit.records import JSON, Where
from ragkit.server.answering import answer_tasks
from ragkit.server.answering.request_options import RequestOptions
from ragkit.server.answering.streams import HEARTBEAT_SECONDS, EventStream, run_while_connected
from ragkit.server.api.dependencies import AppContext, ContextDep, JsonObject
from ragkit.server.api.schemas.requests import (
    EVENT_STREAM_RESPONSE,
    ChangeSessionBody,
    ChatBody,
    EndSessionBody,
    FeedbackBody,
    Id,
    StartSessionBody,
    StopAnswerBody,
)
from ragkit.server.api.schemas.sessions import (
    ChatSchema,
    LabelListSchema,
    MessageSchema,
    SessionHistorySchema,
    SessionListSchema,
    SessionSchema,
)
from ragkit.server.api.schemas.traces import TraceDetailSchema, TraceListSchema
from ragkit.server.http_errors import invalid_request
from ragkit.store.filters.language import parse_filter
from ragkit.store.filters.where_syntax import parse_where

router = APIRouter()
Cursor = Annotated[str | None, Query(max_length=500, description="`next` of the previous page.")]
PageLimit = Annotated[int, Query(ge=1, le=200, description="Items per page.")]
SessionFilter = Annotated[str | None, Query(description="Only traces of this session.")]
SessionQuery = Annotated[str, Query(max_length=200, description="Text in the title, the note or a message.")]
SessionLabel = Annotated[str, Query(max_length=50, description="Only sessions with this label.")]
ExportFormat = Annotated[Literal["json", "markdown"], Query(description="Format of the file.")]


@router.post("/chat", responses={200: {"model": ChatSchema, **EVENT_STREAM_RESPONSE}}, response_class=JSONResponse)
async def chat(request: Request, context: ContextDep, body: ChatBody) -> Response:
    """Answer a message in a session. With `stream`, server-sent events: start, tool, tool_result,
    text, discard, citation, done, error.

    Of the messages before the question, those that repeat the end of the session are ignored; the rest is added to it.
    """
    context, model = context.select(body.model)
    where = parse_filter_param(body.where)
    if body.source:
        where = await context.read(lambda session: session.create_filter(where, body.source))
    answer_request = _to_answer_request(context, body, context.resolve_model(model), where)
    task = await run_while_connected(request, context.runner.start(answer_request))
    if body.stream:
        return EventStream(_event_frames(task), task.events.abandon if body.background else task.abandon)
    completed = await run_while_connected(request, answer_tasks.wait_for_answer(task))
    content: JsonObject = {
        "session_id": str(completed.session["id"]) if completed.session else "",
        "message": completed.message,
        "session": completed.session,
        "trace_id": completed.trace_id,
        "response": completed.answer.text,
        "trace": dict(completed.trace),
    }
    return JSONResponse(content)


@router.post("/session/start", response_model=SessionSchema)
async def start_session(context: ContextDep, body: Annotated[StartSessionBody | None, Body()] = None) -> Any:
    """Start a session."""
    return await context.sessions.start(body.title if body else "")


@router.post("/session/end", response_model=SessionSchema)
async def end_session(context: ContextDep, body: EndSessionBody) -> Any:
    """End a session: it takes no more messages."""
    return await context.sessions.end(body.session_id)


@router.post("/session/stop", response_model=SessionSchema)
async def stop_answer(context: ContextDep, body: StopAnswerBody) -> Any:
    """Stop the running answer of a session, whichever server works on it; what it has written is kept."""
    trace, session = await context.sessions.stop(body.session_id)
    await context.runner.stop_answer(trace)
    return session


@router.post("/feedback", response_model=MessageSchema)
async def give_feedback(context: ContextDep, body: FeedbackBody) -> Any:
    """Rate an answer. `ragkit eval --feedback` evaluates the rated questions."""
    feedback: JsonObject = {"rating": body.rating, "reason": body.reason or "", "note": body.note}
    return await context.sessions.rate(body.message_id, None if body.rating is None else feedback)


@router.get("/sessions", response_model=SessionListSchema)
async def list_sessions(
    context: ContextDep, cursor: Cursor = None, limit: PageLimit = 50, q: SessionQuery = "", label: SessionLabel = ""
) -> Any:
    """List sessions, most recently used first; `q`: those with this text in the title, the note or a message."""
    sessions, next_cursor = await context.sessions.list(cursor, limit, q, label)
    return {"sessions": sessions, "next": next_cursor}


@router.get("/labels", response_model=LabelListSchema)
async def list_labels(context: ContextDep) -> Any:
    """List the labels of the sessions."""
    return {"labels": await context.sessions.labels()}


@router.get("/session/{session_id}", response_model=SessionHistorySchema)
async def get_session(context: ContextDep, session_id: Id) -> Any:
    """Get a session with its messages."""
    return await context.sessions.get(session_id)


@router.patch("/session/{session_id}", response_model=SessionSchema)
async def change_session(context: ContextDep, session_id: Id, body: ChangeSessionBody) -> Any:
    """Change the title, the labels or the note of a session. A link to the session shows neither labels nor note."""
    return await context.sessions.change(session_id, body.title, body.labels, body.note)


@router.get(
    "/session/{session_id}/export",
    response_model=SessionHistorySchema,
    responses={200: {"content": {"text/markdown": {"schema": {"type": "string"}}}}},
)
async def export_session(context: ContextDep, session_id: Id, format: ExportFormat = "json") -> Any:
    """Download a session as JSON or Markdown."""
    session = await context.sessions.get(session_id)
    if format == "json":
        return JSONResponse(session, headers={"content-disposition": f'attachment; filename="{session_id}.json"'})
    headers = {"content-disposition": f'attachment; filename="{session_id}.md"'}
    return PlainTextResponse(_to_markdown(session), media_type="text/markdown", headers=headers)


@router.get("/traces", response_model=TraceListSchema)
async def list_traces(
    context: ContextDep, cursor: Cursor = None, limit: PageLimit = 50, session_id: SessionFilter = None
) -> Any:
    """List traces, latest first."""
    traces, next_cursor = await context.traces.list(cursor, limit, session_id)
    return {"traces": traces, "count": len(traces), "next": next_cursor}


@router.get("/traces/{trace_id}", response_model=TraceDetailSchema)
async def get_trace(context: ContextDep, trace_id: Id) -> Any:
    """Get a trace with its spans."""
    return await context.traces.get(trace_id)


def parse_filter_param(where: Mapping[str, Any] | str | None) -> Where:
    """Parse a filter, given as JSON or in the syntax of the command line. Raises InvalidFilter."""
    if isinstance(where, str):
        return parse_where(where) if where.strip() else None
    if where:
        parse_filter(where)
    return where


def _to_answer_request(
    context: AppContext, body: ChatBody, model: str | None, where: Where
) -> answer_tasks.AnswerRequest:
    messages = [Message(Role(message.role), message.content) for message in body.messages or ()]
    if body.message is not None:
        messages.append(Message.user(body.message))
    system = "\n".join(message.content for message in messages if message.role == "system")
    messages = [message for message in messages if message.role != "system"]
    if not messages or messages[-1].role != "user":
        raise invalid_request("the last message must have the role `user`", "message", "no_question")
    question = messages[-1].content
    context.check_question(question, "message")
    options = RequestOptions(
        model, where, body.top_k, body.temperature, body.top_p, body.max_tokens, system, strict=body.strict
    )
    *sent, last = messages
    if body.replace is not None and body.session_id is None:
        raise invalid_request("replace requires session_id", "replace")
    return answer_tasks.AnswerRequest(
        question, (last,), body.session_id, True, tuple(sent), options, replace=body.replace
    )


async def _event_frames(task: answer_tasks.AnswerTask) -> AsyncIterator[bytes]:
    while True:
        try:
            events = await task.events.get_batch(HEARTBEAT_SECONDS)
        except StopAsyncIteration:
            return
        yield b"".join(_encode_event(event) for event in events) or b": keep-alive\n\n"


def _encode_event(event: answer_tasks.TaskEvent) -> bytes:
    if isinstance(event, AnswerEvent):
        return event.to_sse(display_name).encode()
    return encode_sse(*_event_payload(event)).encode()


def _event_payload(event: answer_tasks.ServerEvent) -> tuple[str, JsonObject]:
    match event:
        case answer_tasks.AnswerStarted():
            return "start", {"session_id": event.session_id, "trace_id": event.trace_id, "model": event.model}
        case answer_tasks.TurnCompleted():
            return "done", {"message": event.message, "session": event.session, "trace_id": event.trace_id}
        case answer_tasks.AnswerFailed():
            return "error", {**event.error.to_json(), "trace_id": event.trace_id, "session_id": event.session_id}


def _to_markdown(session: Mapping[str, JSON]) -> str:
    """A session as Markdown: the messages, with citations below each answer."""
    labels = ", ".join(cast("list[str]", session["labels"]))
    note = [f"> {line}" for line in str(session["note"]).splitlines()]
    parts = [f"# {session['title']}", f"_{session['created']}_"]
    parts += [part for part in (labels and f"Labels: {labels}", "\n".join(note)) if part]
    for message in cast("list[dict[str, JSON]]", session["history"]):
        author = "You" if message["role"] == "user" else "Answer"
        status = "" if message["status"] == "done" else f" ({message['status']})"
        parts += [f"## {author}{status}", str(message["content"])]
        citations = cast("list[dict[str, JSON]]", message["citations"])
        parts += ["\n".join(_format_citation(citation) for citation in citations)] if citations else []
    return "\n\n".join(parts) + "\n"


def _format_citation(citation: Mapping[str, JSON]) -> str:
    return f"[{citation['n']}] {citation['source']}, {citation['place']}: {' '.join(str(citation['quote']).split())}"
