"""The trace of a run: a tree of spans with start, end and attributes.

The root is the run; below it the turns of the loop, below these the eleven steps in their order, and below
the step that executes tools the tools. Beside the spans, a trace has what was said and called, and the settings.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol

from ragkit.agent.messages import BY_RAGKIT, Message, Role, ToolCall, json_objects
from ragkit.agent.tracing.trace_format import format_html, format_tree
from ragkit.records import JSON


class StepType(StrEnum):
    """The type of a span. The first eleven are the steps of a turn, in order."""

    INPUT_GUARDRAILS = "input_guardrails"
    MEMORY = "memory"
    CACHE = "cache"
    LLM_CALL = "llm_call"
    OUTPUT_GUARDRAILS = "output_guardrails"
    PARSE = "parse"
    POLICY = "policy"
    COHERENCE = "coherence"
    TOOL_EXECUTION = "tool_execution"
    RECORD = "record"
    OUTCOME = "outcome"
    RUN = "run"
    ITERATION = "iteration"
    TOOL = "tool"
    RETRY = "retry"
    HANDOFF = "handoff"
    REPAIR = "repair"
    COMPOSE = "compose"
    """An answer is composed of quotes, without a model."""
    LOOP = "loop"
    ERROR = "error"


TURN_STEPS = tuple(StepType)[:11]
"""The steps of a turn, in order."""


@dataclass(slots=True)
class TraceSpan:
    """A timed step of a run."""

    type: StepType
    name: str
    started: float
    """Seconds since the run began."""
    ended: float = 0.0
    """Seconds since the run began."""
    attributes: dict[str, JSON] = field(default_factory=dict)
    children: list[TraceSpan] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.ended - self.started

    def walk(self) -> Iterator[TraceSpan]:
        """This span and its descendants, depth first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def to_dict(self) -> dict[str, JSON]:
        """The span and its descendants as JSON."""
        return {
            "type": self.type.value,
            "name": str(self.name),
            "started": self.started,
            "ended": self.ended,
            "attributes": self.attributes,
            "children": [child.to_dict() for child in self.children],
        }

    @staticmethod
    def from_dict(data: Mapping[str, JSON]) -> TraceSpan:
        """The inverse of `to_dict`."""
        attributes = data.get("attributes")
        return TraceSpan(
            StepType(str(data["type"])),
            str(data["name"]),
            _to_float(data.get("started")),
            _to_float(data.get("ended")),
            dict(attributes) if isinstance(attributes, Mapping) else {},
            [TraceSpan.from_dict(child) for child in json_objects(data.get("children"))],
        )


class TracedToolCall(Protocol):
    """What a trace needs of a tool call and its outcome."""

    @property
    def call(self) -> ToolCall:
        """The call."""

    @property
    def content(self) -> str:
        """The text for the model."""

    @property
    def error(self) -> Exception | None:
        """Why it failed."""

    @property
    def seconds(self) -> float:
        """Its duration."""


@dataclass(frozen=True, slots=True)
class TraceContent:
    """What was said and called in a run."""

    messages: Sequence[Message] = ()
    """The messages of the run."""
    resumed_messages: int = 0
    """How many of them are from the part of the run before it was suspended."""
    tool_calls: Sequence[TracedToolCall] = ()
    config: Mapping[str, JSON] = field(default_factory=dict)
    total_tokens: int = 0
    total_cost_usd: float | None = 0.0
    """None: a price is unknown."""


_NO_CONTENT = TraceContent()
MAX_RESULT_CHARS = 1000
"""Longer tool results are truncated in `tool_calls`; `turns` has them in full."""


