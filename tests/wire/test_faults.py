"""Faults: each is one typed error after one request; the agent loop decides about retries."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.loop.config import AgentConfig, RetryPolicy
from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.providers.base import (
    Completion,
    ModelRequest,
    ModelSettings,
    Provider,
    StreamDelta,
    TextDelta,
    get_completion,
)
from ragkit.agent.providers.error_mapping import (
    RequestTarget,
    ServiceErrorResponse,
    parse_retry_after,
    suggest_models,
    to_provider_error,
)
from ragkit.agent.providers.fallback import FallbackProvider
from ragkit.agent.providers.scripted import EchoProvider, ScriptedProvider
from ragkit.agent.runtime.cancellation import Cancellation
from ragkit.agent.tools.base import tool
from ragkit.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ContextTooLong,
    InvalidRequest,
    ModelNotFound,
    ProviderError,
    RateLimited,
    RequestTimeout,
    RunCancelled,
    ToolsNotSupported,
)
from tests.wire.dialects import AnthropicWire, GroqWire, OpenAIWire
from tests.wire.parts import MODELS, SERVICES, connect, serving
from tests.wire.server import Fault, Turn, WireServer, events

ASK = ModelRequest("", (Message.user("hi"),))
LONG = Turn(("many", "words", "that", "come", "one", "by", "one", ""))


def complete(provider: Provider, request: ModelRequest = ASK) -> Completion:
    return provider.complete(request)


def stream(provider: Provider, request: ModelRequest = ASK) -> object:
    return list(provider.stream(request))


def acomplete(provider: Provider, request: ModelRequest = ASK) -> Completion:
    return asyncio.run(provider.acomplete(request))


BROKEN = r"ended before|connection.* failed|invalid response"
METHODS = [complete, stream, acomplete]
STATUSES = [
    (400, InvalidRequest, "scripted"),
    (401, AuthenticationFailed, "the API key was rejected: scripted"),
    (402, AuthenticationFailed, "the account has no credit: scripted"),
    (403, AuthenticationFailed, "the API key was rejected: scripted"),
    (404, InvalidRequest, r"not found \(scripted\): is http://127.0.0.1:\d+(/v1)? the address of its API"),
    (408, RequestTimeout, "scripted"),
    (413, ContextTooLong, "scripted: send fewer or shorter messages, or choose a model with a larger context"),
    (429, RateLimited, "scripted"),
    (500, ConnectionFailed, "scripted"),
    (502, ConnectionFailed, "scripted"),
    (503, ConnectionFailed, "scripted"),
    (529, ConnectionFailed, "scripted"),
]


class LlamaCppWire(OpenAIWire):
    """Errors as llama.cpp's server sends them."""

    def refusal(self, fault: Fault) -> Any:
        return {"error": {"code": fault.status, "message": fault.message, "type": "unavailable_error"}}


LOADING = Fault(503, "Loading model")


@pytest.mark.parametrize("streaming", [False, True])
def test_a_server_that_loads_its_model_is_waited_for(streaming: bool) -> None:
    with WireServer(LlamaCppWire(), [LOADING, LOADING, LOADING, Turn(("Hello",))]) as server:
        provider = connect("openai", server.url)
        request = ModelRequest("", ASK.messages, settings=ModelSettings(timeout_s=20.0))
        started = time.monotonic()
        answer = get_completion(provider.stream(request), "openai") if streaming else provider.complete(request)
    assert answer.message.content == "Hello"
    assert len(server.seen) == 4
    assert time.monotonic() - started >= 1.5  # half a second after each refusal


def test_a_server_that_loads_for_longer_than_the_timeout_is_given_up_with_its_own_words() -> None:
    with WireServer(LlamaCppWire(), [LOADING] * 9) as server:
        request = ModelRequest("", ASK.messages, settings=ModelSettings(timeout_s=1.2))
        started = time.monotonic()
        with pytest.raises(ConnectionFailed, match="Loading model"):
            connect("openai", server.url).complete(request)
        assert time.monotonic() - started < 5
    assert len(server.seen) >= 2


