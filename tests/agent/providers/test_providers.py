"""Providers: methods derived from one, scripts, fallback chains, the request guard."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.events import Event, ProviderFallback, Retrying, TextChunk
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers import PROVIDERS
from ragkit.agent.providers.base import (
    Completion,
    ModelRequest,
    Provider,
    StreamCompleted,
    StreamDelta,
    TextDelta,
    ToolCallDelta,
    get_completion,
)
from ragkit.agent.providers.fallback import FallbackProvider
from ragkit.agent.providers.request_guard import ModelRequestForbidden, forbid_model_requests
from ragkit.agent.providers.scripted import (
    EchoProvider,
    FunctionProvider,
    LocalProvider,
    ScriptedProvider,
    ScriptedTurn,
    ScriptExhausted,
)
from ragkit.agent.tools.base import tool
from ragkit.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    InvalidOption,
    InvalidRequest,
    ProviderError,
    RateLimited,
    RequestTimeout,
)
from ragkit.usage.meter import Meter, record_embedding, use_meter
from ragkit.usage.tokens import Tokens
from tests.agent.parts import AT_ONCE, add, call, final_result, scripted

ASK = ModelRequest("m", (Message.user("hi"),))
DONE = Completion(Message.assistant("hello", [ToolCall("t", {"a": 1}, "c1")]), Tokens(1, 2))


class Complete(Provider):
    name = "one"

    def complete(self, request: ModelRequest) -> Completion:
        record_embedding("e", 1, 0.0)
        return DONE


class Stream(Provider):
    name = "one"

    def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
        record_embedding("e", 1, 0.0)
        yield TextDelta("hel")
        yield TextDelta("lo")
        yield ToolCallDelta(0, "t", '{"a":1}', "c1")
        yield StreamCompleted(DONE)


class AComplete(Provider):
    name = "one"

    async def acomplete(self, request: ModelRequest) -> Completion:
        await asyncio.sleep(0)
        record_embedding("e", 1, 0.0)
        return DONE


class AStream(Provider):
    name = "one"

    async def astream(self, request: ModelRequest) -> AsyncIterator[StreamDelta]:
        record_embedding("e", 1, 0.0)
        for piece in ("hel", "lo"):
            await asyncio.sleep(0)
            yield TextDelta(piece)
        yield ToolCallDelta(0, "t", '{"a":1}', "c1")
        yield StreamCompleted(DONE)


def call_every_method(provider: Provider) -> tuple[Completion, list[StreamDelta], Completion, list[StreamDelta]]:
    async def stream() -> list[StreamDelta]:
        return [delta async for delta in provider.astream(ASK)]

    return (
        provider.complete(ASK),
        list(provider.stream(ASK)),
        asyncio.run(provider.acomplete(ASK)),
        asyncio.run(stream()),
    )


@pytest.mark.parametrize("kind", [Complete, Stream, AComplete, AStream])
def test_from_one_method_the_other_three_follow(kind: type[Provider]) -> None:
    with use_meter(Meter()) as meter:
        completed, streamed, acompleted, astreamed = call_every_method(kind())
    assert completed == acompleted == DONE
    for deltas in (streamed, astreamed):
        assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == "hello"
        assert [delta for delta in deltas if isinstance(delta, ToolCallDelta)] == [
            ToolCallDelta(0, "t", '{"a":1}', "c1")
        ]
        assert deltas[-1] == StreamCompleted(DONE)
    assert meter.usage().embedding_tokens == 4


def test_a_provider_without_any_method_is_rejected() -> None:
    with pytest.raises(InvalidOption, match="the methods of provider Empty must be one or more of complete, stream"):

        class Empty(Provider):
            name = "empty"


def test_an_asynchronous_provider_works_where_a_loop_is_already_running() -> None:
    async def main() -> Completion:
        return AStream().complete(ASK)

    assert asyncio.run(main()) == DONE


def test_an_abandoned_stream_is_closed() -> None:
    closed = threading.Event()

    class Long(Provider):
        name = "long"

        async def astream(self, request: ModelRequest) -> AsyncIterator[StreamDelta]:
            try:
                while True:
                    await asyncio.sleep(0)
                    yield TextDelta("x")
            finally:
                closed.set()

    stream = Long().stream(ASK)
    assert next(stream) == TextDelta("x")
    stream.close()  # type: ignore[attr-defined]
    assert closed.wait(2)


@pytest.mark.parametrize("kind", [Stream, AStream])
def test_every_method_raises_the_error_of_the_provider(kind: type[Provider]) -> None:
    class SyncFails(Provider):
        name = "fails"

        def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
            yield TextDelta("x")
            raise RateLimited("p", "slow")

    class AsyncFails(Provider):
        name = "fails"

        async def astream(self, request: ModelRequest) -> AsyncIterator[StreamDelta]:
            yield TextDelta("x")
            raise RateLimited("p", "slow")

    provider: Provider = SyncFails() if kind is Stream else AsyncFails()

    async def astream() -> None:
        async for _ in provider.astream(ASK):
            pass

    for ask in (
        lambda: provider.complete(ASK),
        lambda: list(provider.stream(ASK)),
        lambda: asyncio.run(provider.acomplete(ASK)),
        lambda: asyncio.run(astream()),
    ):
        with pytest.raises(RateLimited, match="p: slow"):
            ask()


def test_a_stream_without_an_end_is_a_failed_connection() -> None:
    with pytest.raises(ConnectionFailed, match="p: the stream ended before the answer was complete"):
        get_completion([TextDelta("x")], "p")


def test_a_script_is_answered_turn_by_turn_and_keeps_what_was_asked() -> None:
    turns: list[ScriptedTurn] = [
        "text",
        ToolCall("t"),
        [ToolCall("t"), ToolCall("u")],
        Message.assistant("m"),
        DONE,
        lambda r: r.model,
    ]
    provider = ScriptedProvider(turns)
    completions = [provider.complete(ASK) for _ in turns]
    assert [completion.message.content for completion in completions] == ["text", "", "", "m", "hello", "m"]
    assert [len(completion.message.tool_calls) for completion in completions] == [0, 1, 2, 0, 1, 0]
    assert [completion.stop_reason for completion in completions[:3]] == ["stop", "tool_calls", "tool_calls"]
    assert (provider.requests, provider.remaining) == ([ASK] * 6, 0)


def test_a_request_after_the_last_turn_of_a_script_is_an_error() -> None:
    agent, _ = scripted([call("add", a=1, b=2)])
    with pytest.raises(ScriptExhausted, match="the script has 1 turns, but got another request"):
        agent.run("x")


MOCK = [
    "text",
    {"content": "", "tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]},
    {"content": "paid", "usage": {"prompt_tokens": 10, "completion_tokens": 5}, "stop_reason": "length"},
    {"error": "rate_limited", "retry_after": 0.5, "message": "slow"},
    {"error": "timeout"},
]


def test_a_script_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps(MOCK))
    for value in (json.dumps(MOCK), str(tmp_path / "script.json")):
        monkeypatch.setenv("RAGKIT_MOCK_JSON", value)
        provider = ScriptedProvider.from_environment()
        assert provider is not None
        assert provider.complete(ASK).message.content == "text"
        assert provider.complete(ASK).message.tool_calls == (ToolCall("add", {"a": 1, "b": 2}),)
        paid = provider.complete(ASK)
        assert (paid.usage, paid.stop_reason) == (Tokens(10, 5, cost_usd=0.0), "length")
        with pytest.raises(RateLimited, match="scripted: slow") as raised:
            provider.complete(ASK)
        assert raised.value.retry_after == 0.5
        with pytest.raises(RequestTimeout, match="scripted: scripted"):
            provider.complete(ASK)
    monkeypatch.delenv("RAGKIT_MOCK_JSON")
    assert ScriptedProvider.from_environment() is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{}", "RAGKIT_MOCK_JSON must be a JSON list of turns"),
        ("[", "RAGKIT_MOCK_JSON must be a JSON list of turns, or the path"),
        ("/no/such/file", "RAGKIT_MOCK_JSON must be JSON, or the path of a readable file"),
        ("[3]", "a turn of RAGKIT_MOCK_JSON must be a text or an object"),
        ('[{"error": "flood"}]', "an error of RAGKIT_MOCK_JSON must be one of authentication, rate_limited"),
    ],
)
def test_an_invalid_script_is_rejected(value: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGKIT_MOCK_JSON", value)
    with pytest.raises(InvalidOption, match=words):
        ScriptedProvider.from_environment()


def test_the_echo_provider_repeats_the_user_message() -> None:
    assert Agent(EchoProvider()).run("hello").content == "hello"


def test_the_local_provider_returns_tool_results_without_a_service() -> None:
    assert Agent(LocalProvider()).run("hello").content == "[local provider, no model] hello"
    request = ModelRequest("m", (Message.user("q"), Message(Role.TOOL, "42", name="t")))
    assert LocalProvider().complete(request).message.content == "42"
    assert Agent(LocalProvider()).run("hello").usage.total_cost_usd == 0.0


def test_a_function_provider_answers_with_the_result_of_the_function() -> None:
    assert Agent(FunctionProvider(lambda request: request.messages[-1].content.upper())).run("hi").content == "HI"


def test_text_is_streamed_by_words_and_nothing_is_lost() -> None:
    texts = [delta.text for delta in ScriptedProvider(["  two  words\n"]).stream(ASK) if isinstance(delta, TextDelta)]
    assert texts == ["  ", "two  ", "words\n"]


def test_every_provider_name_can_be_looked_up() -> None:
    assert {name: PROVIDERS.find(name).name for name in ("echo", "local")} == {"echo": "echo", "local": "local"}


class Named(ScriptedProvider):
    """A scripted provider with a name."""

    def __init__(self, name: str, script: list[ScriptedTurn]) -> None:
        super().__init__(script, model=f"{name}-model")
        self.name = name


def chain(*scripts: list[ScriptedTurn], **options: object) -> tuple[FallbackProvider, list[Named]]:
    parts = [Named(f"p{number}", script) for number, script in enumerate(scripts)]
    return FallbackProvider(parts, **options), parts  # type: ignore[arg-type]


def complete_every_way(make: Callable[[], FallbackProvider]) -> list[Completion]:
    async def astream() -> list[StreamDelta]:
        return [delta async for delta in make().astream(ASK)]

    return [
        make().complete(ASK),
        asyncio.run(make().acomplete(ASK)),
        get_completion(make().stream(ASK), "p"),
        get_completion(asyncio.run(astream()), "p"),
    ]


def test_the_next_provider_answers_when_the_first_fails() -> None:
    for completion in complete_every_way(
        lambda: chain([ConnectionFailed("p0", "down")], [RateLimited("p1", "slow")], ["hello"])[0]
    ):
        assert completion.message.content == "hello"
        assert (completion.provider, completion.model) == ("p2", "p2-model")
        assert completion.fallback_errors == ("p0: down", "p1: slow")


def test_the_last_error_is_raised_when_all_fail() -> None:
    with pytest.raises(RateLimited, match="p1: slow"):
        chain([ConnectionFailed("p0", "down")], [RateLimited("p1", "slow")])[0].complete(ASK)


def test_an_invalid_request_is_not_sent_to_the_next_provider() -> None:
    provider, parts = chain([InvalidRequest("p0", "bad schema")], ["never"])
    with pytest.raises(InvalidRequest, match="p0: bad schema"):
        provider.complete(ASK)
    assert parts[1].requests == []


def test_an_error_that_is_not_a_provider_error_is_raised() -> None:
    with pytest.raises(ZeroDivisionError, match="a defect"):
        chain([ZeroDivisionError("a defect")], ["never"])[0].complete(ASK)


def test_the_circuit_of_a_failing_provider_opens_for_the_cooldown() -> None:
    now = [0.0]
    down: list[ScriptedTurn] = [ConnectionFailed("p0", "down")] * 3
    provider, parts = chain([*down, "back"], ["b"] * 9, max_failures=2, cooldown_s=10.0, clock=lambda: now[0])

    def ask() -> str:
        return provider.complete(ASK).provider

    assert [ask(), ask(), ask(), ask()] == ["p1"] * 4
    assert (len(parts[0].requests), provider.available_names()) == (2, ["p1"])
    now[0] = 10.0
    assert ask() == "p1"  # one request may try again; it fails, and the circuit stays open
    assert (ask(), len(parts[0].requests)) == ("p1", 3)
    now[0] = 20.0
    assert ask() == "p0"
    assert provider.available_names() == ["p0", "p1"]


def test_a_request_fails_if_every_circuit_is_open() -> None:
    provider, _ = chain([ConnectionFailed("p0", "down")], max_failures=1, clock=lambda: 0.0)
    with pytest.raises(ConnectionFailed, match="down"):
        provider.complete(ASK)
    with pytest.raises(ProviderError, match="all providers are skipped after repeated failures"):
        provider.complete(ASK)


def test_a_started_stream_does_not_fall_back() -> None:
    class Breaks(Provider):
        name = "breaks"

        def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
            yield TextDelta("x")
            raise ConnectionFailed("breaks", "reset")

    second = Named("other", ["never"])
    with pytest.raises(ConnectionFailed, match="breaks: reset"):
        list(FallbackProvider([Breaks(), second]).stream(ASK))
    assert second.requests == []


class BreaksAfterText(Provider):
    """Fails after its first word, with each of these errors once; then answers."""

    def __init__(self, name: str, *errors: ProviderError) -> None:
        self.name, self.errors, self.asked = name, list(errors), 0

    def stream(self, request: ModelRequest) -> Iterator[StreamDelta]:
        self.asked += 1
        yield TextDelta(f"{self.name} ")
        if self.errors:
            raise self.errors.pop(0)
        yield StreamCompleted(Completion(Message.assistant(f"{self.name} ")))


def shown(agent: Agent, *, is_async: bool) -> str:
    """The text that a reader of the stream keeps."""

    async def consume() -> list[Event]:
        return [event async for event in agent.astream("x", retry_after_text=True)]

    text = ""
    for event in asyncio.run(consume()) if is_async else agent.stream("x", retry_after_text=True):
        if isinstance(event, TextChunk):
            text += event.text
        elif isinstance(event, Retrying) and event.discard_text:
            text = ""
    return text


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        ConnectionFailed("first", "reset"),
        AuthenticationFailed("first", "revoked"),
        RateLimited("first", "slow down", retry_after=900),
    ],
)
def test_after_a_failure_in_mid_stream_the_next_provider_is_tried(error: ProviderError, is_async: bool) -> None:
    first, second = BreaksAfterText("first", error, error, error), BreaksAfterText("second")
    agent = Agent(FallbackProvider([first, second]))
    assert shown(agent, is_async=is_async) == "second "
    assert (first.asked, second.asked) == (1, 1)


def test_failures_before_and_in_mid_stream_leave_the_third_provider() -> None:
    error = ConnectionFailed("p", "reset")
    unreachable = Named("unreachable", [error] * 3)
    breaks, third = BreaksAfterText("breaks", error, error), BreaksAfterText("third")
    assert shown(Agent(FallbackProvider([unreachable, breaks, third])), is_async=False) == "third "
    assert (len(unreachable.requests), breaks.asked, third.asked) == (1, 1, 1)


def test_a_chain_begins_again_when_each_provider_has_failed_once() -> None:
    error = ConnectionFailed("p", "reset")
    first, second = BreaksAfterText("first", error), BreaksAfterText("second", error)
    agent = Agent(FallbackProvider([first, second]), config=AgentConfig(retry=AT_ONCE))
    assert shown(agent, is_async=False) == "first "
    assert (first.asked, second.asked) == (2, 1)


def test_each_provider_gets_its_own_model() -> None:
    provider, parts = chain([ConnectionFailed("p0", "x")] * 2, ["a", "b"], models=["big", "small"])
    provider.complete(ASK)
    assert [part.requests[0].model for part in parts] == ["big", "small"]
    provider, parts = chain([ConnectionFailed("p0", "x")], ["a"])
    provider.complete(ASK)
    assert [part.requests[0].model for part in parts] == ["m", "p1-model"]


def test_a_chain_needs_providers_and_a_model_for_each() -> None:
    with pytest.raises(InvalidOption, match="the providers of FallbackProvider must be one or more"):
        FallbackProvider([])
    with pytest.raises(InvalidOption, match="the number of models of FallbackProvider must be 2, one per provider"):
        chain(["a"], ["b"], models=["x"])


def test_observers_receive_a_fallback_and_the_meter_counts_the_answering_provider() -> None:
    provider, _ = chain(
        [ConnectionFailed("p0", "down")], [Completion(Message.assistant("hi"), Tokens(3, 1, cost_usd=0.5))]
    )
    events = list(Agent(provider).stream("x"))
    [fallback] = [event for event in events if isinstance(event, ProviderFallback)]
    assert (fallback.errors, fallback.provider) == (("p0: down",), "p1")
    assert final_result(events).usage.total_cost_usd == 0.5


def test_many_threads_share_a_chain_and_its_circuits() -> None:
    provider, parts = chain([ConnectionFailed("p0", "down")] * 100, ["b"] * 100, max_failures=3, clock=lambda: 0.0)
    agent = Agent(provider)
    assert [result.content for result in agent.batch(["x"] * 100, max_concurrency=16)] == ["b"] * 100
    assert 3 <= len(parts[0].requests) <= 3 + 16


class Costly(Provider):
    name = "costly"
    remote = True

    def complete(self, request: ModelRequest) -> Completion:
        return DONE


def test_a_real_request_in_a_test_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(Costly())

    async def stream() -> None:
        async for _ in agent.astream("x"):
            pass

    with forbid_model_requests():
        for run in (
            lambda: agent.run("x"),
            lambda: asyncio.run(agent.arun("x")),
            lambda: list(agent.stream("x")),
            lambda: asyncio.run(stream()),
        ):
            with pytest.raises(ModelRequestForbidden, match="a test must not send requests to costly"):
                run()


def test_a_chain_with_a_remote_member_is_remote() -> None:
    assert FallbackProvider([EchoProvider(), Costly()]).remote
    assert not FallbackProvider([EchoProvider()]).remote


def test_offline_forbids_what_needs_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGKIT_OFFLINE", "1")
    with monkeypatch.context() as patch:  # undone here, because the guard of all tests ends before monkeypatch does
        patch.setattr("ragkit.agent.providers.request_guard._RequestGuard.active", False)
        with pytest.raises(ModelRequestForbidden, match="RAGKIT_OFFLINE is 1, but costly needs a network"):
            Agent(Costly()).run("x")
        assert Agent(EchoProvider()).run("x").content == "x"


@tool(description="Wait.")
async def wait_a_little() -> str:
    await asyncio.sleep(0)
    return "waited"


@tool(description="Count.")
def count() -> Iterator[str]:
    yield "one "
    yield "two"


@tool(description="Count.")
async def acount() -> AsyncIterator[str]:
    yield "three "
    await asyncio.sleep(0)
    yield "four"


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_tools_of_every_kind_work_in_every_run(mode: str) -> None:
    calls = [call("wait_a_little", "c1"), call("count", "c2"), call("acount", "c3"), call("add", "c4", a=1, b=2)]
    agent, _ = scripted([calls, "ok"], [wait_a_little, count, acount, add], AgentConfig())
    result = agent.run("x") if mode == "sync" else asyncio.run(agent.arun("x"))
    assert [call.content for call in result.tool_calls] == ["waited", "one two", "three four", "3"]
    assert [call.chunks for call in result.tool_calls] == [0, 2, 2, 0]
