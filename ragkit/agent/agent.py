"""The agent: its definition and the methods that run it. All of them drive the same loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING, TypeAlias, overload

from ragkit.agent.events import Event, TextChunk
from ragkit.agent.loop.definition import AgentDefinition, HandoffTool, to_identifier
from ragkit.agent.loop.estimate import RunEstimate, estimate_run
from ragkit.agent.loop.run_state import RunOptions, RunState
from ragkit.agent.loop.sync_driver import drive
from ragkit.agent.memory.memory import ConversationMemory, RunMemory
from ragkit.agent.messages import Message
from ragkit.agent.result import AgentResult, SuspendedRun
from ragkit.agent.runtime.cancellation import Cancellation
from ragkit.agent.tools.base import Tool, ToolContext
from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption
from ragkit.records import JSON

AgentInput: TypeAlias = str | Message | Sequence[Message] | SuspendedRun
"""The input of a run: text, messages, or a suspended run with its decisions."""

NO_CONTEXT: Mapping[str, JSON] = {}


@check_types()
class Agent(AgentDefinition):
    """A model with tools. Immutable and without conversation state: one agent serves any number of runs.

    `run` returns the result, `stream` yields the events; `arun` and `astream` are their asynchronous versions;
    `batch` and `abatch` run many inputs concurrently.
    """

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __setattr__(self, name: str, value: object) -> None:
            """Rejects changes: an agent is immutable. Subclasses may have attributes of their own."""
            is_own = name in self.__dataclass_fields__ or type(self).__module__.startswith("ragkit.")
            if is_own and name != "conversation":
                raise FrozenInstanceError(f"cannot set {name!r}: an agent is immutable; use dataclasses.replace")
            object.__setattr__(self, name, value)

    @property
    def conversation(self) -> RunMemory | None:
        """The agent's own memory. It may be replaced: `agent.conversation = memory`."""
        return self.memory

    @conversation.setter
    def conversation(self, memory: RunMemory) -> None:
        missing = [name for name in ("run_lock", "load_messages", "record_turn", "clear") if not hasattr(memory, name)]
        if missing:
            expected = f"a ConversationMemory or an object with {', '.join(missing)}"
            raise InvalidOption("conversation", type(memory).__name__, expected)
        object.__setattr__(self, "memory", memory)

    def run(
        self,
        given: AgentInput,
        *,
        context: Mapping[str, JSON] = NO_CONTEXT,
        memory: ConversationMemory | None = None,
        cancel: Cancellation | None = None,
    ) -> AgentResult:
        """Run the agent until it answers.

        Args:
            given: the input: text, messages, or a suspended run.
            context: the caller's data for tools; the run works on a deep copy, handed back with the result.
            memory: the conversation to continue; by default the agent's own, if it has one.
            cancel: cancels the run.

        Raises:
            ProviderError: the model's service failed, after all retries.
            BudgetExceeded: a limit was reached.
            RunError: the run was cancelled, blocked by a guardrail, or a handoff failed.

            Every error carries the partial result: `partial_result(error)`.
        """
        return run_to_completion(prepare_run(self, given, RunOptions(context=context, memory=memory, cancel=cancel)))

    async def arun(
        self,
        given: AgentInput,
        *,
        context: Mapping[str, JSON] = NO_CONTEXT,
        memory: ConversationMemory | None = None,
        cancel: Cancellation | None = None,
    ) -> AgentResult:
        """Asynchronous version of `run`."""
        return await arun_to_completion(
            prepare_run(self, given, RunOptions(context=context, memory=memory, cancel=cancel))
        )

    def stream(
        self,
        given: AgentInput,
        *,
        context: Mapping[str, JSON] = NO_CONTEXT,
        memory: ConversationMemory | None = None,
        cancel: Cancellation | None = None,
        retry_after_text: bool = False,
    ) -> Generator[Event, None, None]:
        """Yield the events of a run; the last one is RunEnded, with the result. Raises the errors of `run`.

        Args:
            given: as for `run`.
            context: as for `run`.
            memory: as for `run`.
            cancel: as for `run`.
            retry_after_text: send a request again if it fails after text was emitted. The receiver must then drop that
                text when `Retrying.discard_text` is set. By default such a failure ends the run, so that no text is
                emitted twice.
        """
        start = RunOptions(context, memory=memory, cancel=cancel, streaming=True, retry_after_text=retry_after_text)
        return drive(prepare_run(self, given, start))

    def run_stream(self, given: AgentInput, *, memory: ConversationMemory | None = None) -> Iterator[str]:
        """Yield the text of the answer as it streams. Raises the errors of `run`."""
        for event in self.stream(given, memory=memory):
            if isinstance(event, TextChunk):
                yield event.text

    def astream(
        self,
        given: AgentInput,
        *,
        context: Mapping[str, JSON] = NO_CONTEXT,
        memory: ConversationMemory | None = None,
        cancel: Cancellation | None = None,
        retry_after_text: bool = False,
    ) -> AsyncGenerator[Event, None]:
        """Asynchronous version of `stream`."""
        start = RunOptions(context, memory=memory, cancel=cancel, streaming=True, retry_after_text=retry_after_text)
        from ragkit.agent.loop.async_driver import adrive

        return adrive(prepare_run(self, given, start))

    @overload
    def batch(self, inputs: Sequence[AgentInput], *, max_concurrency: int = 8) -> list[AgentResult]: ...

    @overload
    def batch(
        self, inputs: Sequence[AgentInput], *, max_concurrency: int = 8, return_exceptions: bool
    ) -> list[AgentResult | BaseException]: ...

    def batch(
        self, inputs: Sequence[AgentInput], *, max_concurrency: int = 8, return_exceptions: bool = False
    ) -> Sequence[AgentResult | BaseException]:
        """Run many inputs concurrently, each in its own conversation. Results keep the order of the inputs.

        Args:
            inputs: one per run.
            max_concurrency: runs at once, >= 1.
            return_exceptions: put the error of a failed run into the list. Otherwise the first error (in order) is
                raised after all runs have ended, and the other results are lost.
        """
        _check_concurrency(max_concurrency)
        with ThreadPoolExecutor(max_concurrency) as pool:
            futures = [pool.submit(copy_context().run, self._run_isolated, item) for item in inputs]
        outcomes = [future.exception() or future.result() for future in futures]
        return outcomes if return_exceptions else _results_or_raise(outcomes)

    @overload
    async def abatch(self, inputs: Sequence[AgentInput], *, max_concurrency: int = 8) -> list[AgentResult]: ...

    @overload
    async def abatch(
        self, inputs: Sequence[AgentInput], *, max_concurrency: int = 8, return_exceptions: bool
    ) -> list[AgentResult | BaseException]: ...

    async def abatch(
        self, inputs: Sequence[AgentInput], *, max_concurrency: int = 8, return_exceptions: bool = False
    ) -> Sequence[AgentResult | BaseException]:
        """Asynchronous version of `batch`."""
        import asyncio

        _check_concurrency(max_concurrency)
        semaphore = asyncio.Semaphore(max_concurrency)

        async def run_one(item: AgentInput) -> AgentResult:
            async with semaphore:
                return await arun_to_completion(prepare_run(self, item, RunOptions(memory=ConversationMemory())))

        outcomes = await asyncio.gather(*map(run_one, inputs), return_exceptions=True)
        return outcomes if return_exceptions else _results_or_raise(outcomes)

    def estimate(
        self, given: str | Message | Sequence[Message], *, memory: ConversationMemory | None = None
    ) -> RunEstimate:
        """What a run with this input may use, in tokens and US dollars. Sends nothing."""
        run = prepare_run(self, given, RunOptions(memory=memory))
        earlier = run.memory.load_messages() if run.memory is not None else []
        run.messages += [*earlier, *run.input_messages]
        return estimate_run(self.provider, self.config, run.build_request())

    def as_tool(self, name: str = "", description: str = "") -> Tool:
        """A tool that runs this agent for another one, in a conversation of its own, with the caller's data.

        Its usage is part of the outer run.

        Args:
            name: by default the name of the agent, in letters that services allow.
            description: what it is good for; by default the description of the agent.
        """

        def ask(task: str, context: ToolContext) -> str:
            """Ask another agent.

            Args:
                task: what it should do, with all that it needs to know.
            """
            return self.run(task, context=context.context, memory=ConversationMemory()).content

        words = description or self.description or f"Ask the agent {self.name}."
        return Tool.from_function(ask, words, name=name or to_identifier(self.name))

    def reset(self) -> None:
        """Clear the agent's own memory, if it has one."""
        if self.memory is not None:
            self.memory.clear()

    def _run_isolated(self, given: AgentInput) -> AgentResult:
        return run_to_completion(prepare_run(self, given, RunOptions(memory=ConversationMemory())))


