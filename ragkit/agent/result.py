"""What a run gives back: the result, and for a run that waits for a person's word what it needs to go on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragkit.agent.memory import parse_messages, serialize_messages
from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.trace import AgentTrace
from ragkit.errors import InvalidOption
from ragkit.records import JSON
from ragkit.usage.meter import AgentUsage


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A tool call and what became of it."""

    call: ToolCall
    content: str
    """What the model saw."""
    data: object = field(default=None, compare=False)
    """The object behind it, in this process only."""
    error: Exception | None = None
    """Why there is no result; the run went on."""
    seconds: float = 0.0
    attempts: int = 0
    """How often the function was called; 0: it was not executed."""
    chunks: int = 0

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.call.name

    @property
    def arguments(self) -> Mapping[str, JSON]:
        """What the model sent."""
        return self.call.arguments


@dataclass(frozen=True, slots=True)
class PendingToolCall:
    """A tool call that waits for a person's word."""

    call: ToolCall
    reason: str


@dataclass(frozen=True, slots=True)
class SuspendedRun:
    """A run that waits for a person's word. Save it as JSON, decide, and hand it to `agent.run` in any process."""

    run_id: str
    agent_name: str
    messages: tuple[Message, ...]
    """The conversation; it ends with the tool calls that are waiting."""
    new_messages_start: int
    """Index of the first message of this run."""
    iteration: int
    pending: tuple[PendingToolCall, ...]
    usage: AgentUsage
    context: Mapping[str, JSON] = field(default_factory=dict)
    state: Mapping[str, JSON] = field(default_factory=dict)
    decisions: Mapping[str, bool] = field(default_factory=dict)
    """By id of the call: whether it may be executed."""

    def approve(self, *call_ids: str) -> SuspendedRun:
        """Let these calls pass; without ids all that are waiting."""
        return self._with_decisions(call_ids, True)

    def deny(self, *call_ids: str) -> SuspendedRun:
        """Refuse these calls; without ids all that are waiting. The model is told."""
        return self._with_decisions(call_ids, False)

    def to_json(self) -> str:
        """Everything that is needed to go on."""
        return json.dumps(
            {
                "run_id": self.run_id,
                "agent_name": self.agent_name,
                "conversation": json.loads(serialize_messages(self.messages)),
                "first_new": self.new_messages_start,
                "iteration": self.iteration,
                "pending": [{"call": one.call.to_dict(), "reason": one.reason} for one in self.pending],
                "usage": self.usage.to_dict(),
                "context": dict(self.context),
                "state": dict(self.state),
                "decisions": dict(self.decisions),
            },
            ensure_ascii=False,
        )

    @staticmethod
    def from_json(text: str) -> SuspendedRun:
        """The inverse of `to_json`. Raises InvalidOption when `text` is something else."""
        try:
            data = json.loads(text)
            return SuspendedRun(
                str(data["run_id"]),
                str(data["agent_name"]),
                tuple(parse_messages(data["conversation"])),
                int(data["first_new"]),
                int(data["iteration"]),
                tuple(PendingToolCall(ToolCall.from_dict(one["call"]), str(one["reason"])) for one in data["pending"]),
                AgentUsage.from_dict(data["usage"]),
                dict(data["context"]),
                dict(data["state"]),
                {str(key): bool(value) for key, value in data["decisions"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidOption("a suspended run", text[:60], "JSON that SuspendedRun.to_json wrote") from error

    def _with_decisions(self, call_ids: Sequence[str], may: bool) -> SuspendedRun:
        waiting = [one.call.id for one in self.pending]
        for call_id in call_ids:
            if call_id not in waiting:
                raise InvalidOption("the id of a call", call_id, f"one of {', '.join(waiting)}")
        return replace(self, decisions={**self.decisions, **dict.fromkeys(call_ids or waiting, may)})


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What a run gives back."""

    content: str
    """The final answer."""
    trace: AgentTrace = field(repr=False)
    reasoning: str
    """What the model said or thought before it called tools and before it answered; empty where it said nothing."""
    usage: AgentUsage
    iterations: int
    """Requests to the model, those for repairs included."""
    tool_calls: tuple[ToolOutcome, ...]
    """Every tool call of the run and what became of it, in order; with `routing_only` those that were chosen."""
    messages: tuple[Message, ...]
    """The whole conversation, what was there before this run included."""
    parsed: object = None
    """The answer as an object, where a form was asked for."""
    stop_reason: str = "stop"
    """`stop`, `length`, `max_iterations`, `routing_only`, `approval`, `error`, or what the service said."""
    run_id: str = ""
    agent_name: str = ""
    """Who spoke last."""
    new_messages_start: int = 0
    """Index in `messages` of the first message of this run."""
    context: Mapping[str, JSON] = field(default_factory=dict)
    """The caller's data as tools left it."""
    state: Mapping[str, JSON] = field(default_factory=dict)
    """What tools keep from turn to turn."""
    suspended: SuspendedRun | None = None
    """With the stop reason `approval`: what is needed to go on."""

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """The messages of this run, the user's included."""
        return self.messages[self.new_messages_start :]

    @property
    def response(self) -> str:
        """The same as `content`."""
        return self.content

    @property
    def total_cost(self) -> float | None:
        """US dollars; None when a price is unknown."""
        return self.usage.total_cost_usd

    @property
    def tool_calls_made(self) -> int:
        """How many tool calls there were."""
        return len(self.tool_calls)

    @property
    def conversation(self) -> list[dict[str, JSON]]:
        """`messages` as JSON objects."""
        return [message.to_dict() for message in self.messages]


def attach_partial_result(error: BaseException, result: AgentResult) -> None:
    """Let an error carry what the run had when it failed."""
    error.__dict__["partial"] = result


def partial_result(error: BaseException) -> AgentResult | None:
    """What a run had when it failed with this error: messages, tool results, usage, trace. None: nothing."""
    found = getattr(error, "partial", None)
    return found if isinstance(found, AgentResult) else None
