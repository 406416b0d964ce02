"""The trace of a run: a tree of spans with start, end and attributes.

The root is the run; below it the turns of the loop, below these the eleven steps in their order, and below
the step that executes tools the tools.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ragkit.agent.messages import json_objects
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


class AgentTrace:
    """The spans of one run. It does not change after the run."""

    def __init__(self, trace_id: str, name: str) -> None:
        self.id = trace_id
        """The id of the run."""
        self.started_at = time.time()
        """Unix time, seconds."""
        self._clock_start = time.perf_counter()
        self.root = TraceSpan(StepType.RUN, name, 0.0)
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

    def to_dict(self) -> dict[str, JSON]:
        """The whole trace as JSON; `from_dict` parses it."""
        return {"id": self.id, "started_at": self.started_at, "root": self.root.to_dict()}

    @staticmethod
    def from_dict(data: Mapping[str, JSON]) -> AgentTrace:
        """The inverse of `to_dict`."""
        trace = AgentTrace(str(data["id"]), "")
        trace.started_at = _to_float(data.get("started_at"))
        root = data["root"]
        if isinstance(root, Mapping):
            trace.root = TraceSpan.from_dict(root)
        trace._open_spans = []
        return trace


def _to_float(value: JSON) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
