"""The table of failures: what the caller, the model, the trace and the observers receive."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.events import Event, Retrying, RunFailed, TextChunk, ToolFailed
from ragkit.agent.guardrails import Guardrails, TopicGuardrail
from ragkit.agent.loop.config import AgentConfig, RetryPolicy
from ragkit.agent.messages import Message
from ragkit.agent.observers import AgentObserver
from ragkit.agent.providers.base import Completion, ModelRequest, Provider, StreamCompleted, StreamDelta, TextDelta
from ragkit.agent.providers.parser import parse_arguments
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.agent.result import AgentResult, partial_result
from ragkit.agent.runtime.cancellation import Cancellation
from ragkit.agent.tools.base import Tool, ToolContext, tool
from ragkit.agent.tracing.trace import StepType
from ragkit.errors import (
    AuthenticationFailed,
    BudgetExceeded,
    ConnectionFailed,
    GuardrailBlocked,
    ProviderError,
    RagkitError,
    RateLimited,
    RequestTimeout,
    RunCancelled,
    ToolTimeout,
)
from ragkit.usage.limits import Limits
from ragkit.usage.meter import record_embedding
from tests.agent.parts import AT_ONCE, add, call, final_result, request_messages, scripted, tool_messages

RunAgent = Callable[[Agent], AgentResult]
"""A method that runs an agent to its end."""


def sync(agent: Agent) -> AgentResult:
    return agent.run("go")


def asynchronous(agent: Agent) -> AgentResult:
    return asyncio.run(agent.arun("go"))


def stream(agent: Agent) -> AgentResult:
    return final_result(list(agent.stream("go")))


def astream(agent: Agent) -> AgentResult:
    async def collect() -> list[Event]:
        return [event async for event in agent.astream("go")]

    return final_result(asyncio.run(collect()))


every_entry_point = pytest.mark.parametrize("run", [sync, asynchronous, stream, astream])


def failure(run: RunAgent, agent: Agent, kind: type[BaseException], words: str) -> tuple[BaseException, AgentResult]:
    """The error of a run, and its partial result."""
    with pytest.raises(kind, match=words) as raised:
        run(agent)
    partial = partial_result(raised.value)
    assert partial is not None
    assert partial.trace.steps[-1].type is StepType.ERROR
    assert partial.stop_reason == "error"
    return raised.value, partial


@every_entry_point
def test_a_rate_limited_request_waits_as_long_as_the_service_says(run: RunAgent) -> None:
    agent, provider = scripted([RateLimited("p", "slow down", retry_after=0.05), "fine"])
    started_at = time.monotonic()
    result = run(agent)
    assert (result.content, len(provider.requests)) == ("fine", 2)
    assert time.monotonic() - started_at >= 0.05
    [retry] = result.trace.find_spans(StepType.RETRY)
    assert retry.attributes == {"attempt": 1, "wait_s": 0.05, "error": "p: slow down"}
    assert request_messages(provider, 0) == request_messages(provider, 1)


@every_entry_point
def test_a_rate_limit_that_does_not_pass_reaches_the_caller(run: RunAgent) -> None:
    agent, provider = scripted([RateLimited("p", "slow down")] * 3)
    failure(run, agent, RateLimited, "p: slow down")
    assert len(provider.requests) == 3


@every_entry_point
def test_a_permanent_error_is_not_retried(run: RunAgent) -> None:
    agent, provider = scripted([call("add", a=1, b=2), AuthenticationFailed("p", "wrong key")])
    _, partial = failure(run, agent, AuthenticationFailed, "p: wrong key")
    assert len(provider.requests) == 2
    assert tool_messages(partial) == ["3"]
    assert partial.usage.prompt_tokens > 0


class Stuck(Provider):
    """Never answers, and leaves a thread running, as a real client may."""

    name = "stuck"

    def __init__(self) -> None:
        self.request_count = 0
        self.released = threading.Event()

    def complete(self, request: ModelRequest) -> Completion:
        self.request_count += 1
        self.released.wait(20)
        return Completion(Message.assistant("too late"))


@every_entry_point
def test_a_model_that_does_not_answer_times_out(run: RunAgent) -> None:
    provider = Stuck()
    agent = Agent(
        provider, config=AgentConfig(request_timeout_s=0.05, retry=RetryPolicy(max_attempts=2, initial_wait_s=0))
    )
    started_at = time.monotonic()
    failure(run, agent, RequestTimeout, r"stuck: no answer within 0\.05 seconds")
    provider.released.set()
    assert (provider.request_count, time.monotonic() - started_at < 2) == (2, True)


class Resets(Provider):
    """Fails in mid-stream `times` times, then answers."""

    name = "resets"

    def __init__(self, times: int) -> None:
        self.times = times

    def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
        yield TextDelta("Hel")
        if self.times:
            self.times -= 1
            raise ConnectionFailed(self.name, "connection reset by peer")
        yield TextDelta("lo")
        yield StreamCompleted(Completion(Message.assistant("Hello")))


@pytest.mark.parametrize("run", [sync, asynchronous])
def test_a_connection_reset_before_the_answer_is_retried(run: RunAgent) -> None:
    result = run(Agent(Resets(1), config=AgentConfig(retry=AT_ONCE)))
    assert result.content == "Hello"
    assert [span.attributes["error"] for span in result.trace.find_spans(StepType.RETRY)] == [
        "resets: connection reset by peer"
    ]


def stream_texts(agent: Agent, *, is_async: bool, retry_after_text: bool) -> list[str]:
    """The text chunks of a stream, with "|" for each restart, and "!" for a failure."""
    texts: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, TextChunk):
            texts.append(event.text)
        elif isinstance(event, Retrying):
            texts.append("|" if event.discard_text else "-")

    async def consume() -> None:
        async for event in agent.astream("go", retry_after_text=retry_after_text):
            note(event)

    try:
        if is_async:
            asyncio.run(consume())
        else:
            for event in agent.stream("go", retry_after_text=retry_after_text):
                note(event)
    except ConnectionFailed:
        texts.append("!")
    return texts


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stream_that_breaks_after_text_never_repeats_the_text(is_async: bool) -> None:
    agent = Agent(Resets(1), config=AgentConfig(retry=AT_ONCE))
    assert stream_texts(agent, is_async=is_async, retry_after_text=False) == ["Hel", "!"]
    agent = Agent(Resets(1), config=AgentConfig(retry=AT_ONCE))
    assert stream_texts(agent, is_async=is_async, retry_after_text=True) == ["Hel", "|", "Hel", "lo"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stream_that_breaks_before_its_text_is_retried(is_async: bool) -> None:
    class Early(Resets):
        def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
            yield TextDelta("<think>well")
            if self.times:
                self.times -= 1
                raise ConnectionFailed(self.name, "connection reset by peer")
            yield TextDelta("</think>Hello")
            yield StreamCompleted(Completion(Message.assistant("<think>well</think>Hello")))

    agent = Agent(Early(1), config=AgentConfig(retry=AT_ONCE))
    assert stream_texts(agent, is_async=is_async, retry_after_text=False) == ["-", "Hello"]


def test_a_stream_that_ends_without_an_answer_is_a_failed_connection() -> None:
    class Short(Provider):
        name = "short"

        async def astream(self, request: ModelRequest) -> AsyncIterator[StreamDelta]:
            yield TextDelta("Hel")

    agent = Agent(Short(), config=AgentConfig(retry=RetryPolicy(max_attempts=1)))
    for run in (sync, asynchronous, stream, astream):
        failure(run, agent, ConnectionFailed, "short: the stream ended before the answer was complete")


@every_entry_point
def test_malformed_arguments_are_reported_to_the_model(run: RunAgent) -> None:
    agent, provider = scripted([parse_arguments("add", "a=1 b=2", "c1"), call("add", "c2", a=1, b=2), "three"])
    result = run(agent)
    message = "Error: invalid arguments for add: no JSON object can be read from 'a=1 b=2'"
    assert tool_messages(result) == [message, "3"]
    assert message in request_messages(provider, 1)[-1][1]
    assert result.content == "three"


@every_entry_point
def test_invalid_arguments_are_reported_to_the_model(run: RunAgent) -> None:
    agent, _ = scripted([call("add", a="one", c=2), "sorry"])
    [message] = tool_messages(run(agent))
    assert "parameter 'b' is missing (integer)" in message
    assert "'a' is 'one': input should be a valid integer" in message


@every_entry_point
def test_an_unknown_tool_is_reported_with_the_nearest_name(run: RunAgent) -> None:
    agent, _ = scripted([call("ad", a=1, b=2), "sorry"])
    result = run(agent)
    assert tool_messages(result) == ["Error: unknown tool 'ad' (did you mean 'add'?); available: add, fail"]
    assert result.messages[2].is_error


@every_entry_point
def test_a_tool_that_raises_is_reported_and_the_run_continues(run: RunAgent) -> None:
    agent, provider = scripted([call("fail", reason="disk full"), "it failed"])
    result = run(agent)
    assert (result.content, tool_messages(result)) == ("it failed", ["Error executing fail: disk full"])
    assert "Error executing fail: disk full" in request_messages(provider)[-1][1]
    [outcome] = result.tool_calls
    assert (type(outcome.error), result.trace.find_spans(StepType.TOOL)[0].attributes["error"]) == (
        ValueError,
        "disk full",
    )


def test_a_tool_that_raises_emits_a_typed_event() -> None:
    agent, _ = scripted([call("fail", reason="disk full"), "it failed"])
    [event] = [event_ for event_ in agent.stream("go") if isinstance(event_, ToolFailed)]
    assert (event.call.name, str(event.error), event.content) == (
        "fail",
        "disk full",
        "Error executing fail: disk full",
    )


@every_entry_point
def test_a_tool_with_retries_is_retried(run: RunAgent) -> None:
    seen: list[tuple[int, int]] = []

    @tool(description="Flaky.", retries=2)
    def flaky(ctx: ToolContext) -> str:
        seen.append((ctx.attempt, ctx.max_attempts))
        if ctx.attempt < 3:
            raise OSError("not yet")
        return "at last"

    agent, _ = scripted([call("flaky"), "ok"], [flaky])
    result = run(agent)
    assert (tool_messages(result), seen) == (["at last"], [(1, 3), (2, 3), (3, 3)])
    assert result.tool_calls[0].attempts == 3


def hanging_tools(released: threading.Event, stopped: list[bool]) -> list[Tool]:
    @tool(description="Hang.", timeout_s=0.05)
    def hang(ctx: ToolContext) -> str:
        released.wait(20)
        stopped.append(ctx.cancelled())
        return "too late"

    @tool(description="Hang.", timeout_s=0.05)
    async def ahang() -> str:
        try:
            await asyncio.sleep(20)
        finally:
            stopped.append(True)
        return "too late"

    return [hang, ahang]


@every_entry_point
def test_a_tool_that_hangs_does_not_block_the_run(run: RunAgent) -> None:
    released, stopped = threading.Event(), list[bool]()
    agent, _ = scripted(
        [[call("hang", "c1"), call("add", "c2", a=1, b=2), call("ahang", "c3")], "sorry"],
        [*hanging_tools(released, stopped), add],
    )
    started_at = time.monotonic()
    result = run(agent)
    assert time.monotonic() - started_at < 2
    assert tool_messages(result) == [
        "Error executing hang: hang did not answer within 0.05 seconds",
        "3",
        "Error executing ahang: ahang did not answer within 0.05 seconds",
    ]
    assert [type(call.error) for call in result.tool_calls] == [ToolTimeout, type(None), ToolTimeout]
    released.set()


def test_a_tool_can_check_whether_it_was_abandoned() -> None:
    released, stopped = threading.Event(), list[bool]()
    agent, _ = scripted([call("hang"), "sorry"], hanging_tools(released, stopped))
    agent.run("go")
    released.set()
    for _ in range(200):
        if stopped:
            break
        time.sleep(0.005)
    assert stopped == [True]


@every_entry_point
def test_a_tool_result_of_ten_megabytes_is_paged_for_the_model(run: RunAgent) -> None:
    @tool
    def dump() -> str:
        """Dump."""
        return "x" * 10_000_000

    agent, provider = scripted([call("dump"), "a lot"], [dump])
    [message] = tool_messages(run(agent))
    note = "[page 1 of 20, 10000000 characters, the first 2000000 are kept; for other pages call read_tool_result with "
    assert message == "x" * 100_000 + f"\n{note}result_id 'result_1']"
    assert len(request_messages(provider)[-1][1]) < 100_200


@every_entry_point
def test_an_observer_that_raises_is_logged_and_the_run_continues(
    run: RunAgent, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(AgentObserver):
        def handle(self, event: Event) -> None:
            raise RuntimeError("broken observer")

    seen: list[str] = []
    config = AgentConfig(observers=[Broken()], hooks={"on_agent_end": lambda result: seen.append(result.content)})
    agent, _ = scripted(["fine"], config=config)
    with caplog.at_level(logging.ERROR, "ragkit.agent"):
        assert run(agent).content == "fine"
    assert seen == ["fine"]
    assert "failed on RunStarted" in caplog.text


@every_entry_point
def test_a_guardrail_that_blocks_ends_the_run_with_a_typed_error(run: RunAgent) -> None:
    config = AgentConfig(guardrails=Guardrails(output=[TopicGuardrail(["bomb"])]))
    agent, _ = scripted([call("add", a=1, b=2), "a bomb"], config=config)
    error, partial = failure(run, agent, GuardrailBlocked, "the output was blocked by the guardrail topic")
    assert isinstance(error, RagkitError)
    assert tool_messages(partial) == ["3"]
    assert [message.role.value for message in partial.messages] == ["user", "assistant", "tool"]


@every_entry_point
def test_a_budget_that_is_reached_in_the_middle_of_parallel_tools_stops_before_the_next_request(run: RunAgent) -> None:
    @tool
    def embed(n: int) -> str:
        """Embed."""
        record_embedding("e", 60, 0.0)
        return str(n)

    config = AgentConfig(limits=Limits(max_tokens=150))
    agent, provider = scripted([[call("embed", f"c{n}", n=n) for n in range(3)], "never"], [embed], config)
    error, partial = failure(run, agent, BudgetExceeded, "budget of 150 tokens exceeded")
    assert isinstance(error, BudgetExceeded)
    assert error.spent >= 180
    assert (tool_messages(partial), len(provider.requests)) == (["0", "1", "2"], 1)
    assert partial.usage.embedding_tokens == 180


@every_entry_point
def test_the_time_limit_of_a_run_ends_the_wait_for_its_tools(run: RunAgent) -> None:
    released = threading.Event()

    @tool
    def slow() -> str:
        """Slow."""
        released.wait(20)
        return "too late"

    agent, _ = scripted([call("slow"), "never"], [slow], AgentConfig(limits=Limits(max_seconds=0.1)))
    started_at = time.monotonic()
    failure(run, agent, BudgetExceeded, r"budget of 0\.1 seconds exceeded")
    released.set()
    assert time.monotonic() - started_at < 2


@every_entry_point
def test_the_time_limit_of_a_run_ends_the_wait_for_its_model(run: RunAgent) -> None:
    provider = Stuck()
    agent = Agent(provider, config=AgentConfig(limits=Limits(max_seconds=0.1), retry=AT_ONCE))
    failure(run, agent, BudgetExceeded, r"budget of 0\.1 seconds exceeded")
    provider.released.set()


class Endless(Provider):
    """Streams text until its stream is closed."""

    name = "endless"

    def __init__(self) -> None:
        self.closed = threading.Event()

    def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
        try:
            while True:
                yield TextDelta("and ")
                time.sleep(0.001)
        finally:
            self.closed.set()


def test_a_run_is_cancelled_in_mid_stream() -> None:
    provider, cancellation = Endless(), Cancellation()
    texts: list[str] = []
    with pytest.raises(RunCancelled, match="the run was cancelled") as raised:
        for event in Agent(provider).stream("go", cancel=cancellation):
            if isinstance(event, TextChunk):
                texts.append(event.text)
                cancellation.cancel()
    partial = partial_result(raised.value)
    assert partial is not None
    assert (texts[0], [message.content for message in partial.messages]) == ("and ", ["go"])
    assert provider.closed.wait(2)


def test_an_asynchronous_run_is_cancelled_in_mid_stream_by_its_cancellation_or_its_task() -> None:
    async def by_cancellation() -> None:
        cancellation = Cancellation()
        async for event in Agent(Endless()).astream("go", cancel=cancellation):
            if isinstance(event, TextChunk):
                cancellation.cancel()

    with pytest.raises(RunCancelled, match="the run was cancelled"):
        asyncio.run(by_cancellation())

    failed: list[BaseException] = []

    async def by_task() -> None:
        config = AgentConfig(hooks={"on_error": failed.append})
        task = asyncio.create_task(Agent(Stuck(), config=config).arun("go"))
        await asyncio.sleep(0.02)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(by_task())
    assert [type(error) for error in failed] == [asyncio.CancelledError]


@pytest.mark.parametrize("what", ["model", "tool", "wait"])
def test_a_run_is_cancelled_during_every_kind_of_wait(what: str) -> None:
    released = threading.Event()

    @tool
    def slow() -> str:
        """Slow."""
        released.wait(20)
        return "too late"

    providers: dict[str, Provider] = {
        "model": Stuck(),
        "tool": ScriptedProvider([call("slow")] * 2),
        "wait": ScriptedProvider([RateLimited("p", "x", retry_after=20.0)] * 2),
    }
    agent = Agent(providers[what], [slow])

    def cancel_soon() -> Cancellation:
        cancellation = Cancellation()
        threading.Timer(0.05, cancellation.cancel).start()
        return cancellation

    started_at = time.monotonic()
    with pytest.raises(RunCancelled, match="the run was cancelled"):
        agent.run("go", cancel=cancel_soon())
    with pytest.raises(RunCancelled, match="the run was cancelled"):
        asyncio.run(agent.arun("go", cancel=cancel_soon()))
    released.set()
    assert time.monotonic() - started_at < 3


def test_a_used_cancellation_stops_a_run_before_its_first_request() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    cancellation.cancel()
    agent, provider = scripted(["never"])
    with pytest.raises(RunCancelled, match="the run was cancelled"):
        agent.run("go", cancel=cancellation)
    assert provider.requests == []


def test_a_failed_run_ends_with_an_event_that_contains_the_error() -> None:
    seen: list[Event] = []
    agent, _ = scripted([AuthenticationFailed("p", "wrong key")])
    with pytest.raises(ProviderError, match="wrong key"):
        seen.extend(agent.stream("go"))
    failures: list[RunFailed] = []

    class Keep(AgentObserver):
        def on_error(self, event: RunFailed) -> None:
            failures.append(event)

    agent, _ = scripted([AuthenticationFailed("p", "wrong key")], config=AgentConfig(observers=[Keep()]))
    with pytest.raises(ProviderError, match="wrong key"):
        agent.run("go")
    assert [str(event.error) for event in failures] == ["p: wrong key"]
