"""What requests and answers look like, for checking the former and for describing both in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

Id = Annotated[str, Field(max_length=100)]
Filter = dict[str, Any]
"""In the one filter language."""


EVENT_STREAM_RESPONSE: dict[str, Any] = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
"""An answer may also come as server-sent events."""


class RequestBody(BaseModel):
    """A request's body. Unknown keys are errors: a slip of the pen shall not pass for a wish."""

    model_config = ConfigDict(extra="forbid")


class ChatBody(RequestBody):
    """A message to a session; without `session_id` a new one begins."""

    message: str | None = None
    messages: list[ChatMessageBody] | None = Field(
        None, description="Instead of `message`: a conversation to begin with."
    )
    session_id: Id | None = None
    where: Filter | str | None = None
    top_k: int | None = Field(None, ge=1)
    model: str | None = Field(None, max_length=200)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    max_tokens: int | None = Field(None, ge=1)
    stream: bool = False


class ChatMessageBody(RequestBody):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class StartSessionBody(RequestBody):
    """A session to begin."""

    title: str = Field("", max_length=1000)


class EndSessionBody(RequestBody):
    """A session to end."""

    session_id: Id


class RenameSessionBody(RequestBody):
    """A session to rename."""

    title: str = Field(min_length=1, max_length=1000, pattern=r"\S")


class SearchBody(RequestBody):
    """A search."""

    query: str
    top_k: int | None = Field(None, ge=1)
    where: Filter | str | None = None
    mode: Literal["dense", "lexical", "hybrid"] | None = None
    explain: bool = False


class ErrorDetail(TypedDict):
    """What is wrong."""

    message: str
    type: str
    param: str | None
    code: str


class ErrorSchema(TypedDict):
    """Every error has this shape."""

    error: ErrorDetail


class SessionSchema(TypedDict):
    """A session."""

    id: str
    title: str
    created: str
    updated: str
    messages: int
    ended: str | None


class MessageSchema(TypedDict):
    """A message of a session."""

    id: str
    role: Literal["user", "assistant"]
    content: str
    created: str
    status: Literal["done", "running", "interrupted", "cancelled", "error"]
    trace_id: str | None
    citations: list[dict[str, Any]]
    evidence: float | None
    abstained: bool | None
    model: str | None
    usage: dict[str, Any] | None
    error: ErrorDetail | None


class SessionHistorySchema(SessionSchema):
    """A session with its messages."""

    history: list[MessageSchema]


class SessionListSchema(TypedDict):
    """Sessions, the one that was used last first."""

    sessions: list[SessionSchema]
    next: str | None


class TraceSchema(TypedDict):
    """What is known of an answer's making."""

    id: str
    session_id: str | None
    status: Literal["done", "running", "interrupted", "cancelled", "error"]
    started: str
    ended: str | None
    model: str
    question: str
    usage: dict[str, Any] | None
    error: str | None


class SpanSchema(TypedDict):
    """A step; times are in seconds since the start."""

    id: int
    parent: int | None
    type: str
    name: str
    start: float
    end: float
    attributes: dict[str, Any]


class TraceDetailSchema(TraceSchema):
    """A trace with its steps."""

    spans: list[SpanSchema]


class TraceListSchema(TypedDict):
    """Traces, the latest first."""

    traces: list[TraceSchema]
    count: int
    next: str | None


class ChatSchema(TypedDict):
    """An answer."""

    session_id: str
    message: MessageSchema
    session: SessionSchema
    trace_id: str
    response: str
    trace: TraceDetailSchema


class SearchSchema(TypedDict):
    """What was found."""

    question: str
    hits: list[dict[str, Any]]
    usage: dict[str, Any]


class DocumentRowSchema(TypedDict):
    """A document in a list."""

    id: str
    source: str
    title: str
    chunks: int
    characters: int
    format: str
    modified: str | None


class DocumentRowsSchema(TypedDict):
    """Documents, by source."""

    documents: list[DocumentRowSchema]
    next: str | None


class PageStartSchema(TypedDict):
    """Where a page of a document begins."""

    page: int
    line: int


class DocumentSchema(TypedDict):
    """A document's text, or the lines of it that were asked for."""

    id: str
    source: str
    title: str
    format: str
    text: str
    first_line: int
    last_line: int
    lines: int
    pages: list[PageStartSchema]
    stale: bool


class HealthSchema(TypedDict):
    """Whether it can be asked."""

    status: Literal["ready"]


class StatusSchema(TypedDict):
    """What is in the knowledge base, and what the server is."""

    kb: str
    documents: int
    chunks: int
    server: dict[str, Any]