def test_a_server_without_a_free_place_is_not_waited_for() -> None:
    script: list[Turn | Fault] = [Fault(503, "no slot available"), Turn(("Hello",))]
    with WireServer(LlamaCppWire(), script) as server, pytest.raises(ConnectionFailed, match="no slot"):
        connect("openai", server.url).complete(ASK)
    assert len(server.seen) == 1


@pytest.mark.parametrize("service", SERVICES)
def test_every_status_is_one_typed_error_and_no_sdk_retries(service: str) -> None:
    faults = [Fault(status) for status, _, _ in STATUSES for _ in METHODS]
    with serving(service, *faults) as (provider, server):
        for status, kind, words in STATUSES:
            for ask in METHODS:
                with pytest.raises(kind, match=f"^{service}: .*{words}") as caught:
                    ask(provider)
                assert (type(caught.value), caught.value.status) == (kind, status)
                assert caught.value.__cause__ is not None
    assert len(server.seen) == len(faults)


@pytest.mark.parametrize("ask", METHODS)
@pytest.mark.parametrize("service", SERVICES)
def test_a_rate_limit_has_the_delay_that_the_service_sent(service: str, ask: Callable[[Provider], object]) -> None:
    with serving(service, Fault(429, headers={"retry-after": "7"}), Fault(429)) as (provider, _):
        for expected in (7.0, None):
            with pytest.raises(RateLimited, match="scripted") as caught:
                ask(provider)
            assert caught.value.retry_after == expected


@pytest.mark.parametrize("service", SERVICES)
def test_the_delay_of_an_unavailable_service_is_used(service: str) -> None:
    with (
        serving(service, Fault(503, headers={"retry-after": "2"})) as (provider, _),
        pytest.raises(RateLimited, match="scripted") as caught,
    ):
        provider.complete(ASK)
    assert (caught.value.status, caught.value.retry_after) == (503, 2.0)


@pytest.mark.parametrize("service", SERVICES)
def test_an_unknown_model_is_an_error_with_a_hint(service: str) -> None:
    model = MODELS[service][:-1] + "x"
    with (
        serving(service, Fault(404, f"the model {model} does not exist")) as (provider, _),
        pytest.raises(ModelNotFound, match=f"has no model '{model}'") as caught,
    ):
        provider.complete(ModelRequest(model, ASK.messages))
    hint = f"ollama pull {model}" if service == "ollama" else f"did you mean '{MODELS[service]}'"
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("service", "status", "words", "code"),
    [
        ("openai", 400, "This model's maximum context length is 128000 tokens.", "context_length_exceeded"),
        ("anthropic", 400, "prompt is too long: 210000 tokens > 200000 maximum", "invalid_request_error"),
        ("gemini", 400, "The input token count (1048577) exceeds the maximum number allowed", "INVALID_ARGUMENT"),
        ("groq", 413, "Request too large for model", "rate_limit_exceeded"),
        ("ollama", 400, "the input length exceeds the context length", ""),
    ],
)
def test_too_long_messages_have_their_own_error(service: str, status: int, words: str, code: str) -> None:
    with (
        serving(service, Fault(status, words, code)) as (provider, _),
        pytest.raises(ContextTooLong, match=f"too long for {MODELS[service]}: ") as caught,
    ):
        provider.complete(ASK)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("service", "fault", "kind", "words"),
    [
        ("openai", Fault(429, "You exceeded your quota", "insufficient_quota"), AuthenticationFailed, "no credit"),
        (
            "gemini",
            Fault(400, "API key not valid.", "INVALID_ARGUMENT"),
            AuthenticationFailed,
            "the API key was rejected",
        ),
        ("groq", Fault(400, "Failed to call a function", "tool_use_failed"), ConnectionFailed, "Failed to call"),
        ("anthropic", Fault(529, "Overloaded", "overloaded_error"), ConnectionFailed, "Overloaded"),
    ],
)
def test_errors_in_the_format_of_a_single_service(
    service: str, fault: Fault, kind: type[ProviderError], words: str
) -> None:
    with serving(service, fault) as (provider, _), pytest.raises(kind, match=words):
        provider.complete(ASK)


