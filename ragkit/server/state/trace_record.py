"""The texts of an answer for its trace: turns, tool calls, settings and tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.messages import BY_RAGKIT, Message, Role, ToolCall
from ragkit.agent.result import AgentResult, ToolOutcome
from ragkit.agent.tracing.trace import StepType, TraceSpan
from ragkit.records import JSON
from ragkit.server.state.database import format_time
from ragkit.sql import SqlConnection

MAX_RESULT_CHARS = 2_000
"""Longer tool results are cut in traces; `full_result_length` is the whole length."""
EMPTY_RECORD: Mapping[str, JSON] = {"turns": [], "tool_calls": [], "config": {}, "total_tokens": 0}


def trace_record(result: AgentResult, config: AgentConfig) -> dict[str, JSON]:
    """The messages and tool calls of a run in order, with the settings of the model and the tokens of its requests."""
    spans = {str(span.attributes.get("call_id")): span for span in result.trace.find_spans(StepType.TOOL)}
    usage = result.usage
    return {
        "turns": _turns(result, spans),
        "tool_calls": [_tool_call(outcome, _time(result, spans.get(outcome.call.id))) for outcome in result.tool_calls],
        "config": {
            "model": next((span.name for span in result.trace.find_spans(StepType.LLM_CALL)), config.model),
            "max_tokens": config.max_tokens,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "max_iterations": config.max_iterations,
        },
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def without_texts(record: Mapping[str, JSON]) -> dict[str, JSON]:
    """The record of an answer outside of sessions, of which no text is stored: its settings and tokens."""
    return {**record, "turns": [], "tool_calls": []}


def forget_texts(connection: SqlConnection, condition: str, values: tuple[object, ...] = ()) -> None:
    """Delete the texts from the traces that a condition selects."""
    with_texts = f"SELECT id, record FROM traces WHERE question != '' AND {condition}"  # noqa: S608 - constant
    for trace, record in connection.execute(with_texts, values).fetchall():
        kept = json.dumps({**json.loads(record), "turns": [], "tool_calls": []})
        connection.execute("UPDATE traces SET question = '', record = ? WHERE id = ?", (kept, trace))


def _turns(result: AgentResult, tool_spans: Mapping[str, TraceSpan]) -> list[JSON]:
    """The messages of the run. A message of the model has the time at which the request ended."""
    model_spans = iter(result.trace.find_spans(StepType.LLM_CALL))
    last: TraceSpan | None = None
    turns: list[JSON] = []
    for message in result.new_messages:
        if message.role is Role.SYSTEM:
            continue
        if message.role is Role.ASSISTANT and not message.is_opening:
            last = next(model_spans, last)
        span = tool_spans.get(message.tool_call_id) if message.role is Role.TOOL else last
        turns.append({**_turn(message), "timestamp": _time(result, span)})
    return turns


def _turn(message: Message) -> dict[str, JSON]:
    turn: dict[str, JSON] = {"role": message.role.value, "content": message.content}
    if message.role is Role.TOOL:
        turn |= {"content": message.content[:MAX_RESULT_CHARS], "tool_call_id": message.tool_call_id}
    if message.tool_calls:
        turn["tool_calls"] = [_call(call) for call in message.tool_calls]
    return turn


def _call(call: ToolCall) -> dict[str, JSON]:
    by: dict[str, JSON] = {"by": call.by} if call.by == BY_RAGKIT else {}
    return {"id": call.id, "name": call.name, "arguments": dict(call.arguments), **by}


def _tool_call(outcome: ToolOutcome, ended: str | None) -> dict[str, JSON]:
    return {
        **_call(outcome.call),
        "result": outcome.content[:MAX_RESULT_CHARS],
        "full_result_length": len(outcome.content),
        "ok": outcome.error is None,
        "duration_ms": round(outcome.seconds * 1000, 3),
        "timestamp": ended,
    }


def _time(result: AgentResult, span: TraceSpan | None) -> str | None:
    """The time at which a step ended; without one, that at which the run began."""
    return format_time(result.trace.started_at + (span.ended if span is not None else 0.0))
