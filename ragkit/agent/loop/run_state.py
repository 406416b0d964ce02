"""The state of one run: everything that changes during it. Nothing is shared between runs."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.loop.definition import AgentDefinition
from ragkit.agent.loop.memory_turn import MemoryTurn
from ragkit.agent.loop.paged_results import READ_TOOL, PagedResults
from ragkit.agent.loop.request_tokens import count_request_tokens
from ragkit.agent.memory.memory import ConversationMemory, drop_unpaired_calls
from ragkit.agent.messages import Message, Role
from ragkit.agent.observers import ObserverDispatcher
from ragkit.agent.prompt import mark_as_data, merge_opening_results
from ragkit.agent.providers.base import ModelRequest
from ragkit.agent.providers.stream_filter import StreamFilter
from ragkit.agent.result import AgentResult, PendingToolCall, RunContext, SuspendedRun, ToolOutcome
from ragkit.agent.runtime.cancellation import Cancellation
from ragkit.agent.tools.base import KeptResults
from ragkit.agent.tracing.trace import AgentTrace, TraceContent
from ragkit.errors import ContextTooLong, ProviderError, RagkitError, RunCancelled, ToolsNotSupported
from ragkit.records import JSON
from ragkit.usage.limits import Limits
from ragkit.usage.meter import AgentUsage, Meter

# Says nothing of what the model cannot do: small ones then say that they cannot answer.
_LAST_ANSWER_MESSAGE = Message.user("Answer my question now with the results of the tools; say what they do not tell.")


def _results_as_text(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages without calls, which a small model would go on writing, and with the results as one of the user."""
    asked = max((i for i, message in enumerate(messages) if message.role in (Role.USER, Role.SYSTEM)), default=-1)
    results = [message for message in messages[asked + 1 :] if message.role is Role.TOOL]
    results = [message for message in results if not message.is_error] or results
    return (*messages[: asked + 1], Message.user("\n\n".join(dict.fromkeys(message.content for message in results))))


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run, besides its input."""

    context: Mapping[str, JSON] = field(default_factory=dict)
    """The caller's data; the run works on a deep copy."""
    state: Mapping[str, JSON] = field(default_factory=dict)
    """The state of tools from earlier turns."""
    history: Sequence[Message] = ()
    """Earlier messages, if there is no memory."""
    memory: ConversationMemory | None = None
    cancel: Cancellation | None = None
    agents: Mapping[str, AgentDefinition] = field(default_factory=dict)
    """Agents that handoffs may name, by name."""
    streaming: bool = False
    """Whether to stream text chunks; streamed runs skip the response cache."""
    retry_after_text: bool = False
    """Whether a request that fails after text was streamed is sent again; see `Agent.stream`."""