@pytest.mark.parametrize("ask", METHODS)
@pytest.mark.parametrize("service", SERVICES)
def test_a_late_first_byte_is_a_timeout(service: str, ask: Callable[[Provider, ModelRequest], object]) -> None:
    hurried = ModelRequest("", ASK.messages, settings=ModelSettings(timeout_s=0.2))
    with serving(service, Turn(("warm",)), Fault(first_byte_after_s=3.0)) as (provider, _):
        provider.complete(ASK)
        started_at = time.monotonic()
        with pytest.raises(RequestTimeout, match=r"no answer within 0\.2 seconds"):
            ask(provider, hurried)
    assert time.monotonic() - started_at < 2.0


@pytest.mark.parametrize(
    "fault",
    [Fault(turn=LONG, cut_after=2), Fault(turn=LONG, half_after=2), Fault(turn=LONG, stop_after=2)],
    ids=["cut", "half a JSON", "ends early"],
)
@pytest.mark.parametrize("service", SERVICES)
def test_a_truncated_stream_is_an_error_after_its_deltas(service: str, fault: Fault) -> None:
    async def listen() -> None:
        async for delta in provider.astream(ASK):
            pieces.append(delta)

    pieces: list[StreamDelta] = []
    with serving(service, fault, fault) as (provider, server):
        with pytest.raises(ConnectionFailed, match=BROKEN):
            pieces.extend(provider.stream(ASK))
        with pytest.raises(ConnectionFailed, match=BROKEN):
            asyncio.run(listen())
        assert len(server.seen) == 2
    # Anthropic sends two events before the first text, OpenAI and Groq one
    words = 0 if service == "anthropic" else 1 if service in {"openai", "groq"} else 2
    assert pieces == [TextDelta(text) for text in LONG.text[:words]] * 2


@pytest.mark.parametrize("fault", [Fault(cut_after=0), Fault(half_after=0)], ids=["cut", "half a JSON"])
@pytest.mark.parametrize("service", SERVICES)
def test_a_truncated_response_is_an_error(service: str, fault: Fault) -> None:
    with serving(service, fault) as (provider, _), pytest.raises(ConnectionFailed, match=BROKEN):
        provider.complete(ASK)


@pytest.mark.parametrize("service", SERVICES)
def test_an_unreachable_server_is_named(service: str) -> None:
    with serving(service) as (_, server):
        url = server.url
    with pytest.raises(ConnectionFailed, match=f"connection at {url}"):
        connect(service, url).complete(ASK)


@pytest.mark.parametrize(
    ("service", "code", "kind"),
    [
        ("openai", "server_error", ConnectionFailed),
        ("openai", "rate_limit_exceeded", RateLimited),
        ("groq", "server_error", ConnectionFailed),
        ("anthropic", "overloaded_error", ConnectionFailed),
        ("anthropic", "rate_limit_error", RateLimited),
    ],
)
def test_an_error_in_the_middle_of_a_stream_is_raised(service: str, code: str, kind: type[ProviderError]) -> None:
    error = {"type": code, "code": code, "message": "the machine is on fire"}

    class OnFire(AnthropicWire if service == "anthropic" else OpenAIWire):  # type: ignore[misc]  # one of two
        def wrong(self, seen: object) -> str:
            return ""

        def pieces(self, turn: Turn) -> list[bytes]:
            name = "error" if service == "anthropic" else ""
            results: list[bytes] = super().pieces(turn)
            return [*results[:3], *events([(name, {"type": "error", "error": error})])]

    with (
        WireServer(OnFire(), [Turn(("so far",))]) as server,
        pytest.raises(kind, match="the machine is on fire") as caught,
    ):
        list(connect(service, server.url).stream(ASK))
    assert caught.value.retryable


