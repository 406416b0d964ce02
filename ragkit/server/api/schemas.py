"""The bodies of requests and responses, for validation, the OpenAPI document and the output schemas of MCP tools.

Requests are pydantic models, responses TypedDicts: responses are described, not validated. The body of errors is a
model: FastAPI builds its schema for every route and status, which takes 1 ms for a TypedDict and 0.1 ms for a model.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from ragkit.agent.tools.function_schema import ToolSchema, inline_references
from ragkit.answer.outcome import Outcome
from ragkit.records import SearchMode

Id = Annotated[str, Field(max_length=100)]
Label = Annotated[str, Field(max_length=50)]
Filter = dict[str, Any]
"""A filter as JSON."""

EVENT_STREAM_RESPONSE: dict[str, Any] = {
    # no `type`: OpenAPI 3.1 cannot say whether it is that of the stream or of each event, and tools differ
    "content": {"text/event-stream": {"schema": {"description": "Server-sent events, each a name and a JSON object"}}}
}
"""The response of routes that can also stream server-sent events."""


class UnicodeBody(BaseModel):
    """A request body whose texts can be encoded: JSON can escape halves of characters, which UTF-8 cannot hold."""

    @model_validator(mode="before")
    @classmethod
    def check_texts(cls, data: object) -> object:
        """Rejects lone surrogates, at every depth."""
        if has_lone_surrogate(data):
            raise PydanticCustomError("lone_surrogate", "a text has a lone surrogate: send valid Unicode")
        return data


class RequestBody(UnicodeBody):
    """A request body. Unknown keys are errors, so that a typo is not ignored."""

    model_config = ConfigDict(extra="forbid")


def has_lone_surrogate(data: object) -> bool:
    """Whether a text in JSON data cannot be encoded."""
    if isinstance(data, str):
        try:
            data.encode()  # faster than a look at each character: bodies may be long
        except UnicodeEncodeError:
            return True
        return False
    if isinstance(data, dict):
        return any(has_lone_surrogate(item) for pair in data.items() for item in pair)
    return isinstance(data, list) and any(map(has_lone_surrogate, data))


FeedbackReason: TypeAlias = Literal["wrong", "incomplete", "missing", "unanswerable", "other"]


class ChatBody(RequestBody):
    """A message to a session; without `session_id`, to a new one."""

    message: str | None = Field(None, description="The question.")
    messages: list[ChatMessageBody] | None = Field(
        None,
        description="Instead of `message`: a conversation that ends with a question. Its system messages are added to "
        "the instructions.",
    )
    session_id: Id | None = Field(None, description="The session to continue.")
    where: Filter | str | None = Field(
        None, description="A filter on metadata, as JSON or in the syntax of the command line."
    )
    source: str = Field("", max_length=4000, description="Only this file, folder or URL. Empty: all documents.")
    top_k: int | None = Field(None, ge=1, description="Passages per search.")
    model: str | None = Field(
        None, max_length=200, description="`ragkit` for the pipeline's model, or a name from `GET /v1/models`."
    )
    temperature: float | None = Field(None, ge=0, le=2, description="Sampling temperature of the model.")
    top_p: float | None = Field(None, ge=0, le=1, description="Nucleus sampling: the probability mass to sample from.")
    max_tokens: int | None = Field(
        None, ge=1, description="Maximum tokens of the answer, at most the pipeline's limit."
    )
    strict: bool | None = Field(
        None, description="Fail with 422 if the documents do not support the answer. Default: the pipeline's."
    )
    stream: bool = Field(False, description="Stream the answer as server-sent events.")
    background: bool = Field(
        False,
        description="With `stream`: go on with the answer when the client disconnects. `POST /session/stop` ends it, "
        "`GET /session/{session_id}` has its text.",
    )
    replace: Id | None = Field(
        None,
        description="The `trace_id` of an answer of the session: its question and all messages after it are deleted "
        "first. To edit a question, or to ask it again.",
    )


class FeedbackBody(RequestBody):
    """What a reader says about an answer."""

    message_id: Id = Field(description="The id of the answer.")
    rating: Literal["up", "down"] | None = Field(description="Good or bad; null: takes an earlier rating back.")
    reason: FeedbackReason | None = Field(
        None,
        description="What is bad: `wrong`, `incomplete`, `missing` (the documents contain an answer), `unanswerable` "
        "(they contain none), `other`.",
    )
    note: str = Field("", max_length=2000, description="In words.")


class ChatMessageBody(RequestBody):
    """A message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str = Field(description="The text.")


