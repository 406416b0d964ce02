"""The bodies of requests and responses, for validation, the OpenAPI document and the output schemas of MCP tools.

Requests are pydantic models, responses TypedDicts: responses are described, not validated.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

from ragkit.agent.tools.function_schema import ToolSchema, inline_references

Id = Annotated[str, Field(max_length=100)]
Filter = dict[str, Any]
"""A filter as JSON."""

EVENT_STREAM_RESPONSE: dict[str, Any] = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
"""The response of routes that can also stream server-sent events."""


class RequestBody(BaseModel):
    """A request body. Unknown keys are errors, so that a typo is not ignored."""

    model_config = ConfigDict(extra="forbid")


class ChatBody(RequestBody):
    """A message to a session; without `session_id`, to a new one."""

    message: str | None = None
    messages: list[ChatMessageBody] | None = Field(
        None, description="Instead of `message`: a conversation to start with."
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
    """A message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class StartSessionBody(RequestBody):
    """Options of a new session."""

    title: str = Field("", max_length=1000)


class EndSessionBody(RequestBody):
    """The session to end."""

    session_id: Id


class RenameSessionBody(RequestBody):
    """The new title of a session."""

    title: str = Field(min_length=1, max_length=1000, pattern=r"\S")


class SearchBody(RequestBody):
    """A search request."""

    query: str
    top_k: int | None = Field(None, ge=1)
    where: Filter | str | None = None
    mode: Literal["dense", "lexical", "hybrid"] | None = None
    explain: bool = False


class ErrorDetail(TypedDict):
    """An error in OpenAI's format."""

    message: str
    type: str
    param: str | None
    code: str


class ErrorSchema(TypedDict):
    """The body of every error response."""

    error: ErrorDetail


class HitScores(TypedDict):
    """The score of each retriever; null if it was not used."""

    dense: float | None
    lexical: float | None
    rerank: float | None


class HitSchema(TypedDict):
    """A hit of `search --json`, with the id of its document."""

    rank: int
    chunk_id: str
    document_id: str
    source: str
    text: str
    score: float
    scores: HitScores
    start: int
    end: int
    start_line: int
    end_line: int
    page: int | None
    heading: list[str]
    metadata: dict[str, Any]
    explain: NotRequired[dict[str, Any]]


class SearchSchema(TypedDict):
    """The hits of a search, best first."""

    question: str
    hits: list[HitSchema]
    usage: dict[str, Any]


class SearchResultSchema(SearchSchema):
    """The result of `search_knowledge_base`."""

    evidence: float


class CitationSchema(TypedDict):
    """A citation of `ask --json`, with the id of its document."""

    n: int
    source: str
    document_id: str | None
    page: int | None
    start_line: int
    end_line: int
    start: int
    end: int
    quote: str
    verified: bool
    stale: bool
    score: float


class AnswerSchema(TypedDict):
    """The result of `ask`."""

    question: str
    answer: str
    abstained: bool
    evidence: float
    citations: list[CitationSchema]
    model: str
    usage: dict[str, Any]
    trace_id: str


class SessionSchema(TypedDict):
    """A session."""

    id: str
    title: str
    created: str
    updated: str
    messages: int
    ended: str | None


class MessageSchema(TypedDict):
    """A message of a session. Citations are not typed: sessions hold messages of earlier versions."""

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
    """Sessions, most recently used first."""

    sessions: list[SessionSchema]
    next: str | None


class TraceSchema(TypedDict):
    """A trace of an answer."""

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
    """A span; times are in seconds since the start of the trace."""

    id: int
    parent: int | None
    type: str
    name: str
    start: float
    end: float
    attributes: dict[str, Any]


class TraceDetailSchema(TraceSchema):
    """A trace with its spans."""

    spans: list[SpanSchema]


class TraceListSchema(TypedDict):
    """Traces, latest first."""

    traces: list[TraceSchema]
    count: int
    next: str | None


class ChatSchema(TypedDict):
    """The answer to a chat message."""

    session_id: str
    message: MessageSchema
    session: SessionSchema
    trace_id: str
    response: str
    trace: TraceDetailSchema


class DocumentSummarySchema(TypedDict):
    """A document in a list."""

    id: str
    source: str
    title: str
    chunks: int
    characters: int
    format: str


class DocumentRowSchema(DocumentSummarySchema):
    """A document in a list, with the time of its last change."""

    modified: str | None


class DocumentListSchema(TypedDict):
    """The result of `list_documents`, by source."""

    documents: list[DocumentSummarySchema]
    next: str | None


class DocumentRowsSchema(TypedDict):
    """Documents by source."""

    documents: list[DocumentRowSchema]
    next: str | None


class DocumentText(TypedDict):
    """The text of a document, or some of its lines, counted from 1."""

    id: str
    source: str
    title: str
    format: str
    text: str
    first_line: int
    last_line: int
    lines: int
    stale: bool


class DocumentLinesSchema(DocumentText):
    """The result of `get_document`."""

    next_line: int | None


class PageStartSchema(TypedDict):
    """The line on which a page starts."""

    page: int
    line: int


class DocumentSchema(DocumentText):
    """The text of a document, or an excerpt, with its pages."""

    pages: list[PageStartSchema]


class HealthSchema(TypedDict):
    """The server is ready."""

    status: Literal["ready"]


class KnowledgeBaseStatusSchema(TypedDict):
    """The keys of `status --json`."""

    kb: str
    pipeline: str
    generation: int
    files: int
    failed: int
    documents: int
    chunks: int
    vectors: int
    bytes: int
    sources: list[str]
    settings: dict[str, Any]
    stale: int
    store: str
    failures: list[dict[str, Any]]


class StatusResultSchema(KnowledgeBaseStatusSchema):
    """The result of the MCP tool `status`."""

    version: str


class StatusSchema(KnowledgeBaseStatusSchema):
    """The status of the knowledge base and of the server."""

    server: dict[str, Any]


class IndexReportSchema(TypedDict):
    """The result of `index`: the keys of `index --json`."""

    kb: str
    files: dict[str, int]
    chunks: dict[str, int]
    embedded: int
    failures: list[dict[str, str]]
    skipped: list[dict[str, str]]
    usage: dict[str, Any]
    seconds: float


def output_schema(result: type) -> ToolSchema:
    """The JSON Schema of a TypedDict, without references."""
    return inline_references(TypeAdapter(result).json_schema())
