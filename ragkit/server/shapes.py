"""What requests and answers look like, for checking the former and for describing both in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

Id = Annotated[str, Field(max_length=100)]
Filter = dict[str, Any]
"""In the one filter language."""


STREAMED: dict[str, Any] = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
"""An answer may also come as server-sent events."""


class Asked(BaseModel):
    """A request's body. Unknown keys are errors: a slip of the pen shall not pass for a wish."""

    model_config = ConfigDict(extra="forbid")


class ChatBody(Asked):
    """A message to a session; without `session_id` a new one begins."""

    message: str | None = None
    messages: list[SaidBody] | None = Field(None, description="Instead of `message`: a conversation to begin with.")
    session_id: Id | None = None
    where: Filter | str | None = None
    top_k: int | None = Field(None, ge=1)
    model: str | None = Field(None, max_length=200)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    max_tokens: int | None = Field(None, ge=1)
    stream: bool = False


class SaidBody(Asked):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class StartBody(Asked):
    """A session to begin."""

    title: str = Field("", max_length=1000)


class EndBody(Asked):
    """A session to end."""

    session_id: Id


class RenameBody(Asked):
    """A session to rename."""

    title: str = Field(min_length=1, max_length=1000, pattern=r"\S")


class SearchBody(Asked):
    """A search."""

    query: str
    top_k: int | None = Field(None, ge=1)
    where: Filter | str | None = None
    mode: Literal["dense", "lexical", "hybrid"] | None = None
    explain: bool = False


class Error(TypedDict):
    """What is wrong."""

    message: str
    type: str
    param: str | None
    code: str


class ErrorShape(TypedDict):
    """Every error has this shape."""

    error: Error


class SessionShape(TypedDict):
    """A session."""

    id: str
    title: str
    created: str
    updated: str
    messages: int
    ended: str | None


class MessageShape(TypedDict):
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
    error: Error | None


class HistoryShape(SessionShape):
    """A session with its messages."""

    history: list[MessageShape]


class SessionsShape(TypedDict):
    """Sessions, the one that was used last first."""

    sessions: list[SessionShape]
    next: str | None


class TraceShape(TypedDict):
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


class SpanShape(TypedDict):
    """A step; times are in seconds since the start."""

    id: int
    parent: int | None
    type: str
    name: str
    start: float
    end: float
    attributes: dict[str, Any]


class FullTraceShape(TraceShape):
    """A trace with its steps."""

    spans: list[SpanShape]


class TracesShape(TypedDict):
    """Traces, the latest first."""

    traces: list[TraceShape]
    count: int
    next: str | None


class ChatShape(TypedDict):
    """An answer."""

    session_id: str
    message: MessageShape
    session: SessionShape
    trace_id: str
    response: str
    trace: FullTraceShape


class SearchShape(TypedDict):
    """What was found."""

    question: str
    hits: list[dict[str, Any]]
    usage: dict[str, Any]


class DocumentRowShape(TypedDict):
    """A document in a list."""

    id: str
    source: str
    title: str
    chunks: int
    characters: int
    format: str
    modified: str | None


class DocumentsShape(TypedDict):
    """Documents, by source."""

    documents: list[DocumentRowShape]
    next: str | None


class PageShape(TypedDict):
    """Where a page of a document begins."""

    page: int
    line: int


class DocumentShape(TypedDict):
    """A document's text, or the lines of it that were asked for."""

    id: str
    source: str
    title: str
    format: str
    text: str
    first_line: int
    last_line: int
    lines: int
    pages: list[PageShape]
    stale: bool


class HealthShape(TypedDict):
    """Whether it can be asked."""

    status: Literal["ready"]


class StatusShape(TypedDict):
    """What is in the knowledge base, and what the server is."""

    kb: str
    documents: int
    chunks: int
    server: dict[str, Any]
