"""The supported part of OpenAI's requests and responses, but for the Responses API.

Other keys of OpenAI (`user`, `seed`, `store`, `metadata`) and unknown keys are ignored.
Source: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import BeforeValidator, ConfigDict, Field
from typing_extensions import TypedDict

from ragkit.answer.outcome import Outcome
from ragkit.server.api.schemas.answers import CitationSchema, Confidence, Evidence, StatementSchema
from ragkit.server.api.schemas.requests import Filter, Id, UnicodeBody
from ragkit.server.api.schemas.traces import TraceDetailSchema


class OpenAIBody(UnicodeBody):
    """A part of a request. Unknown keys are ignored, as clients send keys of other services."""

    model_config = ConfigDict(extra="ignore")


MaxTokens = Annotated[int | None, Field(ge=1), BeforeValidator(lambda value: None if value == -1 else value)]
"""Maximum tokens of an answer; -1, as some clients send it, means no value."""


class ImageUrl(OpenAIBody):
    """An image as a `data:` URL; other URLs are not fetched."""

    url: str = Field(description="The `data:` URL.")


class ContentPart(OpenAIBody):
    """A part of the content of a message: a text or an image."""

    type: str = Field(
        description="`text`, `input_text`, `output_text`, `refusal`, `image_url` or `input_image`; no files and sounds."
    )
    text: str = Field("", description="The text.")
    image_url: ImageUrl | str | None = Field(None, description="The image.")


class ToolCallFunction(OpenAIBody):
    """The function and arguments of a tool call."""

    name: str = Field(min_length=1, max_length=64, description="The name of the function.")
    arguments: str = Field("", description="The arguments as JSON.")


class ToolCallBody(OpenAIBody):
    """A tool call of an earlier answer."""

    id: str = Field(max_length=200, description="The id, which `tool_call_id` of the result repeats.")
    type: Literal["function"] = "function"
    function: ToolCallFunction


class MessageBody(OpenAIBody):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = Field(None, description="The text, or parts of text and images.")
    tool_calls: list[ToolCallBody] | None = Field(None, description="The tool calls of an assistant message.")
    tool_call_id: str | None = Field(None, max_length=200, description="The tool call that this message answers.")


class ToolFunction(OpenAIBody):
    """A function of the caller."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="The name of the function.")
    description: str = Field("", description="What the function does, for the model.")
    parameters: dict[str, Any] | None = Field(None, description="JSON Schema of the arguments.")


class ToolBody(OpenAIBody):
    """A tool of the caller: the answer ends when the model calls it."""

    type: Literal["function"]
    function: ToolFunction


class StreamOptions(OpenAIBody):
    """Options of a streamed answer."""

    include_usage: bool | None = Field(None, description="Send the usage in the last chunk.")


class JsonSchema(OpenAIBody):
    """The JSON Schema of an answer."""

    name: str = Field("answer", description="A name for the schema.")
    schema_: dict[str, Any] | None = Field(None, alias="schema", description="The JSON Schema.")


