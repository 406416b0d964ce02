"""Sessions, their messages and what is made of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from ragkit.answer.outcome import Outcome
from ragkit.server.api.schemas.answers import Confidence, Evidence
from ragkit.server.api.schemas.errors import ErrorDetail
from ragkit.server.api.schemas.traces import TraceDetailSchema


class SessionHead(TypedDict):
    """A session without its messages."""

    id: Annotated[str, Field(description="The id of the session.")]
    session_id: Annotated[str, Field(description="The same as `id`.")]
    title: Annotated[str, Field(description="The title, at most 80 characters.")]
    status: Annotated[Literal["active", "completed"], Field(description="`completed` once the session was ended.")]
    created: Annotated[str, Field(description="Time of creation.")]
    started_at: Annotated[str, Field(description="The same as `created`.")]
    updated: Annotated[str, Field(description="Time of the last message.")]
    message_count: Annotated[int, Field(description="Number of messages.")]
    ended: Annotated[str | None, Field(description="Time at which the session was ended; null if it is open.")]
    ended_at: Annotated[str | None, Field(description="The same as `ended`.")]
    labels: Annotated[list[str], Field(description="Its labels.")]
    note: Annotated[str, Field(description="The note on it; may be empty.")]


class SessionSchema(SessionHead):
    """A session."""

    messages: Annotated[int, Field(description="The same as `message_count`.")]


class MessageSchema(TypedDict):
    """A message of a session. Citations are not typed: sessions hold messages of earlier versions."""

    id: Annotated[str, Field(description="The id of the message.")]
    role: Literal["user", "assistant"]
    content: Annotated[str, Field(description="The text.")]
    created: Annotated[str, Field(description="Time of creation.")]
    status: Annotated[
        Literal["done", "running", "interrupted", "cancelled", "error"],
        Field(description="The status of the answer; `done` for questions."),
    ]
    trace_id: Annotated[str | None, Field(description="The id of the trace.")]
    citations: Annotated[list[dict[str, Any]], Field(description="The citations, by number.")]
    searched_for: Annotated[
        str | None,
        Field(description="The question as ragkit searched it, if completed or corrected; else empty or null."),
    ]
    statements: Annotated[list[dict[str, Any]], Field(description="What the answer claims, in order.")]
    supported: Annotated[float | None, Field(description="Share of the statements that are supported, in [0, 1].")]
    evidence: Evidence | None
    confidence: Confidence
    abstained: Annotated[bool | None, Field(description="The documents do not contain an answer.")]
    outcome: Annotated[Outcome | None, Field(description="What kind of answer it is.")]
    notices: Annotated[list[str] | None, Field(description="What a reader must be told, one line each.")]
    model: Annotated[str | None, Field(description="The model that answered.")]
    usage: Annotated[dict[str, Any] | None, Field(description="Tokens and cost in US dollars.")]
    error: Annotated[ErrorDetail | None, Field(description="The error of a failed answer.")]
    feedback: Annotated[
        dict[str, str] | None, Field(description="What a reader said: `rating`, `reason` and `note`; null: nothing.")
    ]


class TurnText(TypedDict):
    """Who said what."""

    role: Literal["user", "assistant"]
    content: Annotated[str, Field(description="The text.")]


class SessionHistorySchema(SessionHead):
    """A session with its messages."""

    messages: Annotated[list[TurnText], Field(description="Roles and texts of the messages, oldest first.")]
    history: Annotated[list[MessageSchema], Field(description="The messages with their details, oldest first.")]
    traces: Annotated[list[str], Field(description="The ids of the traces of its answers, oldest first.")]


class SharedSessionSchema(TypedDict):
    """A session as its read-only link shows it."""

    title: Annotated[str, Field(description="The title.")]
    updated: Annotated[str, Field(description="Time of the last message.")]
    history: Annotated[list[MessageSchema], Field(description="The messages, oldest first, without traces.")]


class ShareSchema(TypedDict):
    """The read-only link of a session."""

    share_id: Annotated[str, Field(description="The id of the link, which cannot be guessed.")]
    session_id: Annotated[str, Field(description="The id of the session.")]
    created: Annotated[str, Field(description="When it was created.")]


class RevokedSchema(TypedDict):
    """A link that was revoked."""

    revoked: Annotated[bool, Field(description="True.")]


class FolderSchema(TypedDict):
    """A folder with documents."""

    source: Annotated[str, Field(description="The folder.")]
    documents: Annotated[int, Field(description="Number of documents below it.")]


class FoldersSchema(TypedDict):
    """Folders with documents."""

    folders: Annotated[list[FolderSchema], Field(description="By name; without those that hold all documents.")]


class SessionListSchema(TypedDict):
    """Sessions, most recently used first."""

    sessions: Annotated[list[SessionSchema], Field(description="The sessions.")]
    next: Annotated[str | None, Field(description="`cursor` of the next page; null on the last page.")]


class LabelSchema(TypedDict):
    """A label of sessions."""

    label: Annotated[str, Field(description="The label.")]
    sessions: Annotated[int, Field(description="Sessions that have it.")]


class LabelListSchema(TypedDict):
    """The labels of the sessions that `GET /sessions` lists."""

    labels: Annotated[list[LabelSchema], Field(description="The labels, by name.")]


class ChatSchema(TypedDict):
    """The answer to a chat message."""

    session_id: Annotated[str, Field(description="The session, for the next message.")]
    message: Annotated[MessageSchema, Field(description="The answer.")]
    session: Annotated[SessionSchema, Field(description="The session after the answer.")]
    trace_id: Annotated[str, Field(description="The id of the trace.")]
    response: Annotated[str, Field(description="The text of the answer.")]
    trace: Annotated[TraceDetailSchema, Field(description="The trace of the answer.")]
