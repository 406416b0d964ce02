"""Run conversations with a team of agents that hand over to each other.

`AgentRunner` is stateless; each turn is a run. The state of a conversation is a `ConversationState`, which can be
saved as JSON and continued in another process.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, field
from types import MappingProxyType

from ragkit.agent.agent import AgentInput, arun_to_completion, prepare_run, run_to_completion
from ragkit.agent.events import Event
from ragkit.agent.loop.async_driver import adrive
from ragkit.agent.loop.definition import AgentDefinition
from ragkit.agent.loop.run_state import RunOptions, RunState
from ragkit.agent.loop.sync_driver import drive
from ragkit.agent.memory.memory import FORMAT, parse_messages, to_conversation_json
from ragkit.agent.messages import Message, Role
from ragkit.agent.result import AgentResult, RunContext, SuspendedRun
from ragkit.agent.runtime.cancellation import Cancellation
from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption
from ragkit.records import JSON


@check_types()
@dataclass(frozen=True, slots=True)
class ConversationState:
    """A conversation between turns: everything that the next turn needs."""

    messages: tuple[Message, ...] = ()
    """The messages; each answer has the name of its agent."""
    current_agent: str = ""
    """The agent that answers next; empty: the runner's first agent."""
    state: Mapping[str, JSON] = field(default_factory=dict)
    """The state of tools."""
    data: Mapping[str, JSON] = field(default_factory=dict)
    """The caller's data."""

    @staticmethod
    def from_result(result: AgentResult) -> ConversationState:
        """The conversation after a run."""
        return ConversationState(result.messages, result.agent_name, result.state, result.context.data)

    def to_dict(self) -> dict[str, JSON]:
        """A JSON object; `from_dict` parses it."""
        return {
            **to_conversation_json(self.messages),
            "current_agent": self.current_agent,
            "state": dict(self.state),
            "data": dict(self.data),
        }

    def to_json(self) -> str:
        """The whole conversation as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @staticmethod
    def from_dict(data: Mapping[str, JSON]) -> ConversationState:
        """The inverse of `to_dict`. Raises InvalidOption."""
        state, context = data.get("state"), data.get("data")
        return ConversationState(
            tuple(parse_messages(data)),
            str(data.get("current_agent", "")),
            dict(state) if isinstance(state, Mapping) else {},
            dict(context) if isinstance(context, Mapping) else {},
        )

    @staticmethod
    def from_json(text: str) -> ConversationState:
        """The inverse of `to_json`. Raises InvalidOption."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidOption("a saved conversation", text[:60], "JSON") from error
        if not isinstance(data, dict):
            raise InvalidOption("a saved conversation", text[:60], "a JSON object")
        return ConversationState.from_dict(data)


RunnerContext = ConversationState | Mapping[str, JSON]
"""A conversation (also `result.context`), the JSON object that it was saved as, or the caller's data for a new one."""


@check_types()
class AgentRunner:
    """Runs conversations with a team of agents. Immutable and thread-safe.

    Args:
        agents: the team; the first one starts. Handoffs may name any of them.
    """

    agents: Mapping[str, AgentDefinition]
    """The team by name."""
    entry_agent: AgentDefinition
    """The agent that starts."""

    def __init__(self, agents: Sequence[AgentDefinition]) -> None:
        if not agents:
            raise InvalidOption("agents of AgentRunner", [], "one or more")
        self.agents = MappingProxyType({agent.name: agent for agent in agents})
        if len(self.agents) != len(agents):
            raise InvalidOption("the names of agents", [agent.name for agent in agents], "unique")
        self.entry_agent = agents[0]

    def __setattr__(self, name: str, value: object) -> None:
        """Rejects changes after the construction. Subclasses may have attributes of their own."""
        is_own = name in ("agents", "entry_agent") or type(self).__module__.startswith("ragkit.")
        if is_own and hasattr(self, "entry_agent"):
            raise FrozenInstanceError(f"cannot set {name!r}: an AgentRunner is immutable; create another one")
        object.__setattr__(self, name, value)

    def run(
        self, given: AgentInput, *, context: RunnerContext | None = None, cancel: Cancellation | None = None
    ) -> AgentResult:
        """Run one turn. Pass `result.context` as the context of the next turn."""
        return run_to_completion(self._prepare_turn(given, context, cancel))

    async def arun(
        self, given: AgentInput, *, context: RunnerContext | None = None, cancel: Cancellation | None = None
    ) -> AgentResult:
        """Asynchronous version of `run`."""
        return await arun_to_completion(self._prepare_turn(given, context, cancel))

    def stream(
        self,
        given: AgentInput,
        *,
        context: RunnerContext | None = None,
        cancel: Cancellation | None = None,
        retry_after_text: bool = False,
    ) -> Generator[Event, None, None]:
        """Yield the events of one turn; `retry_after_text` as for `Agent.stream`."""
        run = self._prepare_turn(given, context, cancel, live=True)
        run.retry_after_text = retry_after_text
        return drive(run)

    def astream(
        self,
        given: AgentInput,
        *,
        context: RunnerContext | None = None,
        cancel: Cancellation | None = None,
        retry_after_text: bool = False,
    ) -> AsyncGenerator[Event, None]:
        """Asynchronous version of `stream`."""
        run = self._prepare_turn(given, context, cancel, live=True)
        run.retry_after_text = retry_after_text
        return adrive(run)

    def select_agent(self, conversation: ConversationState) -> AgentDefinition:
        """The agent that answers next: the named one, else the last speaker, else the first of the team."""
        speakers = [message.agent_name for message in reversed(conversation.messages) if message.role is Role.ASSISTANT]
        for name in (conversation.current_agent, *speakers[:1]):
            if name in self.agents:
                return self.agents[name]
        return self.entry_agent

    def _prepare_turn(
        self, given: AgentInput, context: RunnerContext | None, cancel: Cancellation | None, *, live: bool = False
    ) -> RunState:
        conversation = _to_conversation(context)
        start = RunOptions(
            context=conversation.data,
            state=conversation.state,
            history=conversation.messages,
            cancel=cancel,
            agents=self.agents,
            streaming=live,
        )
        agent = self.select_agent(conversation)
        if isinstance(given, SuspendedRun):
            agent = self.agents.get(given.agent_name, agent)
        return prepare_run(agent, given, start)


def _to_conversation(context: RunnerContext | None) -> ConversationState:
    if context is None:
        return ConversationState()
    if isinstance(context, ConversationState):
        return context
    if isinstance(context, RunContext):
        return ConversationState(context.messages, context.agent_name, context.state, context.data)
    return ConversationState.from_dict(context) if context.get("format") == FORMAT else ConversationState(data=context)
