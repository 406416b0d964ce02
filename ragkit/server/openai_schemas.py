"""OpenAI's requests and answers, as far as they mean something here.

Keys that OpenAI knows and we have no use for (`user`, `seed`, `store` and the like) are passed over, as are new ones.
Source: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from ragkit.server.schemas import Filter, Id


class _OpenAIModel(BaseModel):
    model_config = ConfigDict(extra="ignore")


class ImageUrl(_OpenAIModel):
    """A picture, as a `data:` URL: nothing is fetched because a client named it."""

    url: str


class ContentPart(_OpenAIModel):
    """A piece of a message."""

    type: Literal["text", "image_url", "refusal"]
    text: str = ""
    image_url: ImageUrl | None = None


class ToolCallFunction(_OpenAIModel):
    """What a model wanted to call."""

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
    """A function of the caller's own."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    description: str = ""
    parameters: dict[str, Any] | None = None


class ToolBody(_OpenAIModel):
    """A tool of the caller's own: the answer ends where the model calls it."""

    type: Literal["function"]
    function: ToolFunction


class StreamOptions(_OpenAIModel):
    """How an answer is streamed."""

    include_usage: bool | None = None


class JsonSchema(_OpenAIModel):
    """The form of an answer."""

    name: str = "answer"
    schema_: dict[str, Any] | None = Field(None, alias="schema")


class ResponseFormat(_OpenAIModel):
    """The form of an answer."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class CompletionBody(_OpenAIModel):
    """A request of chat completions. `session_id`, `where`, `top_k` and `system_prompt` are ours."""

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
    """A request of embeddings."""

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
    """The models that requests may name."""

    object: Literal["list"]
    data: list[ModelSchema]


class EmbeddingSchema(TypedDict):
    """The vector of a text: numbers, or with `base64` little-endian float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingListSchema(TypedDict):
    """Vectors, in the order of the texts."""

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
    """An answer of chat completions, and what ours says beside it."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChoiceSchema]
    usage: dict[str, Any]
    citations: list[dict[str, Any]]
    evidence: float
    abstained: bool
    answered_by: str
    trace_id: str
    session_id: str | None