class StartSessionBody(RequestBody):
    """Options of a new session."""

    title: str = Field("", max_length=1000, description="The title. Default: the first question.")


class EndSessionBody(RequestBody):
    """The session to end."""

    session_id: Id = Field(description="The id of the session.")


class StopAnswerBody(RequestBody):
    """The session whose running answer is to stop."""

    session_id: Id = Field(description="The id of the session.")


class ChangeSessionBody(RequestBody):
    """What to change of a session. Null: as it is."""

    title: str | None = Field(
        None, min_length=1, max_length=1000, pattern=r"\S", description="The new title, on one line."
    )
    labels: list[Label] | None = Field(
        None, max_length=20, description="All labels from now on: words of one's own, to find the session in the list."
    )
    note: str | None = Field(None, max_length=4000, description="A note on the session; no model reads it.")


class SearchBody(RequestBody):
    """A search request."""

    query: str = Field(description="A question or keywords.")
    top_k: int | None = Field(None, ge=1, description="Number of passages.")
    where: Filter | str | None = Field(
        None, description="A filter on metadata, as JSON or in the syntax of the command line."
    )
    mode: SearchMode | None = Field(None, description="The search mode. Default: the pipeline's.")
    explain: bool = Field(False, description="Add `explain` to each hit.")


class ErrorDetail(TypedDict):
    """An error in OpenAI's format."""

    message: Annotated[str, Field(description="What is wrong, and what is allowed.")]
    type: Annotated[str, Field(description="The kind of error, as in OpenAI's API.")]
    param: Annotated[str | None, Field(description="The invalid field.")]
    code: Annotated[str, Field(description="The error code.")]


class ErrorSchema(BaseModel):
    """The body of every error response."""

    error: ErrorDetail


class HitScores(TypedDict):
    """The score of each retriever; null if it was not used."""

    dense: Annotated[float | None, Field(description="Cosine similarity, in [-1, 1].")]
    lexical: Annotated[float | None, Field(description="BM25 score, >= 0.")]
    rerank: Annotated[float | None, Field(description="Score on the reranker's scale.")]


class HitSchema(TypedDict):
    """A hit of `search --json`, with the id of its document."""

    rank: Annotated[int, Field(description="Position in the hits, from 1.")]
    chunk_id: Annotated[str, Field(description="The id of the passage.")]
    document_id: Annotated[str, Field(description="The id for `GET /documents/{document_id}`.")]
    source: Annotated[str, Field(description="The file or URL.")]
    text: Annotated[str, Field(description="The text of the passage.")]
    score: Annotated[float, Field(description="Ranking score: higher is better, comparable within one search only.")]
    scores: Annotated[HitScores, Field(description="The scores of the retrievers.")]
    start: Annotated[int, Field(description="Offset of the first character in the document.")]
    end: Annotated[int, Field(description="Offset after the last character.")]
    place: Annotated[str, Field(description="Where it stands in the file: lines, a page, cells of a sheet, a time.")]
    start_line: Annotated[int, Field(description="The first line of the document's text, counted from 1.")]
    end_line: Annotated[int, Field(description="The last line.")]
    page: Annotated[int | None, Field(description="The page, counted from 1; null if the format has none.")]
    heading: Annotated[list[str], Field(description="The headings above the passage, outermost first.")]
    metadata: Annotated[dict[str, Any], Field(description="Metadata of the document.")]
    context: Annotated[str, Field(description="Where the passage stands, in a sentence of a model; or empty.")]
    also_in: Annotated[list[str], Field(description="Other sources with a passage that says the same, at most 100.")]
    explain: NotRequired[Annotated[dict[str, Any], Field(description="Ranks and shares of the score by retriever.")]]


