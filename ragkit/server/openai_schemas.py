"""The supported part of OpenAI's requests and responses.

Other keys of OpenAI (`user`, `seed`, `store`) and unknown keys are ignored.
Source: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from ragkit.server.schemas import CitationSchema, Filter, Id


class _OpenAIModel(BaseModel):
    model_config = ConfigDict(extra="ignore")


class ImageUrl(_OpenAIModel):
    """An image as a `data:` URL; other URLs are not fetched."""

    url: str


class ContentPart(_OpenAIModel):
    """A part of the content of a message."""

    type: Literal["text", "image_url", "refusal"]
    text: str = ""
    image_url: ImageUrl | None = None


class ToolCallFunction(_OpenAIModel):
    """The function and arguments of a tool call."""

    name: str = Field(min_length=1, max_length=64)
    arguments: str = ""


class ToolCallBody(_OpenAIModel):
    """A tool call of an earlier answer."""

    id: str = Field(max_length=200)
    type: Literal["function"] = "function"
    function: ToolCallFunction


class MessageBody(_OpenAIModel):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    tool_calls: list[ToolCallBody] | None = None
    tool_call_id: str | None = Field(None, max_length=200)


class ToolFunction(_OpenAIModel):
    """A function of the caller."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    description: str = ""
    parameters: dict[str, Any] | None = None


class ToolBody(_OpenAIModel):
    """A tool of the caller: the answer ends when the model calls it."""

    type: Literal["function"]
    function: ToolFunction


class StreamOptions(_OpenAIModel):
    """Options of a streamed answer."""

    include_usage: bool | None = None


class JsonSchema(_OpenAIModel):
    """The JSON Schema of an answer."""

    name: str = "answer"
    schema_: dict[str, Any] | None = Field(None, alias="schema")


class ResponseFormat(_OpenAIModel):
    """The format of an answer."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class CompletionBody(_OpenAIModel):
    """A chat completion request. `session_id`, `where`, `top_k` and `system_prompt` are extensions."""

    model: str | None = Field(None, max_length=200)
    messages: list[MessageBody] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    n: int | None = None
    stop: str | list[str] | None = None
    logprobs: bool | None = None
    tools: list[ToolBody] | None = Field(None, max_length=128)
    tool_choice: str | dict[str, Any] | None = None
    response_format: ResponseFormat | None = None
    session_id: Id | None = None
    where: Filter | str | None = None
    top_k: int | None = Field(None, ge=1)
    system_prompt: str | None = None


class EmbeddingBody(_OpenAIModel):
    """An embeddings request."""

    model: str | None = Field(None, max_length=200)
    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(None, ge=1)


class ModelSchema(TypedDict):
    """A model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelListSchema(TypedDict):
    """The models that requests can use."""

    object: Literal["list"]
    data: list[ModelSchema]


class EmbeddingSchema(TypedDict):
    """The vector of a text: numbers, or little-endian float32 in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingListSchema(TypedDict):
    """Vectors in the order of the texts."""

    object: Literal["list"]
    model: str
    data: list[EmbeddingSchema]
    usage: dict[str, Any]


class ChoiceSchema(TypedDict):
    """The answer."""

    index: int
    message: dict[str, Any]
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"]
    logprobs: None


class CompletionSchema(TypedDict):
    """A chat completion, with extensions from `citations` on."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChoiceSchema]
    usage: dict[str, Any]
    citations: list[CitationSchema]
    evidence: float
    abstained: bool
    answered_by: str
    trace_id: str
    session_id: str | None
