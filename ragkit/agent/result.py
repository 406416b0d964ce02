"""The result of a run, and the state of a suspended run that awaits approval."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from ragkit.agent.memory.memory import parse_messages, to_conversation_json
from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.tracing.trace import AgentTrace
from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption
from ragkit.records import JSON
from ragkit.usage.meter import AgentUsage


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """A tool call and its outcome."""

    call: ToolCall
    content: str
    """The text for the model."""
    data: object = field(default=None, compare=False)
    """The object behind the text; in this process only."""
    error: Exception | None = None
    """Why the call failed; the run continued."""
    seconds: float = 0.0
    attempts: int = 0
    """How often the function was called; 0: not executed."""
    chunks: int = 0
    cached: bool = False
    """Whether it is the kept result of an equal call, under `Tool.cache`."""
    fallback: str = ""
    """The tool that answered in place of the failed one, its `Tool.fallback`."""

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.call.name

    @property
    def arguments(self) -> Mapping[str, JSON]:
        """The arguments that the model sent."""
        return self.call.arguments


@dataclass(frozen=True, slots=True)
class PendingToolCall:
    """A tool call that awaits human approval."""

    call: ToolCall
    reason: str


@dataclass(frozen=True, slots=True)
class SuspendedRun:
    """A run that awaits human approval. Save it as JSON, decide, and pass it to `agent.run` in any process."""

    run_id: str
    agent_name: str
    messages: tuple[Message, ...]
    """The conversation; it ends with the pending tool calls."""
    new_messages_start: int
    """Index of the first message of this run."""
    iteration: int
    pending: tuple[PendingToolCall, ...]
    usage: AgentUsage
    context: Mapping[str, JSON] = field(default_factory=dict)
    state: Mapping[str, JSON] = field(default_factory=dict)
    decisions: Mapping[str, bool] = field(default_factory=dict)
    """Call id -> whether the call is approved."""

    def approve(self, *call_ids: str) -> SuspendedRun:
        """Approve these calls; without ids all pending ones."""
        return self._with_decisions(call_ids, True)

    def deny(self, *call_ids: str) -> SuspendedRun:
        """Reject these calls; without ids all pending ones. The model gets an error result."""
        return self._with_decisions(call_ids, False)

    def to_json(self) -> str:
        """Everything that is needed to resume."""
        return json.dumps(
            {
                "run_id": self.run_id,
                "agent_name": self.agent_name,
                "conversation": to_conversation_json(self.messages),
                "first_new": self.new_messages_start,
                "iteration": self.iteration,
                "pending": [{"call": call.call.to_dict(), "reason": call.reason} for call in self.pending],
                "usage": self.usage.to_dict(),
                "context": dict(self.context),
                "state": dict(self.state),
                "decisions": dict(self.decisions),
            },
            ensure_ascii=False,
        )

    @staticmethod
    def from_json(text: str) -> SuspendedRun:
        """The inverse of `to_json`. Raises InvalidOption for any other text."""
        try:
            data = json.loads(text)
            return SuspendedRun(
                str(data["run_id"]),
                str(data["agent_name"]),
                tuple(parse_messages(data["conversation"])),
                int(data["first_new"]),
                int(data["iteration"]),
                tuple(
                    PendingToolCall(ToolCall.from_dict(item["call"]), str(item["reason"])) for item in data["pending"]
                ),
                AgentUsage.from_dict(data["usage"]),
                dict(data["context"]),
                dict(data["state"]),
                {str(key): bool(value) for key, value in data["decisions"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidOption("a suspended run", text[:60], "the JSON of SuspendedRun.to_json") from error

    def _with_decisions(self, call_ids: Sequence[str], approved: bool) -> SuspendedRun:
        waiting = [call.call.id for call in self.pending]
        for call_id in call_ids:
            if call_id not in waiting:
                raise InvalidOption("the id of a call", call_id, f"one of {', '.join(waiting)}")
        return replace(self, decisions={**self.decisions, **dict.fromkeys(call_ids or waiting, approved)})


class RunContext(MutableMapping[str, JSON]):
    """The caller's data after a run, and the conversation: `AgentRunner.run(..., context=result.context)` continues it.

    `context | {"user": "anna"}` keeps the conversation. A plain dict of it would lose it, so that `dict(context)`,
    `{**context}` and `json.dumps(context)` raise a TypeError: use `data` or `to_json()`.

    Args:
        data: the caller's data.
        messages: the conversation.
        agent_name: the agent that answers next.
        state: the state of tools.
    """

    __slots__ = ("agent_name", "data", "messages", "state")

    def __init__(
        self,
        data: Mapping[str, JSON],
        messages: tuple[Message, ...] = (),
        agent_name: str = "",
        state: Mapping[str, JSON] | None = None,
    ) -> None:
        self.data: dict[str, JSON] = dict(data.items())
        self.messages, self.agent_name, self.state = messages, agent_name, state or {}

    def __getitem__(self, key: str) -> JSON:
        return self.data[key]

    def __setitem__(self, key: str, value: JSON) -> None:
        self.data[key] = value

    def __delitem__(self, key: str) -> None:
        del self.data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __or__(self, data: Mapping[str, JSON]) -> RunContext:
        return RunContext({**self.data, **dict(data.items())}, self.messages, self.agent_name, self.state)

    def __copy__(self) -> RunContext:
        return self | {}

    def __repr__(self) -> str:
        return f"RunContext({self.data!r}, {len(self.messages)} messages)"

    def keys(self) -> NoReturn:
        """Raises TypeError: `dict(context)` and `{**context}` ask for keys, and would lose the conversation."""
        raise TypeError(
            "a plain dict of a RunContext loses the conversation: use `context | {...}` to change its data, "
            "`context.data` for the data alone, `context.to_json()` to save both"
        )

    def to_dict(self) -> dict[str, JSON]:
        """The conversation and the data as a JSON object, in the format of `ConversationState`."""
        conversation = to_conversation_json(self.messages)
        return {**conversation, "current_agent": self.agent_name, "state": dict(self.state), "data": self.data}

    def to_json(self) -> str:
        """The conversation and the data as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class AgentResult:
    """The result of a run."""

    content: str
    """The final answer."""
    trace: AgentTrace = field(repr=False)
    reasoning: str
    """The model's reasoning, and its text before tool calls."""
    usage: AgentUsage
    iterations: int
    """Turns of the loop: requests to the model, repairs and a last answer without tools not counted."""
    tool_calls: tuple[ToolOutcome, ...]
    """Every tool call of the run with its outcome, in order; with `routing_only` the chosen calls."""
    messages: tuple[Message, ...]
    """The whole conversation, earlier messages included."""
    parsed: object = None
    """The answer as an object, with a `response_format`."""
    stop_reason: str = "stop"
    """`stop`, `length`, `content_filter`, `refusal`, `max_iterations`, `loop`, `routing_only`, `approval`, `error`, or
    the reason given by the service."""
    run_id: str = ""
    agent_name: str = ""
    """The agent that spoke last."""
    new_messages_start: int = 0
    """Index in `messages` of the first message of this run."""
    context: RunContext = field(default_factory=lambda: RunContext({}))
    """The caller's data after the run; it also holds the conversation."""
    state: Mapping[str, JSON] = field(default_factory=dict)
    """The state of tools between turns."""
    suspended: SuspendedRun | None = None
    """With the stop reason `approval`: the state to resume from."""

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
        """US dollars; None if a price is unknown."""
        return self.usage.total_cost_usd

    @property
    def tool_calls_made(self) -> int:
        """The number of tool calls."""
        return len(self.tool_calls)

    @property
    def conversation(self) -> list[dict[str, JSON]]:
        """`messages` as JSON objects."""
        return [message.to_dict() for message in self.messages]


def attach_partial_result(error: BaseException, result: AgentResult) -> None:
    """Attach the partial result of a run to its error."""
    error.__dict__["partial"] = result


@check_types()
def partial_result(error: BaseException) -> AgentResult | None:
    """The partial result of the run that failed with this error: messages, tool results, usage, trace; or None."""
    partial = getattr(error, "partial", None)
    return partial if isinstance(partial, AgentResult) else None