class SearchSchema(TypedDict):
    """The hits of a search, best first."""

    question: Annotated[str, Field(description="The query.")]
    hits: Annotated[list[HitSchema], Field(description="The hits, best first.")]
    usage: Annotated[dict[str, Any], Field(description="Tokens and cost in US dollars.")]


class SearchResultSchema(SearchSchema):
    """The result of `search_knowledge_base`."""

    evidence: Annotated[float, Field(description="How well the passages support an answer, in [0, 1].")]


class AggregateSchema(TypedDict):
    """The result of `aggregate_records`."""

    field: Annotated[str, Field(description="The field; empty when only records were counted.")]
    documents: Annotated[int, Field(description="Records that the condition selects.")]
    numbers: Annotated[int, Field(description="Those with a number in the field.")]
    sum: Annotated[float, Field(description="0 without a number.")]
    min: Annotated[float | None, Field(description="null without a number.")]
    max: Annotated[float | None, Field(description="null without a number.")]
    mean: Annotated[float | None, Field(description="null without a number.")]


class RectangleSchema(TypedDict):
    """A part of a page of a PDF file, in PDF points from its bottom left corner."""

    page: Annotated[int, Field(description="The page, counted from 1.")]
    left: Annotated[float, Field(description="Left edge.")]
    bottom: Annotated[float, Field(description="Lower edge.")]
    right: Annotated[float, Field(description="Right edge.")]
    top: Annotated[float, Field(description="Upper edge.")]


class CitationSchema(TypedDict):
    """A citation of `ask --json`, with the id of its document."""

    n: Annotated[int, Field(description="The number in the answer, as `[n]`.")]
    source: Annotated[str, Field(description="The file or URL.")]
    document_id: Annotated[str | None, Field(description="The id for `GET /documents/{document_id}`.")]
    page: Annotated[int | None, Field(description="The page, counted from 1; null if the format has none.")]
    place: Annotated[str, Field(description="Where it stands in the file: lines, a page, cells of a sheet, a time.")]
    rectangles: Annotated[
        list[RectangleSchema] | None,
        Field(description="null: `GET /documents/{document_id}/rectangles` reads them from the file."),
    ]
    start_line: Annotated[int, Field(description="The first line of the document's text, counted from 1.")]
    end_line: Annotated[int, Field(description="The last line.")]
    start: Annotated[int, Field(description="Offset of the first character in the document.")]
    end: Annotated[int, Field(description="Offset after the last character.")]
    quote: Annotated[str, Field(description="The cited text.")]
    verified: Annotated[bool, Field(description="The quote equals the indexed text.")]
    stale: Annotated[bool, Field(description="The file has changed or was deleted since it was indexed.")]
    score: Annotated[float, Field(description="Ranking score of the passage.")]
    support: Annotated[str, Field(description="What was checked, in plain words: `numbers match`, `not supported`.")]
    also_in: NotRequired[Annotated[list[str], Field(description="Other sources with a passage that says the same.")]]
    by: NotRequired[Annotated[str, Field(description="Who cites it: `model`, or `ragkit`, which adds and corrects.")]]


class StatementSchema(TypedDict):
    """A statement of an answer, held against the passages that it cites."""

    text: Annotated[str, Field(description="The statement, without citations.")]
    citations: Annotated[list[int], Field(description="The numbers of the passages that it cites.")]
    support: Literal["supported", "partly", "not_found", "no_citation"]
    checks: Annotated[list[str], Field(description="What was found in the passages.")]
    reason: Annotated[str, Field(description="What is wrong; empty if it is supported.")]
    found_in: Annotated[int | None, Field(description="The number of another passage that supports it.")]
    found_at: Annotated[str | None, Field(description="The source of that passage.")]


Evidence = Annotated[
    float, Field(description="How likely the answer is right; of a model's answer, how well the passages support one.")
]
Confidence = Annotated[
    Literal["likely", "uncertain"] | None, Field(description="`evidence` in words; null for a model's answer.")
]


