"""The state of one run. Everything that changes while an agent works is here, and nothing of it is shared."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragkit.agent.cancel import Cancellation
from ragkit.agent.config import AgentConfig
from ragkit.agent.memory import ConversationMemory
from ragkit.agent.messages import Message, Role
from ragkit.agent.observers import Watch
from ragkit.agent.prompt import mark_as_data
from ragkit.agent.providers.base import Request
from ragkit.agent.result import AgentResult, PendingCall, SuspendedRun, ToolOutcome
from ragkit.agent.spec import AgentSpec
from ragkit.agent.trace import AgentTrace
from ragkit.errors import Cancelled, RagkitError
from ragkit.records import JSON
from ragkit.usage.limits import Limits
from ragkit.usage.meter import Meter


@dataclass(frozen=True, slots=True)
class Start:
    """How a run begins, beside what the user says."""

    context: Mapping[str, JSON] = field(default_factory=dict)
    """The caller's data; the run works on a deep copy."""
    state: Mapping[str, JSON] = field(default_factory=dict)
    """What tools kept from earlier turns."""
    history: Sequence[Message] = ()
    """Messages from before this run, when no memory holds them."""
    memory: ConversationMemory | None = None
    cancel: Cancellation | None = None
    team: Mapping[str, AgentSpec] = field(default_factory=dict)
    """Agents that handoffs may name."""
    live: bool = False
    """Whether pieces of text are wanted as they come: a streamed run, without the response cache."""


class Run:
    """One run of an agent: its conversation, meter, trace and place in the loop."""

    def __init__(self, agent: AgentSpec, messages: Sequence[Message], start: Start) -> None:
        self.id = os.urandom(16).hex()
        self.agent = agent
        self.config: AgentConfig = agent.config
        """The settings of the agent that is working now."""
        self.team = start.team
        self.given = tuple(messages)
        self.messages: list[Message] = list(start.history)
        self.first_new = len(self.messages)
        self.memory = start.memory if start.memory is not None else agent.memory
        self.cancel = start.cancel
        self.live = start.live
        self.watch = Watch.of(agent.config.observers, agent.config.hooks)
        """Who is told of events: the observers of every agent that has worked in this run."""
        self.heard = start.live or self.watch.anyone
        """Whether anybody hears of events; if not, the frequent ones are left out."""
        self.ended: AgentResult | None = None
        """What the run gave back, when it is over."""
        self.context: dict[str, JSON] = copy.deepcopy(dict(start.context)) if start.context else {}
        self.state: dict[str, JSON] = copy.deepcopy(dict(start.state)) if start.state else {}
        self.limits: Limits = agent.config.limits
        self.meter = Meter(agent.config.prices, on_call=agent.config.on_call)
        self.trace = AgentTrace(self.id, agent.name)
        self.iteration = 0
        self.outcomes: list[ToolOutcome] = []
        self.reasons: list[str] = []
        self.warned: set[str] = set()
        self.repaired = False
        self.parsed: object = None
        self.resumed: SuspendedRun | None = None
        self.pending: tuple[PendingCall, ...] = ()
        self.decisions: dict[str, bool] = {}
        self._began = time.monotonic()

    @staticmethod
    def resume(agent: AgentSpec, suspended: SuspendedRun, start: Start) -> Run:
        """A run that goes on where a suspended one stopped."""
        started = replace(start, context={**suspended.context, **start.context}, state=suspended.state)
        run = Run(agent, (), started)
        run.id = run.trace.id = suspended.run_id
        run.messages = list(suspended.messages)
        run.first_new, run.iteration = suspended.first_new, suspended.iteration
        run.meter.restore(suspended.usage)
        run.resumed = suspended
        return run

    def hand_over(self, agent: AgentSpec) -> None:
        """Let another agent go on. Its observers hear from here on, beside those who heard so far."""
        self.agent, self.config = agent, agent.config
        self.watch = self.watch.joined(Watch.of(agent.config.observers, agent.config.hooks))
        self.heard = self.live or self.watch.anyone

    @property
    def question(self) -> str:
        """What the user said last."""
        said = (one.content for one in reversed(self.messages) if one.role is Role.USER)
        return next(said, "")

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return time.monotonic() - self._began

    def check(self) -> None:
        """Raises Cancelled or BudgetExceeded when the run must not go on."""
        if self.cancel is not None and self.cancel.cancelled:
            raise Cancelled("the run was cancelled")
        if self.limits.any:
            self.limits.check(self.meter, self.seconds)
        else:
            self.meter.check()

    def within(self, timeout_s: float | None) -> float | None:
        """The timeout, or what is left of the run's own time if that is less."""
        if self.limits.max_seconds is None:
            return timeout_s
        left = max(0.0, self.limits.max_seconds - self.seconds)
        return left if timeout_s is None else min(timeout_s, left)

    def request(self) -> Request:
        """What the model is asked now."""
        agent = self.agent
        messages = map(_marked, self.messages) if agent.config.screening.mark else self.messages
        model = agent.config.model or agent.provider.default_model
        return Request(model, (*agent.system_message, *messages), agent.offered, agent.settings)

    def result(
        self, stop_reason: str = "stop", content: str = "", *, suspended: SuspendedRun | None = None
    ) -> AgentResult:
        """What the run has so far."""
        return AgentResult(
            content=content,
            trace=self.trace,
            reasoning="\n\n".join(self.reasons),
            usage=self.meter.usage(),
            iterations=self.iteration,
            tool_calls=tuple(self.outcomes),
            messages=tuple(self.messages),
            parsed=self.parsed,
            stop_reason=stop_reason,
            run_id=self.id,
            agent_name=self.agent.name,
            first_new=self.first_new,
            context=self.context,
            state=self.state,
            suspended=suspended,
        )

    def suspend(self) -> AgentResult:
        """What the run has so far, with what is needed to go on in another process."""
        suspended = SuspendedRun(
            self.id,
            self.agent.name,
            tuple(self.messages),
            self.first_new,
            self.iteration,
            self.pending,
            self.meter.usage(),
            self.context,
            self.state,
            self.decisions,
        )
        return self.result("approval", suspended=suspended)


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """The turn ended with an answer."""

    content: str
    stop_reason: str = "stop"
    label = "final_answer"


@dataclass(frozen=True, slots=True)
class RunAgain:
    """The model must be asked again, with what has been added to the conversation."""

    label = "run_again"


RUN_AGAIN = RunAgain()


@dataclass(frozen=True, slots=True)
class HandOff:
    """Another agent takes over."""

    target: AgentSpec
    reason: str
    label = "hand_off"


@dataclass(frozen=True, slots=True)
class Stopped:
    """The run ends without an answer: for a reason, or with an error that the caller gets."""

    reason: str
    error: RagkitError | None = None
    label = "stopped"


Outcome = FinalAnswer | RunAgain | HandOff | Stopped
"""How a turn ends: one of four, and nothing else."""


def _marked(message: Message) -> Message:
    if message.role is not Role.TOOL:
        return message
    text = mark_as_data(message.name, message.content)
    # not `replace`: this is done for every result in every request
    return Message(Role.TOOL, text, (), message.tool_call_id, message.name, message.is_error, data=message.data)
