"""The supported part of OpenAI's Responses API.

Source: https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from ragkit.server.api.openai.schemas import ContentPart, MaxTokens, OpenAIBody
from ragkit.server.api.schemas.requests import Filter


class ResponseItem(OpenAIBody):
    """A message, a call of a tool of the caller, or the result of one."""

    type: str = Field(
        "message",
        description="`message`, `function_call` or `function_call_output`; `reasoning` and calls of other tools are"
        " ignored.",
    )
    role: Literal["system", "developer", "user", "assistant"] = Field("user", description="Who sends the message.")
    content: str | list[ContentPart] | None = Field(None, description="The text of the message, or its parts.")
    call_id: str = Field("", max_length=200, description="The id of the call.")
    name: str = Field("", max_length=64, description="The name of the function that is called.")
    arguments: str = Field("", description="The arguments of the call as JSON.")
    output: str | list[ContentPart] | None = Field(None, description="The result of the call.")


class ResponseTool(OpenAIBody):
    """A tool of the caller: the response ends when the model calls it."""

    type: str = Field(description="Must be `function`.")
    name: str = Field("", description="The name of the function.")
    description: str | None = Field(None, description="What the function does, for the model.")
    parameters: dict[str, Any] | None = Field(None, description="JSON Schema of the arguments.")


class TextFormat(OpenAIBody):
    """The format of the text."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    name: str = Field("answer", description="A name for the schema.")
    schema_: dict[str, Any] | None = Field(None, alias="schema", description="The JSON Schema.")


class ResponseText(OpenAIBody):
    """Options of the text."""

    format: TextFormat | None = Field(None, description="The format of the text.")


class ResponseBody(OpenAIBody):
    """A request for a response. `where`, `top_k` and `strict` are extensions."""

    model: str | None = Field(None, max_length=200, description="As for chat completions.")
    input: str | list[ResponseItem] = Field(description="The question, or a conversation that ends with it.")
    instructions: str | None = Field(None, description="Instructions for the model.")
    previous_response_id: str | None = Field(
        None, max_length=100, description="The response that this one continues: the last one of its conversation."
    )
    store: bool | None = Field(None, description="Whether to keep the conversation as a session; default: yes.")
    stream: bool | None = Field(None, description="Stream the response as server-sent events.")
    temperature: float | None = Field(None, ge=0, le=2, description="Sampling temperature of the model.")
    top_p: float | None = Field(None, ge=0, le=1, description="Nucleus sampling: the probability mass to sample from.")
    max_output_tokens: MaxTokens = Field(
        None, description="Maximum tokens of the answer, at most the pipeline's limit; -1: that limit."
    )
    tools: list[ResponseTool] | None = Field(None, max_length=128, description="Tools of the caller.")
    tool_choice: str | dict[str, Any] | None = Field(
        None, description="`auto`, `none`, `required`, or a tool that must be called; the last two need a model."
    )
    text: ResponseText | None = Field(None, description="Options of the text.")
    where: Filter | str | None = Field(
        None, description="A filter on metadata, as JSON or in the syntax of the command line."
    )
    top_k: int | None = Field(None, ge=1, description="Passages per search.")
    strict: bool | None = Field(
        None, description="Fail with 422 if the documents do not support the answer. Default: the pipeline's."
    )


class ResponseSchema(TypedDict):
    """A response, with the extensions of chat completions."""

    id: Annotated[str, Field(description="The id, for `previous_response_id`.")]
    object: Literal["response"]
    created_at: Annotated[float, Field(description="Unix time of the answer.")]
    status: Annotated[Literal["completed", "incomplete", "in_progress", "failed"], Field(description="Its state.")]
    model: Annotated[str, Field(description="The requested model.")]
    output: Annotated[list[dict[str, Any]], Field(description="The answer, and calls of tools of the caller.")]
    usage: Annotated[dict[str, Any] | None, Field(description="Tokens; details and cost in US dollars in `ragkit`.")]
    error: Annotated[dict[str, Any] | None, Field(description="Why it failed.")]
    incomplete_details: Annotated[dict[str, Any] | None, Field(description="Why the answer is cut off.")]
    instructions: str | None
    previous_response_id: str | None
    parallel_tool_calls: bool
    tool_choice: Any
    tools: list[dict[str, Any]]
    temperature: float | None
    top_p: float | None
    max_output_tokens: int | None
    store: bool
    metadata: dict[str, Any]
    text: NotRequired[dict[str, Any]]