class AnswerSchema(TypedDict):
    """The result of `ask`."""

    question: Annotated[str, Field(description="The question.")]
    searched_for: Annotated[
        str, Field(description="The question as ragkit searched it, if completed or corrected; else empty.")
    ]
    answer: Annotated[str, Field(description="The text, with citations as `[n]`.")]
    abstained: Annotated[bool, Field(description="The documents do not contain an answer.")]
    outcome: Annotated[Outcome, Field(description="What kind of answer it is.")]
    notices: Annotated[list[str], Field(description="What a reader must be told, one line each.")]
    unknown_citations: Annotated[list[int], Field(description="Citation numbers taken out: they were never shown.")]
    unsupported_reasons: Annotated[list[str], Field(description="Why `strict` fails on it, one line each.")]
    evidence: Evidence
    confidence: Confidence
    supported: Annotated[float | None, Field(description="Share of the statements that are supported, in [0, 1].")]
    statements: Annotated[list[StatementSchema], Field(description="What the answer claims, in order.")]
    citations: Annotated[list[CitationSchema], Field(description="The citations, by number.")]
    model: Annotated[str, Field(description="The model that answered.")]
    usage: Annotated[
        dict[str, Any], Field(description="Tokens and cost in US dollars, in total, by tool and by iteration.")
    ]
    trace_id: Annotated[str, Field(description="The id of the trace.")]


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


class SuggestionsSchema(TypedDict):
    """First questions, or follow-up questions."""

    questions: Annotated[list[str], Field(description="At most 4, of follow-ups 3; none if no heading is fit for one.")]


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


class TraceSchema(TypedDict):
    """A trace of an answer."""

    id: Annotated[str, Field(description="The id of the trace.")]
    trace_id: Annotated[str, Field(description="The same as `id`.")]
    session_id: Annotated[str | None, Field(description="The session of the answer; null without one.")]
    status: Annotated[
        Literal["done", "running", "interrupted", "cancelled", "error"], Field(description="The status of the answer.")
    ]
    started: Annotated[str, Field(description="Start time.")]
    started_at: Annotated[str, Field(description="The same as `started`.")]
    ended: Annotated[str | None, Field(description="End time; null while the answer runs.")]
    completed_at: Annotated[str | None, Field(description="The same as `ended`.")]
    model: Annotated[str, Field(description="The model that answered.")]
    question: Annotated[str, Field(description="The question; empty without a session.")]
    usage: Annotated[dict[str, Any] | None, Field(description="Tokens and cost in US dollars.")]
    error: Annotated[str | None, Field(description="The error message.")]


class SpanSchema(TypedDict):
    """A span; times are in seconds since the start of the trace."""

    id: Annotated[int, Field(description="Position in the list, from 0.")]
    parent: Annotated[int | None, Field(description="The id of the parent span; null for the root.")]
    type: Annotated[str, Field(description="The kind of step.")]
    name: Annotated[str, Field(description="The name of the step, such as that of the tool.")]
    start: Annotated[float, Field(description="Start in seconds since the start of the trace.")]
    end: Annotated[float, Field(description="End in seconds since the start of the trace.")]
    attributes: Annotated[
        dict[str, Any], Field(description="Details of the step, without texts of documents or answers.")
    ]


class ToolCallSchema(TypedDict):
    """A tool call of a model."""

    id: Annotated[str, Field(description="The id of the call.")]
    name: Annotated[str, Field(description="The name of the tool.")]
    arguments: Annotated[dict[str, Any], Field(description="The arguments.")]
    by: NotRequired[Annotated[str, Field(description="`model`, or `ragkit` for the search before the first request.")]]


class ExecutedToolCallSchema(ToolCallSchema):
    """A tool call with its result."""

    result: Annotated[str, Field(description="The result, at most 2,000 characters.")]
    full_result_length: Annotated[int, Field(description="Length of the whole result in characters.")]
    ok: Annotated[bool, Field(description="False if the tool failed; `result` is then the error.")]
    duration_ms: Annotated[float, Field(description="Duration in milliseconds.")]
    timestamp: Annotated[str | None, Field(description="Time at which the tool returned.")]


