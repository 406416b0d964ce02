"""Traces for OpenTelemetry, with the attributes of its GenAI semantic conventions.

The attribute names are literals, because the package that defines them marks them as incubating.
Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

from __future__ import annotations

import json
import logging

from ragkit.agent import events as e
from ragkit.agent.observers import AgentObserver
from ragkit.agent.result import AgentResult, partial_result
from ragkit.agent.trace import StepType, TraceSpan
from ragkit.errors import MissingExtra
from ragkit.records import JSON

try:
    from opentelemetry import trace as otel
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, TracerProvider
except ImportError as error:
    raise MissingExtra("OpenTelemetryObserver", extra="otel") from error

LOG = logging.getLogger("ragkit.agent")

_OPERATION_NAMES = {StepType.RUN: "invoke_agent", StepType.LLM_CALL: "chat", StepType.TOOL: "execute_tool"}
_ATTRIBUTE_NAMES = {
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "call_id": "gen_ai.tool.call.id",
    "error": "error.type",
}


class OpenTelemetryObserver(AgentObserver):
    """Exports the trace of each run to OpenTelemetry when the run ends, without the texts of messages.

    Args:
        provider: the tracer provider; by default the global one.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer: Tracer = otel.get_tracer("ragkit", tracer_provider=provider)

    def on_agent_end(self, event: e.RunEnded) -> None:
        """Export the trace of a run that ended."""
        self._export(event.result, None)

    def on_error(self, event: e.RunFailed) -> None:
        """Export the trace of a run that failed."""
        partial = partial_result(event.error)
        if partial is not None:
            self._export(partial, event.error)

    def _export(self, result: AgentResult, error: BaseException | None) -> None:
        try:
            self._export_span(result, result.trace.root, None, error)
        except Exception:  # a failed export must not break the run
            LOG.exception("the trace of run %s could not be exported", result.run_id)

    def _export_span(
        self, result: AgentResult, span: TraceSpan, parent: OtelSpan | None, error: BaseException | None = None
    ) -> None:
        zero = result.trace.started_at
        operation = _OPERATION_NAMES.get(span.type)
        name = f"{operation} {span.name}" if operation else span.name
        otel_span = self._tracer.start_span(
            name,
            context=otel.set_span_in_context(parent) if parent else None,
            kind=SpanKind.CLIENT if span.type is StepType.LLM_CALL else SpanKind.INTERNAL,
            start_time=int((zero + span.started) * 1e9),
        )
        if operation:
            otel_span.set_attribute("gen_ai.operation.name", operation)
        for key, value in _span_attributes(result, span).items():
            otel_span.set_attribute(key, value if isinstance(value, str | bool | int | float) else json.dumps(value))
        if error is not None:
            otel_span.set_status(Status(StatusCode.ERROR, str(error)))
            otel_span.set_attribute("error.type", type(error).__name__)
        if "error" in span.attributes:
            otel_span.set_status(Status(StatusCode.ERROR, str(span.attributes["error"])))
        for child in span.children:
            self._export_span(result, child, otel_span)
        otel_span.end(int((zero + span.ended) * 1e9))


def _span_attributes(result: AgentResult, span: TraceSpan) -> dict[str, JSON]:
    attributes: dict[str, JSON] = {
        _ATTRIBUTE_NAMES.get(key, f"ragkit.{key}"): value
        for key, value in span.attributes.items()
        if value is not None and key != "reasoning"
    }
    if span.type is StepType.RUN:
        usage = result.usage
        attributes |= {
            "gen_ai.agent.name": span.name,
            "gen_ai.conversation.id": result.run_id,
            "gen_ai.usage.input_tokens": usage.prompt_tokens,
            "gen_ai.usage.output_tokens": usage.completion_tokens,
        }
        if usage.total_cost_usd is not None:
            attributes["ragkit.cost_usd"] = usage.total_cost_usd
    elif span.type is StepType.LLM_CALL:
        attributes["gen_ai.request.model"] = span.name
        attributes["gen_ai.response.finish_reasons"] = [span.attributes.get("stop_reason")]
    elif span.type is StepType.TOOL:
        attributes["gen_ai.tool.name"] = span.name
    return attributes
