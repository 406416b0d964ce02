"""The agent: its definition, and the five ways of running it. All of them drive the same loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeAlias

from ragkit.agent.async_driver import adrive
from ragkit.agent.cancellation import Cancellation
from ragkit.agent.definition import AgentDefinition, HandoffTool
from ragkit.agent.events import Event
from ragkit.agent.memory import ConversationMemory
from ragkit.agent.messages import Message
from ragkit.agent.result import AgentResult, SuspendedRun
from ragkit.agent.run_state import RunOptions, RunState
from ragkit.agent.sync_driver import drive
from ragkit.records import JSON

AgentInput: TypeAlias = str | Message | Sequence[Message] | SuspendedRun
"""What a run is given: the user's words, messages, or a suspended run that somebody has decided about."""

NO_CONTEXT: Mapping[str, JSON] = {}


class Agent(AgentDefinition):
    """A model with tools. It is immutable and carries no conversation: one agent serves any number of runs.

    `run` waits for the result, `stream` yields the events on the way there; `arun` and `astream` are the same
    for asynchronous code; `batch` and `abatch` run many inputs at the same time.
    """

    def run(
        self,
        given: AgentInput,
        *,
        context: Mapping[str, JSON] = NO_CONTEXT,
        memory: ConversationMemory | None = None,
        cancel: Cancellation | None = None,
    ) -> AgentResult:
        """Run until there is an answer.

        Args:
            given: what the user says.
            context: the caller's data for tools; the run works on a deep copy, handed back with the result.
            memory: the conversation that this run goes on with; by default the agent's own, if it has one.
            cancel: a switch that stops the run.

        Raises:
            ProviderError: the model's service failed, after all retries.
            BudgetExceeded: a limit was reached.
            RunError: the run was cancelled, blocked by a guardrail, or could not be handed over.

            Every error carries what the run had: `partial_result(error)`.
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
        """The same as `run`, for asynchronous code."""
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
    ) -> Generator[Event, None, None]:
        """The events of a run as they happen; the last one is RunEnded, with the result. Raises as `run` does."""
        start = RunOptions(context=context, memory=memory, cancel=cancel, streaming=True)
        return drive(prepare_run(self, given, start))

    def astream(
        self,
        given: AgentInput,
        *,
        context: Mapping[str, JSON] = NO_CONTEXT,
        memory: ConversationMemory | None = None,
        cancel: Cancellation | None = None,
    ) -> AsyncGenerator[Event, None]:
        """The same as `stream`, for asynchronous code."""
        start = RunOptions(context=context, memory=memory, cancel=cancel, streaming=True)
        return adrive(prepare_run(self, given, start))

    def batch(self, inputs: Sequence[AgentInput], *, max_concurrency: int = 8) -> list[AgentResult]:
        """Run many inputs at the same time, each with a conversation of its own. Results keep the order.

        Raises what the first run that failed (in order) raised, once all are done.
        """
        with ThreadPoolExecutor(max_concurrency) as pool:
            futures = [pool.submit(copy_context().run, self._run_isolated, one) for one in inputs]
        return _results_or_raise([future.exception() or future.result() for future in futures])

    async def abatch(self, inputs: Sequence[AgentInput], *, max_concurrency: int = 8) -> list[AgentResult]:
        """The same as `batch`, for asynchronous code."""
        room = asyncio.Semaphore(max_concurrency)

        async def one(given: AgentInput) -> AgentResult:
            async with room:
                return await arun_to_completion(prepare_run(self, given, RunOptions(memory=ConversationMemory())))

        return _results_or_raise(await asyncio.gather(*map(one, inputs), return_exceptions=True))

    def reset(self) -> None:
        """Clear the agent's own memory, if it has one; an agent without memory has nothing to forget."""
        if self.memory is not None:
            self.memory.clear()

    def _run_isolated(self, given: AgentInput) -> AgentResult:
        return run_to_completion(prepare_run(self, given, RunOptions(memory=ConversationMemory())))


def prepare_run(agent: AgentDefinition, given: AgentInput, start: RunOptions) -> RunState:
    """The run of an agent on what it is given."""
    if isinstance(given, SuspendedRun):
        working = start.agents.get(given.agent_name) or _find_handoff_agent(agent, given.agent_name)
        return RunState.resume(working, given, start)
    if isinstance(given, str):
        return RunState(agent, [Message.user(given)], start)
    return RunState(agent, [given] if isinstance(given, Message) else list(given), start)


def _find_handoff_agent(agent: AgentDefinition, name: str) -> AgentDefinition:
    """The agent of that name among those that `agent` can hand over to; itself when there is none."""
    waiting, seen = [agent], {agent.name}
    while waiting:
        one = waiting.pop()
        if one.name == name:
            return one
        for target in (tool.target for tool in one.registry if isinstance(tool, HandoffTool)):
            if isinstance(target, AgentDefinition) and target.name not in seen:
                seen.add(target.name)
                waiting.append(target)
    return agent


def run_to_completion(run: RunState) -> AgentResult:
    """Drive a run in this thread to its result."""
    for _ in drive(run):
        pass
    return _final_result(run)


async def arun_to_completion(run: RunState) -> AgentResult:
    """Drive a run in this task to its result."""
    async for _ in adrive(run):
        pass
    return _final_result(run)


def _final_result(run: RunState) -> AgentResult:
    assert run.final_result is not None  # noqa: S101 - a run comes to its end, or raises
    return run.final_result


def _results_or_raise(found: Sequence[AgentResult | BaseException]) -> list[AgentResult]:
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return [one for one in found if isinstance(one, AgentResult)]