def test_an_error_in_a_groq_chunk_is_raised() -> None:
    class Stopping(GroqWire):
        def ended(self, chunks: list[dict[str, Any]], turn: Turn) -> list[dict[str, Any]]:
            return [*chunks[:3], {**chunks[3], "x_groq": {"id": "req_1", "error": "over capacity"}}]

    with (
        WireServer(Stopping(), [LONG]) as server,
        pytest.raises(ConnectionFailed, match="groq: the stream ended with an error: over capacity"),
    ):
        list(connect("groq", server.url).stream(ASK))


@pytest.mark.parametrize("address", ["localhost:1", "http://[::1", "http://nobody.invalid"])
@pytest.mark.parametrize("service", [item for item in SERVICES if item != "ollama"])
def test_an_invalid_url_is_an_error_that_names_it(service: str, address: str) -> None:
    with pytest.raises(ConnectionFailed, match=f"^{service}: .* at {re.escape(address)}"):
        connect(service, address).complete(ASK)


# retries of the loop


@pytest.mark.parametrize("service", SERVICES)
def test_a_run_survives_a_rate_limit_a_broken_stream_and_an_unavailable_server(service: str) -> None:
    script = (Fault(429, headers={"retry-after": "0"}), Fault(500), Fault(turn=LONG, cut_after=1), Turn(("there",)))
    with serving(service, *script) as (provider, server):
        config = AgentConfig(retry=RetryPolicy(max_attempts=4, initial_wait_s=0.01))
        result = list(Agent(provider, config=config).stream("hi", retry_after_text=True))[-1]
        assert result.result.content == "there"  # type: ignore[attr-defined]  # the last event of a run
    assert len(server.seen) == 4


def test_a_run_does_not_retry_permanent_errors() -> None:
    with (
        serving("anthropic", Fault(401)) as (provider, server),
        pytest.raises(AuthenticationFailed, match="the API key was rejected"),
    ):
        Agent(provider).run("hi")
    assert len(server.seen) == 1


def test_a_fallback_chain_skips_an_unavailable_service() -> None:
    with serving("openai", Fault(500)) as (provider, _):
        result = Agent(FallbackProvider([provider, EchoProvider()])).run("hi")
    assert result.content == "hi"


@pytest.mark.parametrize("service", SERVICES)
def test_closing_a_stream_closes_the_connection(service: str) -> None:
    """The service detects the disconnect and stops generating paid output."""
    slow = Fault(turn=Turn(("word ",) * 500), pause_s=0.01)
    with serving(service, slow) as (provider, server):
        stream = provider.stream(ASK)
        assert next(stream) == TextDelta("word ")
        stream.close()  # type: ignore[attr-defined]  # a generator, as every stream of ours
        assert server.hung_up.wait(5)
    with serving(service, slow) as (provider, server):

        async def leave() -> None:
            async for delta in provider.astream(ASK):
                assert delta == TextDelta("word ")
                break
            await asyncio.to_thread(server.hung_up.wait, 5)

        asyncio.run(leave())
        assert server.hung_up.is_set()


@pytest.mark.parametrize("service", SERVICES)
def test_a_run_that_is_cancelled_closes_the_connection(service: str) -> None:
    slow = Fault(turn=Turn(("word ",) * 500), pause_s=0.01)
    with serving(service, slow) as (provider, server):
        cancel = Cancellation()
        threading.Timer(0.2, cancel.cancel).start()
        with pytest.raises(RunCancelled, match="the run was cancelled"):
            for _ in Agent(provider).stream("hi", cancel=cancel):
                pass
        assert server.hung_up.wait(5)


@pytest.mark.parametrize("service", SERVICES)
def test_a_cancelled_request_is_released(service: str) -> None:
    with serving(service, Turn(("warm",)), Fault(first_byte_after_s=1.0), Turn(("later",))) as (provider, server):
        provider.complete(ASK)

        async def leave() -> None:
            with pytest.raises(asyncio.TimeoutError):
                async with asyncio.timeout(0.3):
                    await provider.acomplete(ASK)

        asyncio.run(leave())
        assert len(server.seen) == 2
        assert provider.complete(ASK).message.content == "later"