class TurnSchema(TypedDict):
    """A message of an answer."""

    role: Literal["user", "assistant", "tool"]
    content: Annotated[str, Field(description="The text; tool results at most 2,000 characters.")]
    tool_calls: NotRequired[Annotated[list[ToolCallSchema], Field(description="The tool calls of the model.")]]
    tool_call_id: NotRequired[Annotated[str, Field(description="The call that a tool result answers.")]]
    timestamp: Annotated[str | None, Field(description="Time of the message.")]


class TraceConfigSchema(TypedDict, total=False):
    """The settings of an answer; empty if it did not start."""

    model: Annotated[str, Field(description="The requested model.")]
    max_tokens: Annotated[int, Field(description="Maximum tokens of one answer of the model.")]
    temperature: Annotated[float, Field(description="Sampling temperature.")]
    top_p: Annotated[float, Field(description="Nucleus sampling.")]
    max_iterations: Annotated[int, Field(description="Maximum requests to the model.")]


class TraceDetailSchema(TraceSchema):
    """A trace with its steps. `turns` and `tool_calls` are stored for answers in sessions only."""

    spans: Annotated[list[SpanSchema], Field(description="The spans, parents before children.")]
    turns: Annotated[list[TurnSchema], Field(description="The messages of the answer, from the question on.")]
    tool_calls: Annotated[list[ExecutedToolCallSchema], Field(description="The tool calls, in order.")]
    config: Annotated[TraceConfigSchema, Field(description="The settings of the answer.")]
    total_tokens: Annotated[int, Field(description="Tokens of the requests to the model, sent and received.")]


class TraceListSchema(TypedDict):
    """Traces, latest first."""

    traces: Annotated[list[TraceSchema], Field(description="The traces.")]
    count: Annotated[int, Field(description="Number of traces on this page.")]
    next: Annotated[str | None, Field(description="`cursor` of the next page; null on the last page.")]


class ChatSchema(TypedDict):
    """The answer to a chat message."""

    session_id: Annotated[str, Field(description="The session, for the next message.")]
    message: Annotated[MessageSchema, Field(description="The answer.")]
    session: Annotated[SessionSchema, Field(description="The session after the answer.")]
    trace_id: Annotated[str, Field(description="The id of the trace.")]
    response: Annotated[str, Field(description="The text of the answer.")]
    trace: Annotated[TraceDetailSchema, Field(description="The trace of the answer.")]


class DocumentSummarySchema(TypedDict):
    """A document in a list."""

    id: Annotated[str, Field(description="The id of the document.")]
    source: Annotated[str, Field(description="The file or URL.")]
    title: Annotated[str, Field(description="The title; may be empty.")]
    chunks: Annotated[int, Field(description="Number of passages.")]
    characters: Annotated[int, Field(description="Length of the text.")]
    format: Annotated[str, Field(description="The format, such as `pdf`.")]


class DocumentRowSchema(DocumentSummarySchema):
    """A document in a list, with the time of its last change."""

    modified: Annotated[str | None, Field(description="Time of the last change of the file; null if unknown.")]


class DocumentListSchema(TypedDict):
    """The result of `list_documents`, by source."""

    documents: Annotated[list[DocumentSummarySchema], Field(description="The documents.")]
    next: Annotated[str | None, Field(description="`cursor` of the next page; null on the last page.")]


class DocumentRowsSchema(TypedDict):
    """Documents by source."""

    documents: Annotated[list[DocumentRowSchema], Field(description="The documents.")]
    next: Annotated[str | None, Field(description="`cursor` of the next page; null on the last page.")]


class DocumentText(TypedDict):
    """The text of a document, or some of its lines, counted from 1."""

    id: Annotated[str, Field(description="The id of the document.")]
    source: Annotated[str, Field(description="The file or URL.")]
    title: Annotated[str, Field(description="The title; may be empty.")]
    format: Annotated[str, Field(description="The format, such as `pdf`.")]
    text: Annotated[str, Field(description="The returned lines.")]
    first_line: Annotated[int, Field(description="The first returned line, counted from 1.")]
    last_line: Annotated[int, Field(description="The last returned line.")]
    lines: Annotated[int, Field(description="Number of lines of the document.")]
    stale: Annotated[bool, Field(description="The file has changed or was deleted since it was indexed.")]