class ResponseFormat(OpenAIBody):
    """The format of an answer."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = Field(None, description="The schema, if `type` is `json_schema`.")


class CompletionBody(OpenAIBody):
    """A chat completion request. `session_id`, `where`, `top_k`, `strict` and `system_prompt` are extensions."""

    model: str | None = Field(
        None, max_length=200, description="`ragkit` for the pipeline's model, or a name from `GET /v1/models`."
    )
    messages: list[MessageBody] = Field(
        min_length=1, description="The conversation; the last message is the question or a tool result."
    )
    stream: bool | None = Field(None, description="Stream the answer as server-sent events.")
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(None, ge=0, le=2, description="Sampling temperature of the model.")
    top_p: float | None = Field(None, ge=0, le=1, description="Nucleus sampling: the probability mass to sample from.")
    max_tokens: MaxTokens = Field(
        None, description="Maximum tokens of the answer, at most the pipeline's limit; -1: that limit."
    )
    max_completion_tokens: MaxTokens = Field(None, description="Newer name of `max_tokens`.")
    n: int | None = Field(None, description="Must be 1.")
    stop: str | list[str] | None = Field(None, description="Texts before which the answer ends.")
    logprobs: bool | None = Field(None, description="Must not be true.")
    tools: list[ToolBody] | None = Field(
        None, max_length=128, description="Tools of the caller: the answer ends when the model calls one."
    )
    tool_choice: str | dict[str, Any] | None = Field(
        None, description="`auto`, `none`, `required`, or a tool that must be called; the last two need a model."
    )
    response_format: ResponseFormat | None = Field(None, description="The format of the answer.")
    session_id: Id | None = Field(None, description="The session to continue.")
    where: Filter | str | None = Field(
        None, description="A filter on metadata, as JSON or in the syntax of the command line."
    )
    top_k: int | None = Field(None, ge=1, description="Passages per search.")
    strict: bool | None = Field(
        None, description="Fail with 422 if the documents do not support the answer. Default: the pipeline's."
    )
    system_prompt: str | None = Field(None, description="Instructions to add if no message is a system message.")


class EmbeddingBody(OpenAIBody):
    """An embeddings request."""

    model: str | None = Field(None, max_length=200, description="`ragkit` or the name of the embedder.")
    input: str | list[str] | list[int] | list[list[int]] = Field(
        description="A text, or up to 2,048 texts; token ids of `cl100k_base` if the server has its vocabulary."
    )
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="Numbers, or little-endian float32 in base64."
    )
    dimensions: int | None = Field(
        None, ge=1, description="Shorten the vectors, if the model is trained for it; else their dimension."
    )


class RerankDocument(OpenAIBody):
    """A document as an object."""

    text: str


class RerankBody(OpenAIBody):
    """A rerank request, as Cohere and Jina have it."""

    model: str | None = Field(None, max_length=200, description="`ragkit` or `ragkit/NAME`; other names are ignored.")
    query: str = Field(description="The question.")
    documents: list[str | RerankDocument] = Field(description="1 to 1,000 texts, or objects with `text`.")
    top_n: int | None = Field(None, ge=1, description="Number of results; default: all documents.")
    return_documents: bool | None = Field(None, description="Whether results have the texts.")


class TextCompletionBody(OpenAIBody):
    """A request of the older completions API: the prompt is the question."""

    model: str | None = Field(None, max_length=200, description="As for chat completions.")
    prompt: str | list[str] | list[int] | list[list[int]] = Field(description="The question: one text.")
    stream: bool | None = Field(None, description="Stream the answer as server-sent events.")
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(None, ge=0, le=2, description="Sampling temperature of the model.")
    top_p: float | None = Field(None, ge=0, le=1, description="Nucleus sampling: the probability mass to sample from.")
    max_tokens: MaxTokens = Field(
        None, description="Maximum tokens of the answer, at most the pipeline's limit; -1: that limit."
    )
    n: int | None = Field(None, description="Must be 1.")
    stop: str | list[str] | None = Field(None, description="Texts before which the answer ends.")
    where: Filter | str | None = Field(
        None, description="A filter on metadata, as JSON or in the syntax of the command line."
    )
    top_k: int | None = Field(None, ge=1, description="Passages per search.")


class ModelSchema(TypedDict):
    """A model."""

    id: Annotated[str, Field(description="The name for `model`.")]
    object: Literal["model"]
    created: Annotated[int, Field(description="Unix time at which the server started.")]
    owned_by: str


class ModelListSchema(TypedDict):
    """The models that requests can use."""

    object: Literal["list"]
    data: Annotated[list[ModelSchema], Field(description="The models.")]


class EmbeddingSchema(TypedDict):
    """The vector of a text: numbers, or little-endian float32 in base64."""

    object: Literal["embedding"]
    index: Annotated[int, Field(description="Position of the text in `input`.")]
    embedding: Annotated[list[float] | str, Field(description="The vector.")]


class EmbeddingListSchema(TypedDict):
    """Vectors in the order of the texts."""

    object: Literal["list"]
    model: Annotated[str, Field(description="The embedder.")]
    data: Annotated[list[EmbeddingSchema], Field(description="The vectors.")]
    usage: Annotated[dict[str, Any], Field(description="Tokens; cost in US dollars in `ragkit`.")]


class RerankResultSchema(TypedDict):
    """A document, by its relevance."""

    index: Annotated[int, Field(description="Position of the document in the request.")]
    relevance_score: Annotated[float, Field(description="Higher is more relevant.")]
    document: NotRequired[Annotated[dict[str, str], Field(description="The text, with `return_documents`.")]]


class RerankSchema(TypedDict):
    """Documents, the most relevant first."""

    id: str
    model: Annotated[str, Field(description="The reranker, or the embedder whose cosines rank the documents.")]
    results: Annotated[list[RerankResultSchema], Field(description="The documents, the most relevant first.")]
    usage: Annotated[dict[str, Any], Field(description="Tokens; cost in US dollars in `ragkit`.")]


class TextChoiceSchema(TypedDict):
    """The answer of the older completions API."""

    index: Annotated[int, Field(description="Always 0.")]
    text: Annotated[str, Field(description="The answer.")]
    finish_reason: Annotated[Literal["stop", "length", "content_filter"], Field(description="Why the answer ended.")]
    logprobs: Annotated[None, Field(description="Not supported.")]


class TextCompletionSchema(TypedDict):
    """A completion of the older API, with the extensions of chat completions."""

    id: Annotated[str, Field(description="The id of the answer.")]
    object: Literal["text_completion"]
    created: Annotated[int, Field(description="Unix time of the answer.")]
    model: Annotated[str, Field(description="The requested model.")]
    choices: Annotated[list[TextChoiceSchema], Field(description="One choice.")]
    usage: Annotated[dict[str, Any], Field(description="Tokens; details and cost in US dollars in `ragkit`.")]


class ChoiceSchema(TypedDict):
    """The answer."""

    index: Annotated[int, Field(description="Always 0.")]
    message: Annotated[
        dict[str, Any], Field(description="The answer, with `tool_calls` if the model called tools of the caller.")
    ]
    finish_reason: Annotated[
        Literal["stop", "length", "tool_calls", "content_filter"], Field(description="Why the answer ended.")
    ]
    logprobs: Annotated[None, Field(description="Not supported.")]


class CompletionSchema(TypedDict):
    """A chat completion, with extensions from `citations` on; a title for a chat program has none."""

    id: Annotated[str, Field(description="The id of the answer.")]
    object: Literal["chat.completion"]
    created: Annotated[int, Field(description="Unix time of the answer.")]
    model: Annotated[str, Field(description="The requested model.")]
    choices: Annotated[list[ChoiceSchema], Field(description="One choice.")]
    usage: Annotated[dict[str, Any], Field(description="Tokens; details and cost in US dollars in `ragkit`.")]
    citations: NotRequired[Annotated[list[CitationSchema], Field(description="The citations, by number.")]]
    statements: NotRequired[Annotated[list[StatementSchema], Field(description="What the answer claims, in order.")]]
    supported: NotRequired[
        Annotated[float | None, Field(description="Share of the statements that are supported, in [0, 1].")]
    ]
    evidence: NotRequired[Evidence]
    confidence: NotRequired[Confidence]
    abstained: NotRequired[Annotated[bool, Field(description="The documents do not contain an answer.")]]
    outcome: NotRequired[Annotated[Outcome, Field(description="What kind of answer it is.")]]
    notices: NotRequired[Annotated[list[str], Field(description="What a reader must be told, one line each.")]]
    answered_by: NotRequired[Annotated[str, Field(description="The model that answered.")]]
    trace_id: NotRequired[Annotated[str, Field(description="The id of the trace.")]]
    session_id: NotRequired[Annotated[str | None, Field(description="The session; null without one.")]]
    trace: NotRequired[Annotated[TraceDetailSchema, Field(description="The trace of the answer.")]]