@pytest.mark.parametrize("service", SERVICES)
def test_one_provider_works_in_several_event_loops_and_threads(service: str) -> None:
    with serving(service, *[Turn(("ok",))] * 24) as (provider, server):
        for _ in range(8):
            assert asyncio.run(provider.acomplete(ASK)).message.content == "ok"
        results: list[str] = []
        threads = [
            threading.Thread(target=lambda: results.append(provider.complete(ASK).message.content)) for _ in range(16)
        ]
        for item in threads:
            item.start()
        for item in threads:
            item.join()
        assert results == ["ok"] * 16
    assert len(server.seen) == 24


@pytest.mark.parametrize("stream", [False, True])
def test_an_async_tool_can_await_a_model(stream: bool) -> None:
    """The tool blocks the event loop of async tools; the model runs in another one."""
    with serving("openai", Turn(("inner",))) as (provider, _):

        @tool
        async def ask_the_model() -> str:
            """Ask."""
            answer = get_completion(provider.stream(ASK), "openai") if stream else provider.complete(ASK)
            return answer.message.content

        script = ScriptedProvider([ToolCall("ask_the_model", {}, "c1"), "done"])
        result = Agent(script, [ask_the_model]).run("hi")
    assert [item.content for item in result.tool_calls] == ["inner"]


def test_a_forked_process_opens_its_own_connections() -> None:
    with serving("openai", *[Turn(("ok",))] * 3) as (provider, _):
        assert provider.complete(ASK).message.content == "ok"
        pipe, far = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(
            target=lambda: far.send(provider.complete(ASK).message.content)
        )
        child.start()
        assert pipe.poll(20) and pipe.recv() == "ok"
        child.join()
        assert provider.complete(ASK).message.content == "ok"


# parsing of errors


def test_retry_after_is_read_in_every_form() -> None:
    assert parse_retry_after({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert parse_retry_after({"retry-after": "2.5"}) == 2.5
    assert parse_retry_after({"retry-after": "-1"}) == 0.0
    assert parse_retry_after({"retry-after": "soon"}) is None
    assert parse_retry_after({}) is None
    soon = parse_retry_after({"retry-after": format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)})
    assert soon is not None
    assert 28 < soon <= 30


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "no", "code": "c"}}, "no"),
        ({"error": "no"}, "no"),
        ("<html>" + "x" * 400, "<html>" + "x" * 291 + "..."),
        (None, "no reason given"),
        ("  two\n lines ", "two lines"),
    ],
)
def test_error_messages_are_read_from_every_body_format(body: Any, message: str) -> None:
    assert ServiceErrorResponse.parse(500, body).message == message


def test_an_unknown_model_error_suggests_similar_models() -> None:
    assert suggest_models("openai", "gpt-4o-mni")[0] == "gpt-4o-mini"
    assert suggest_models("gemini", "gemini-25-flash")[0] == "gemini-2.5-flash"
    assert suggest_models("openai", "zzz") == []


def test_errors_survive_a_process_pool() -> None:
    error = to_provider_error(RequestTarget("openai", "m"), ServiceErrorResponse(429, "slow down", retry_after=3.0))
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, RateLimited)
    assert (str(again), again.retry_after, again.status) == ("openai: slow down", 3.0, 429)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (500, "tools param requires --jinja flag"),
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (404, "No endpoints found that support tool use. To learn more, read the documentation"),
        (400, "`tool calling` is not supported with this model"),
        (400, "Function calling is not enabled for models/gemma-3"),
    ],
)
def test_a_service_whose_model_knows_no_tools_is_understood(status: int, words: str) -> None:
    target = RequestTarget("openai", "m")
    assert isinstance(to_provider_error(target, ServiceErrorResponse(status, words)), ToolsNotSupported)
    other = ServiceErrorResponse(400, "Unsupported parameter: 'temperature' is not supported with this model")
    assert not isinstance(to_provider_error(target, other), ToolsNotSupported)