class DocumentLinesSchema(DocumentText):
    """The result of `get_document`."""

    next_line: Annotated[int | None, Field(description="`start_line` of the next part; null at the end.")]


class SectionSchema(TypedDict):
    """A heading of an outline."""

    title: Annotated[str, Field(description="The text of the heading.")]
    level: Annotated[int, Field(description="1 is the highest.")]
    place: Annotated[str, Field(description="Where it stands: `line 48`, `page 3`.")]


class OutlineSchema(TypedDict):
    """The result of `outline`."""

    source: Annotated[str, Field(description="The file or URL.")]
    title: Annotated[str, Field(description="The title; may be empty.")]
    sections: Annotated[list[SectionSchema], Field(description="The headings, in order.")]
    left_out: Annotated[int, Field(description="Headings beyond the limit of one result.")]


class TextPlaceSchema(TypedDict):
    """A place where a text was found."""

    place: Annotated[str, Field(description="Where it stands: `line 48`, `page 3`.")]
    text: Annotated[str, Field(description="Its line.")]


class TextMatchesSchema(TypedDict):
    """The places in one document."""

    source: Annotated[str, Field(description="The file or URL.")]
    title: Annotated[str, Field(description="The title; may be empty.")]
    count: Annotated[int, Field(description="All places.")]
    places: Annotated[list[TextPlaceSchema], Field(description="The first places.")]


class FoundTextSchema(TypedDict):
    """The result of `find_text`."""

    pattern: Annotated[str, Field(description="What was looked for.")]
    places: Annotated[int, Field(description="All places in all documents.")]
    matching: Annotated[int, Field(description="Documents with a place.")]
    searched: Annotated[int, Field(description="Documents that were read.")]
    complete: Annotated[bool, Field(description="Every document was read; else the time was used up.")]
    documents: Annotated[list[TextMatchesSchema], Field(description="Documents with a place, by source.")]
    left_out: Annotated[int, Field(description="Matching documents beyond the limit of one result.")]


class BasesSchema(TypedDict):
    """The knowledge bases of a server."""

    bases: Annotated[list[str], Field(description="Their names, the default first; empty for one without a name.")]
    current: Annotated[str, Field(description="The one that this request chose.")]
    managed: Annotated[bool, Field(description="This client may make, rename and delete them.")]


class MarkSchema(TypedDict):
    """A part of the picture of a page, as shares of its width and height from its top left corner."""

    page: Annotated[int, Field(description="The page, counted from 1.")]
    left: Annotated[float, Field(description="Left edge.")]
    top: Annotated[float, Field(description="Upper edge.")]
    width: Annotated[float, Field(description="Width.")]
    height: Annotated[float, Field(description="Height.")]


class MatchSchema(TypedDict):
    """A place in the text of a document: offsets, and the page, counted from 1; null if the document has none."""

    start: int
    end: int
    page: int | None


class MatchesSchema(TypedDict):
    """Where words stand in a document; the first 500."""

    matches: list[MatchSchema]


class OverviewSchema(TypedDict):
    """What a document is about: sentences of it, and its main sections; `pages` is 0 for one without pages."""

    title: str
    format: str
    language: str | None
    pages: int
    characters: int
    summary: list[str]
    sections: list[str]


class HtmlTreeSchema(TypedDict):
    """What a reader sees of an HTML page: texts and elements, without anything that runs or loads."""

    tree: Annotated[
        list[Any],
        Field(description='Texts, and elements `{"tag", "children"}`, some with `href`, `colspan` or `rowspan`.'),
    ]


class RectanglesSchema(TypedDict):
    """Where a part of a document stands on the pages of its PDF file."""

    rectangles: Annotated[
        list[RectangleSchema],
        Field(description="One per line; empty for other formats, and for files that have changed."),
    ]
    marks: Annotated[
        list[MarkSchema], Field(description="The same in the pictures of `GET /documents/{document_id}/pages/{page}`.")
    ]
    stale: Annotated[bool, Field(description="The file has changed or was deleted since it was indexed.")]


