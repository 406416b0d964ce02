"""The trace of a run: a tree of spans, each with its start, end and attributes.

The root is the run; below it the turns of the loop, below these the eleven steps in their order, and below
the step that executes tools the tools.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from ragkit.records import JSON


class StepType(StrEnum):
    """What a span stands for. The first eleven are the steps of a turn, in their order."""

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
    ERROR = "error"


STEPS = tuple(StepType)[:11]
"""The steps of a turn, in their order."""


@dataclass(slots=True)
class Span:
    """A stretch of time in which one thing was done."""

    type: StepType
    name: str
    started: float
    """Seconds since the run began."""
    ended: float = 0.0
    """Seconds since the run began."""
    attributes: dict[str, JSON] = field(default_factory=dict)
    children: list[Span] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.started

    def walk(self) -> Iterator[Span]:
        """This span and all below it, depth first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def to_dict(self) -> dict[str, JSON]:
        """The span and all below it, as JSON."""
        return {
            "type": self.type.value,
            "name": str(self.name),
            "started": self.started,
            "ended": self.ended,
            "attributes": self.attributes,
            "children": [child.to_dict() for child in self.children],
        }

    @staticmethod
    def from_dict(data: Mapping[str, JSON]) -> Span:
        """The inverse of `to_dict`."""
        attributes, children = data.get("attributes"), data.get("children")
        return Span(
            StepType(str(data["type"])),
            str(data["name"]),
            _number(data.get("started")),
            _number(data.get("ended")),
            dict(attributes) if isinstance(attributes, Mapping) else {},
            [Span.from_dict(one) for one in children if isinstance(one, Mapping)]
            if isinstance(children, list | tuple)
            else [],
        )


class AgentTrace:
    """The spans of one run. It is written while the run goes on and left alone afterwards."""

    def __init__(self, trace_id: str, name: str) -> None:
        self.id = trace_id
        """The same as the run's id."""
        self.started_at = time.time()
        """Unix time, seconds."""
        self._zero = time.perf_counter()
        self.root = Span(StepType.RUN, name, 0.0)
        self._open = [self.root]

    def now(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self._zero

    @property
    def steps(self) -> list[Span]:
        """The timeline: every span but the run and the turns themselves, in order."""
        outer = (StepType.RUN, StepType.ITERATION)
        return [span for span in self.root.walk() if span.type not in outer]

    @property
    def seconds(self) -> float:
        """How long the run took."""
        return self.root.seconds

    def of_type(self, step: StepType) -> list[Span]:
        """Every span of one type, in order."""
        return [span for span in self.root.walk() if span.type is step]

    def open(self, step: StepType, name: str = "") -> Span:
        """Begin a span below the one that is open."""
        span = Span(step, name or step, time.perf_counter() - self._zero, 0.0, {}, [])
        self._open[-1].children.append(span)
        self._open.append(span)
        return span

    def close(self, span: Span) -> None:
        """End a span, and those below it that are still open."""
        now = time.perf_counter() - self._zero
        while self._open:
            last = self._open.pop()
            last.ended = now
            if last is span:
                return

    @contextmanager
    def span(self, step: StepType, name: str = "") -> Iterator[Span]:
        """A span for the time of a block."""
        span = self.open(step, name)
        try:
            yield span
        finally:
            self.close(span)

    def note(self, step: StepType, name: str = "", attributes: dict[str, JSON] | None = None) -> Span:
        """A span for a moment. It keeps the dictionary that it is given."""
        now = time.perf_counter() - self._zero
        span = Span(step, name or step, now, now, attributes or {}, [])
        self._open[-1].children.append(span)
        return span

    def to_dict(self) -> dict[str, JSON]:
        """The whole trace as JSON; `from_dict` reads it."""
        return {"id": self.id, "started_at": self.started_at, "root": self.root.to_dict()}

    @staticmethod
    def from_dict(data: Mapping[str, JSON]) -> AgentTrace:
        """The inverse of `to_dict`."""
        trace = AgentTrace(str(data["id"]), "")
        trace.started_at = _number(data.get("started_at"))
        root = data["root"]
        if isinstance(root, Mapping):
            trace.root = Span.from_dict(root)
        trace._open = []
        return trace


def _number(value: JSON) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
