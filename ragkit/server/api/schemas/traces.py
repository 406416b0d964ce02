"""Traces of answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict


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
