"""Traces for OpenTelemetry, with the attributes of its GenAI semantic conventions.

The attribute names are literals, because the package that defines them marks them as incubating.
Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping

from ragkit.agent import events
from ragkit.agent.observers import AgentObserver
from ragkit.agent.result import AgentResult, partial_result
from ragkit.agent.tracing.trace import StepType, TraceSpan
from ragkit.errors import InvalidOption, MissingExtra
from ragkit.records import JSON

try:
    from opentelemetry import trace as otel
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider as SdkProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, TracerProvider
except ImportError as error:
    raise MissingExtra("OpenTelemetryObserver", extra="otel") from error

LOG = logging.getLogger("ragkit.agent")
EXPORTERS = ("otlp", "console", "none")
"""Values of OTEL_TRACES_EXPORTER that `provider_from_environment` knows."""
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

_OPERATION_NAMES = {StepType.RUN: "invoke_agent", StepType.LLM_CALL: "chat", StepType.TOOL: "execute_tool"}
_ATTRIBUTE_NAMES = {
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "call_id": "gen_ai.tool.call.id",
    "error": "error.type",
}


def is_requested(environment: Mapping[str, str]) -> bool:
    """Whether the standard variables of OpenTelemetry name where traces go, and do not disable it."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    return any(environment.get(name) for name in (*_ENDPOINTS, "OTEL_TRACES_EXPORTER"))


def provider_from_environment(environment: Mapping[str, str]) -> TracerProvider:
    """A tracer provider that exports as the standard variables say: OTLP, unless OTEL_TRACES_EXPORTER says otherwise.

    Raises:
        InvalidOption: an unknown exporter.
        MissingExtra: the exporter is not installed.
    """
    chosen = environment.get("OTEL_TRACES_EXPORTER") or EXPORTERS[0]
    if chosen not in EXPORTERS:
        raise InvalidOption("OTEL_TRACES_EXPORTER", chosen, f"one of {', '.join(EXPORTERS)}")
    named = Resource.create({} if environment.get("OTEL_SERVICE_NAME") else {"service.name": "ragkit"})
    provider = SdkProvider(resource=named)
    exporter: SpanExporter
    if chosen == "otlp":
        try:
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtra("the export of traces over OTLP", extra="otel") from error
        exporter = OTLPSpanExporter()
        provider.add_span_processor(BatchSpanProcessor(exporter))
    elif chosen == "console":
        exporter = ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: f"{span.to_json(indent=None)}\n")
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


class OpenTelemetryObserver(AgentObserver):
    """Exports the trace of each run to OpenTelemetry when the run ends, without the texts of messages.

    Args:
        provider: the tracer provider; by default the global one.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer: Tracer = otel.get_tracer("ragkit", tracer_provider=provider)

    def on_agent_end(self, event: events.RunEnded) -> None:
        """Export the trace of a run that ended."""
        self._export(event.result, None)

    def on_error(self, event: events.RunFailed) -> None:
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