class AgentTrace:
    """The spans of one run. It does not change after the run."""

    def __init__(self, trace_id: str, name: str) -> None:
        self.id = trace_id
        """The id of the run."""
        self.started_at = time.time()
        """Unix time, seconds."""
        self._clock_start = time.perf_counter()
        self.root = TraceSpan(StepType.RUN, name, 0.0)
        self.content = _NO_CONTENT
        """What was said and called."""
        self._saved: Mapping[str, JSON] | None = None
        self._open_spans = [self.root]

    def elapsed_s(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self._clock_start

    @property
    def steps(self) -> list[TraceSpan]:
        """The timeline: every span except those of the run and of turns, in order."""
        outer = (StepType.RUN, StepType.ITERATION)
        return [span for span in self.root.walk() if span.type not in outer]

    @property
    def seconds(self) -> float:
        """Duration of the run in seconds."""
        return self.root.seconds

    def find_spans(self, step: StepType) -> list[TraceSpan]:
        """Every span of one type, in order."""
        return [span for span in self.root.walk() if span.type is step]

    def start_span(self, step: StepType, name: str = "") -> TraceSpan:
        """Start a span below the innermost open one."""
        span = TraceSpan(step, name or step, time.perf_counter() - self._clock_start, 0.0, {}, [])
        self._open_spans[-1].children.append(span)
        self._open_spans.append(span)
        return span

    def end_span(self, span: TraceSpan) -> None:
        """End a span and its open descendants."""
        now = time.perf_counter() - self._clock_start
        while self._open_spans:
            last = self._open_spans.pop()
            last.ended = now
            if last is span:
                return

    def add_span(self, step: StepType, name: str = "", attributes: dict[str, JSON] | None = None) -> TraceSpan:
        """Add a span without duration. It keeps the dictionary `attributes`."""
        now = time.perf_counter() - self._clock_start
        span = TraceSpan(step, name or step, now, now, attributes or {}, [])
        self._open_spans[-1].children.append(span)
        return span

    @property
    def trace_id(self) -> str:
        """The same as `id`."""
        return self.id

    @property
    def completed_at(self) -> float:
        """Unix time, seconds."""
        return self.started_at + self.root.ended

    @property
    def turns(self) -> list[dict[str, JSON]]:
        """The messages: `role`, `content`, `timestamp`, and `tool_calls` of a model or `tool_call_id` of a result."""
        if self._saved is not None:
            return [dict(turn) for turn in json_objects(self._saved.get("turns"))]
        return list(_describe_turns(self))

    @property
    def tool_calls(self) -> list[dict[str, JSON]]:
        """The calls: `id`, `name`, `arguments`, `result`, `full_result_length`, `duration_ms`, `timestamp`, `error`."""
        if self._saved is not None:
            return [dict(call) for call in json_objects(self._saved.get("tool_calls"))]
        starts = _ToolTimes(self)
        return [_describe_call(outcome, starts.next_start(outcome.call.id)) for outcome in self.content.tool_calls]

    @property
    def config(self) -> dict[str, JSON]:
        """The settings of the model: `model`, `max_tokens`, `temperature`, `top_p`."""
        return dict(self.content.config)

    @property
    def total_tokens(self) -> int:
        """Tokens sent, received and embedded."""
        return self.content.total_tokens

    @property
    def total_cost_usd(self) -> float | None:
        """US dollars; None if a price is unknown."""
        return self.content.total_cost_usd

    def to_dict(self) -> dict[str, JSON]:
        """The whole trace as JSON; `from_dict` parses it. Times are Unix seconds, timestamps ISO 8601."""
        return {
            "id": self.id,
            "trace_id": self.id,
            "started_at": self.started_at,
            "completed_at": self.completed_at,
            "config": self.config,
            "total_tokens": self.total_tokens,
            "total_cost_usd": self.total_cost_usd,
            "turns": list(self.turns),
            "tool_calls": list(self.tool_calls),
            "root": self.root.to_dict(),
        }

    def to_json(self) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, default=dict)

    def to_html(self) -> str:
        """The trace as an HTML page in one file, without scripts: a timeline, the tool calls, the messages."""
        return format_html(json.loads(self.to_json()))

    def __str__(self) -> str:
        """The spans as a tree, one line each: duration, tokens, US dollars, tool calls."""
        return format_tree(json.loads(self.to_json()))

    @staticmethod
    def from_dict(data: Mapping[str, JSON]) -> AgentTrace:
        """The inverse of `to_dict`."""
        trace = AgentTrace(str(data["id"]), "")
        trace.started_at = _to_float(data.get("started_at"))
        root = data["root"]
        if isinstance(root, Mapping):
            trace.root = TraceSpan.from_dict(root)
        config, cost = data.get("config"), data.get("total_cost_usd")
        trace.content = TraceContent(
            config=config if isinstance(config, Mapping) else {},
            total_tokens=int(_to_float(data.get("total_tokens"))),
            total_cost_usd=None if cost is None else _to_float(cost),
        )
        trace._saved, trace._open_spans = data, []
        return trace


class _ToolTimes:
    """When each tool call ran: ids may be used again in later turns."""

    def __init__(self, trace: AgentTrace) -> None:
        self._trace = trace
        self._spans: dict[JSON, deque[TraceSpan]] = {}
        for span in trace.find_spans(StepType.TOOL):
            self._spans.setdefault(span.attributes.get("call_id"), deque()).append(span)

    def next_start(self, call_id: str) -> str:
        """When the next call with this id started; the start of the run for a call that was not executed."""
        spans = self._spans.get(call_id)
        return _to_timestamp(self._trace.started_at + (spans.popleft().started if spans else 0.0))

    def next_end(self, call_id: str) -> float | None:
        """Seconds from the start of the run to the end of the next call with this id; None: not executed."""
        spans = self._spans.get(call_id)
        return spans.popleft().ended if spans else None


def _describe_turns(trace: AgentTrace) -> Iterator[dict[str, JSON]]:
    answers = deque(span.ended for span in trace.find_spans(StepType.PARSE))
    ends, now = _ToolTimes(trace), 0.0
    for index, message in enumerate(trace.content.messages):
        turn: dict[str, JSON] = {"role": message.role.value, "content": message.content}
        if index >= trace.content.resumed_messages:
            if message.role is Role.ASSISTANT and not message.is_opening:
                now = answers.popleft() if answers else trace.root.ended
            elif message.role is Role.TOOL:
                now = max(now, ends.next_end(message.tool_call_id) or 0.0)
        if message.tool_calls:
            turn["tool_calls"] = [call.to_dict() for call in message.tool_calls]
        if message.role is Role.TOOL:
            turn["tool_call_id"] = message.tool_call_id
        yield {**turn, "timestamp": _to_timestamp(trace.started_at + now)}


def _describe_call(outcome: TracedToolCall, timestamp: str) -> dict[str, JSON]:
    text = outcome.content
    described: dict[str, JSON] = {
        "id": outcome.call.id,
        "name": outcome.call.name,
        "arguments": dict(outcome.call.arguments),
        "result": text if len(text) <= MAX_RESULT_CHARS else f"{text[:MAX_RESULT_CHARS]}…",
        "full_result_length": len(text),
        "duration_ms": round(outcome.seconds * 1000, 3),
        "timestamp": timestamp,
    }
    if outcome.call.by == BY_RAGKIT:
        described["by"] = BY_RAGKIT
    return described if outcome.error is None else {**described, "error": str(outcome.error)}


def _to_timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _to_float(value: JSON) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