class RunState:
    """One run of an agent: its conversation, meter, trace and place in the loop."""

    def __init__(self, agent: AgentDefinition, messages: Sequence[Message], start: RunOptions) -> None:
        self.id = os.urandom(16).hex()
        self.agent = agent
        self.system_message: tuple[Message, ...] = agent.system_message
        self.config: AgentConfig = agent.config
        """The settings of the current agent."""
        self.agents = start.agents
        self.input_messages = tuple(messages)
        self.messages: list[Message] = list(start.history)
        self.new_messages_start = len(self.messages)
        self.memory = start.memory if start.memory is not None else agent.memory
        self.cancel = start.cancel
        self.streaming = start.streaming
        self.memory_turn = MemoryTurn()
        self.retry_after_text = start.retry_after_text
        self.stream_filter: StreamFilter
        """Of the current attempt, in a streamed run."""
        self.has_streamed_text = False
        """Whether the current attempt has emitted text."""
        self.observers = ObserverDispatcher.from_config(agent.config.observers, agent.config.hooks)
        """The observers of every agent that has been active in this run."""
        self.has_listeners = start.streaming or self.observers.has_observers
        """Whether events are received; if not, the frequent ones are not created."""
        self.final_result: AgentResult | None = None
        """The result, after the end of the run."""
        self.context: dict[str, JSON] = copy.deepcopy(dict(start.context.items())) if start.context else {}
        self.state: dict[str, JSON] = copy.deepcopy(dict(start.state)) if start.state else {}
        if not isinstance(agent.instructions, str):
            self.system_message = agent.create_system_message(self.context)
        self.limits: Limits = agent.config.limits
        self.has_limits = self.limits.is_set
        self.meter: Meter = agent.create_meter()
        self.trace = AgentTrace(self.id, agent.name)
        self.kept_results: dict[int, KeptResults] = {}
        """The results of tools with a cache for one run, by the tool's id."""
        self.paged_results: PagedResults | None = None
        """The long tool results of this run; None: there is none yet."""
        self.iteration = 0
        self.tool_outcomes: list[ToolOutcome] = []
        self.reasoning_parts: list[str] = []
        self.warned_limits: set[tuple[str, float]] = set()
        self.repairs = 0
        """Repair requests so far."""
        self.tools_are_closed = False
        """Whether the model is asked for its last answer, without tools."""
        self.parsed: object = None
        self.resumed_from: SuspendedRun | None = None
        self.pending: tuple[PendingToolCall, ...] = ()
        self.decisions: dict[str, bool] = {}
        self._resumed_messages = 0
        self._started_at = time.monotonic()

    @staticmethod
    def resume(agent: AgentDefinition, suspended: SuspendedRun, start: RunOptions) -> RunState:
        """Resume a suspended run."""
        started = replace(start, context={**suspended.context, **dict(start.context.items())}, state=suspended.state)
        run = RunState(agent, (), started)
        run.id = run.trace.id = suspended.run_id
        run.messages = list(suspended.messages)
        run._resumed_messages = len(run.messages)
        run.new_messages_start, run.iteration = suspended.new_messages_start, suspended.iteration
        run.meter.restore(suspended.usage)
        run.resumed_from = suspended
        return run

    def switch_agent(self, agent: AgentDefinition) -> None:
        """Continue with another agent. Its observers are added to the present ones."""
        self.agent, self.config = agent, agent.config
        self.system_message = agent.create_system_message(self.context)
        added = ObserverDispatcher.from_config(agent.config.observers, agent.config.hooks)
        self.observers = self.observers.merge(added)
        self.has_listeners = self.streaming or self.observers.has_observers

    @property
    def last_user_text(self) -> str:
        """The last user message."""
        return next((message.content for message in reversed(self.messages) if message.role is Role.USER), "")

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run started."""
        return time.monotonic() - self._started_at

    def raise_if_stopped(self) -> None:
        """Raises RunCancelled or BudgetExceeded if the run must stop."""
        if self.cancel is not None and self.cancel.cancelled:
            raise RunCancelled("the run was cancelled")
        if self.has_limits:
            self.limits.check(self.meter, self.elapsed_s)
        else:
            self.meter.check_budget()

    def cap_timeout(self, timeout_s: float | None) -> float | None:
        """The smaller of the timeout and the remaining time of the run."""
        if self.limits.max_seconds is None:
            return timeout_s
        left = max(0.0, self.limits.max_seconds - self.elapsed_s)
        return left if timeout_s is None else min(timeout_s, left)

    def page_result(self, text: str, chars: int) -> str:
        """The first page of a long tool result of `chars` characters; the model can read the others."""
        limit = self.config.max_tool_output_chars
        if READ_TOOL in self.agent.registry:  # the user's own tool has this name
            return f"{text[:limit]}\n[cut off: {chars} characters, the first {limit} are shown]"
        if self.paged_results is None:
            self.paged_results = PagedResults(limit)
        return self.paged_results.add(text, chars)

    def add_input(self, messages: Sequence[Message]) -> None:
        """Add the input to the conversation, which then has no calls without results, and no results without calls."""
        history = len(self.messages)
        self.messages += messages
        if len(self.messages) > 1 and any(m.role is Role.TOOL or m.tool_calls for m in self.messages):
            paired = drop_unpaired_calls(self.messages)
            if len(paired) < len(self.messages):
                self.new_messages_start = len(drop_unpaired_calls(self.messages[:history]))
            self.messages = paired

    def build_request(self) -> ModelRequest:
        """The next request to the model."""
        agent = self.agent
        model = agent.config.model or agent.provider.default_model
        knows_tools = model not in agent.provider.models_without_tools
        tools, settings = agent.available_tools if knows_tools else (), agent.model_settings
        if self.paged_results is not None and knows_tools:
            tools = (*tools, self.paged_results.tool)
        messages: Iterable[Message] = self.messages
        if agent.config.context_window is not None:
            fixed = ModelRequest(model, self.system_message, tools, settings)
            messages, settings = agent.config.context_window.fit(
                fixed, self.messages, agent.provider, agent.config.prices
            )
        if agent.config.screening.mark_as_data:
            messages = map(_mark_tool_result, messages)
        messages = (*self.system_message, *merge_opening_results(messages))
        if self.tools_are_closed and agent.provider.writes_calls:
            messages = _results_as_text(messages)
        if self.tools_are_closed:
            return ModelRequest(model, (*messages, _LAST_ANSWER_MESSAGE), (), settings, tools)
        return ModelRequest(model, messages, tools, settings)

    def reduce_request(self, request: ModelRequest, error: ProviderError) -> ModelRequest | None:
        """A request with less in it after the service refused one with tools, or one that is too long; None: none."""
        if request.tools and isinstance(error, ToolsNotSupported):
            self.learn_no_tools(request.model)
            return replace(request, tools=(), closed_tools=())
        return self._shorten_request(request, error)

    def learn_no_tools(self, model: str) -> None:
        """Send the model no tools from now on, in this run and in later ones with this provider."""
        provider = self.agent.provider
        provider.models_without_tools = provider.models_without_tools | {model}

    def _shorten_request(self, request: ModelRequest, error: ProviderError) -> ModelRequest | None:
        """A shorter request after the service found `request` too long; None if there is none."""
        window, provider = self.agent.config.context_window, self.agent.provider
        if window is None or not isinstance(error, ContextTooLong) or self.has_streamed_text:
            return None
        window.learn(request, provider, error)
        shorter = self.build_request()
        native = provider.native_tools
        if _count_all_tokens(shorter, native) >= _count_all_tokens(request, native):
            return None
        return replace(shorter, failed_in_chain=request.failed_in_chain)

    def build_result(
        self, stop_reason: str = "stop", content: str = "", *, suspended: SuspendedRun | None = None
    ) -> AgentResult:
        """The result so far."""
        usage, calls, messages = self.meter.usage(), tuple(self.tool_outcomes), tuple(self.messages)
        self.trace.content = self._build_trace_content(usage, calls, messages)
        return AgentResult(
            content=content,
            trace=self.trace,
            reasoning="\n\n".join(self.reasoning_parts),
            usage=usage,
            iterations=self.iteration,
            tool_calls=calls,
            messages=messages,
            parsed=self.parsed,
            stop_reason=stop_reason,
            run_id=self.id,
            agent_name=self.agent.name,
            new_messages_start=self.new_messages_start,
            context=RunContext(self.context, messages, self.agent.name, self.state),
            state=self.state,
            suspended=suspended,
        )

    def _build_trace_content(
        self, usage: AgentUsage, calls: tuple[ToolOutcome, ...], messages: tuple[Message, ...]
    ) -> TraceContent:
        config, start = self.config, self.new_messages_start
        settings: dict[str, JSON] = {
            "model": config.model or self.agent.provider.default_model,
            "max_tokens": config.max_tokens,
            "temperature": config.temperature,
            "top_p": config.top_p,
        }
        resumed = max(0, self._resumed_messages - start)
        return TraceContent(messages[start:], resumed, calls, settings, usage.total_tokens, usage.total_cost_usd)

    def add_usage(self, result: AgentResult) -> AgentResult:
        """The result with the usage up to now, also in its trace."""
        usage = self.meter.usage()
        self.trace.content = replace(
            self.trace.content, total_tokens=usage.total_tokens, total_cost_usd=usage.total_cost_usd
        )
        return replace(result, usage=usage)

    def suspend(self) -> AgentResult:
        """The result so far, with the state to resume the run in another process."""
        suspended = SuspendedRun(
            self.id,
            self.agent.name,
            tuple(self.messages),
            self.new_messages_start,
            self.iteration,
            self.pending,
            self.meter.usage(),
            self.context,
            self.state,
            self.decisions,
        )
        return self.build_result("approval", suspended=suspended)


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """The turn ended with an answer."""

    content: str
    stop_reason: str = "stop"
    label = "final_answer"


@dataclass(frozen=True, slots=True)
class RunAgain:
    """The loop continues with another request to the model."""

    label = "run_again"


RUN_AGAIN = RunAgain()


@dataclass(frozen=True, slots=True)
class Handoff:
    """Another agent takes over."""

    target: AgentDefinition
    reason: str
    label = "hand_off"


@dataclass(frozen=True, slots=True)
class Stopped:
    """The run ends without an answer, for a reason or with an error that is raised to the caller."""

    reason: str
    error: RagkitError | None = None
    label = "stopped"


TurnOutcome = FinalAnswer | RunAgain | Handoff | Stopped
"""How a turn ends."""


def _count_all_tokens(request: ModelRequest, native_tools: bool) -> int:
    """Estimated tokens of a request and its answer."""
    return count_request_tokens(request, native_tools=native_tools) + request.settings.max_tokens


def _mark_tool_result(message: Message) -> Message:
    if message.role is not Role.TOOL or not message.content:
        return message
    text = mark_as_data(message.name, message.content)
    # not `replace`, which is slow: this runs for every result in every request
    return Message(Role.TOOL, text, (), message.tool_call_id, message.name, message.is_error, data=message.data)