class PageStartSchema(TypedDict):
    """The line on which a page starts."""

    page: Annotated[int, Field(description="The page, counted from 1.")]
    line: Annotated[int, Field(description="The line on which it starts.")]


class HeadingSchema(TypedDict):
    """A heading of a document."""

    line: Annotated[int, Field(description="Its line, counted from 1.")]
    level: Annotated[int, Field(description="1: the highest. 100: the column names of a table.")]
    text: Annotated[str, Field(description="Its text.")]


class DocumentSchema(DocumentText):
    """The text of a document, or an excerpt, with its pages."""

    view: Annotated[
        Literal["pages", "html", "markdown", "table", "code", "text"],
        Field(description="How it is shown as its readers know it."),
    ]
    language: Annotated[str, Field(description="The programming language of code; empty otherwise.")]
    headings: Annotated[list[HeadingSchema], Field(description="Headings in the returned lines.")]

    pages: Annotated[
        list[PageStartSchema], Field(description="All pages of the document; empty if the format has none.")
    ]


class HealthSchema(TypedDict):
    """The server is alive."""

    status: Literal["live"]


class ReadySchema(TypedDict):
    """The server is ready."""

    status: Literal["ready"]
    parts: Annotated[
        dict[str, str],
        Field(description="`knowledge_base` and `state` (sessions, traces and jobs): `ok`, or why it fails."),
    ]


class KnowledgeBaseStatusSchema(TypedDict):
    """The keys of `status --json`."""

    kb: Annotated[str, Field(description="Directory of the knowledge base.")]
    pipeline: Annotated[str, Field(description="Name of the pipeline.")]
    generation: Annotated[int, Field(description="Number of the index version.")]
    files: Annotated[int, Field(description="Number of files.")]
    failed: Annotated[int, Field(description="Files that could not be indexed.")]
    documents: Annotated[int, Field(description="Number of documents.")]
    chunks: Annotated[int, Field(description="Number of passages.")]
    vectors: Annotated[int, Field(description="Number of vectors.")]
    bytes: Annotated[int, Field(description="Size on disk.")]
    sources: Annotated[list[str], Field(description="The indexed folders, files and URLs.")]
    settings: Annotated[dict[str, Any], Field(description="The settings of the pipeline.")]
    stale: Annotated[int, Field(description="Indexed files that changed or were deleted since.")]
    store: Annotated[str, Field(description="Name of the vector store.")]
    failures: Annotated[
        list[dict[str, Any]], Field(description="The first files that could not be indexed, by source.")
    ]
    language_note: Annotated[str, Field(description="If the embedder does not know the language of most of the text.")]
    database: Annotated[
        dict[str, Any] | None,
        Field(description="The database of the knowledge base, its last publication, and the processes that use it."),
    ]


class StatusResultSchema(KnowledgeBaseStatusSchema):
    """The result of the MCP tool `status`."""

    version: Annotated[str, Field(description="The version of ragkit.")]


class StatusSchema(KnowledgeBaseStatusSchema):
    """The status of the knowledge base and of the server."""

    server: Annotated[dict[str, Any], Field(description="The version, models and limits of the server.")]


class IndexReportSchema(TypedDict):
    """The result of `index`: the keys of `index --json`."""

    kb: Annotated[str, Field(description="Directory of the knowledge base.")]
    files: Annotated[dict[str, int], Field(description="Number of files by change.")]
    chunks: Annotated[dict[str, int], Field(description="Number of passages by change.")]
    embedded: Annotated[int, Field(description="Texts sent to the embedder.")]
    failures: Annotated[list[dict[str, str]], Field(description="Files that could not be indexed.")]
    skipped: Annotated[list[dict[str, str]], Field(description="Skipped files, with the reason.")]
    usage: Annotated[dict[str, Any], Field(description="Tokens and cost in US dollars.")]
    seconds: Annotated[float, Field(description="Duration.")]


def output_schema(result: type) -> ToolSchema:
    """The JSON Schema of a TypedDict, without references."""
    return inline_references(TypeAdapter(result).json_schema())