def _check_concurrency(runs: int) -> None:
    if runs < 1:
        raise InvalidOption("max_concurrency", runs, ">= 1")


def prepare_run(agent: AgentDefinition, given: AgentInput, start: RunOptions) -> RunState:
    """Create the run of an agent for an input."""
    if isinstance(given, SuspendedRun):
        working = start.agents.get(given.agent_name) or _find_handoff_agent(agent, given.agent_name)
        return RunState.resume(working, given, start)
    if isinstance(given, str):
        return RunState(agent, [Message.user(given)], start)
    return RunState(agent, [given] if isinstance(given, Message) else list(given), start)


def _find_handoff_agent(agent: AgentDefinition, name: str) -> AgentDefinition:
    """The agent of that name among the handoff targets of `agent`; `agent` itself if there is none."""
    waiting, seen = [agent], {agent.name}
    while waiting:
        candidate = waiting.pop()
        if candidate.name == name:
            return candidate
        for target in (tool.target for tool in candidate.registry if isinstance(tool, HandoffTool)):
            if isinstance(target, AgentDefinition) and target.name not in seen:
                seen.add(target.name)
                waiting.append(target)
    return agent


def run_to_completion(run: RunState) -> AgentResult:
    """Run to the end in this thread."""
    for _ in drive(run):
        pass
    return _final_result(run)


async def arun_to_completion(run: RunState) -> AgentResult:
    """Run to the end in this task."""
    from ragkit.agent.loop.async_driver import adrive

    async for _ in adrive(run):
        pass
    return _final_result(run)


def _final_result(run: RunState) -> AgentResult:
    assert run.final_result is not None  # noqa: S101 - a run ends with a result or raises
    return run.final_result


def _results_or_raise(outcomes: Sequence[AgentResult | BaseException]) -> list[AgentResult]:
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if isinstance(outcome, AgentResult)]
