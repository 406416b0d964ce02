"""Parsed responses: text, tool calls, thinking, stop reasons, tokens; complete and streamed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.providers.base import (
    Completion,
    ModelRequest,
    Provider,
    StreamCompleted,
    StreamDelta,
    TextDelta,
    ToolCallDelta,
)
from ragkit.errors import ConnectionFailed
from ragkit.usage.tokens import Tokens
from tests.wire.dialects import AnthropicWire, GeminiWire, OpenAIWire
from tests.wire.parts import MODELS, SERVICES, connect, serving
from tests.wire.server import Dialect, Fault, ToolCallTurn, Turn, WireServer

ASK = ModelRequest("", (Message.user("hi"),))
TURN = Turn(
    text=("Let ", "me ", "s\xe9e \N{WAVING HAND SIGN}."),
    calls=(ToolCallTurn("add", {"a": 1, "b": [2.5, None]}, "c1"), ToolCallTurn("now", {}, "c2")),
    thought="add them, then look",
    prompt_tokens=120,
    completion_tokens=40,
    cached_tokens=100,
)


def answers_by_method(provider: Provider, request: ModelRequest = ASK) -> list[Completion]:
    """The answer by each of the four methods."""

    async def both() -> list[Completion]:
        streamed = [delta async for delta in provider.astream(request)]
        return [await provider.acomplete(request), completed(streamed)]

    return [provider.complete(request), completed(list(provider.stream(request))), *asyncio.run(both())]


def completed(deltas: list[StreamDelta]) -> Completion:
    assert isinstance(deltas[-1], StreamCompleted)
    return deltas[-1].completion


@pytest.mark.parametrize("service", SERVICES)
def test_the_four_methods_give_the_same_answer(service: str) -> None:
    with serving(service, *[TURN] * 4) as (provider, server):
        result = answers_by_method(provider)
    message = result[0].message
    assert (message.content, message.reasoning) == ("Let me s\xe9e \N{WAVING HAND SIGN}.", "add them, then look")
    ids = ("", "") if service == "ollama" else ("c1", "c2")
    assert message.tool_calls == (ToolCall("add", {"a": 1, "b": [2.5, None]}, ids[0]), ToolCall("now", {}, ids[1]))
    cached, cost = (0, 0.0) if service == "ollama" else (100, None)
    assert result[0].usage == Tokens(120, 40, cached, cost_usd=cost)
    assert (result[0].stop_reason, result[0].model) == ("tool_calls", MODELS[service])
    assert result[1:] == [result[0]] * 3
    assert [server.dialect.streams(seen) for seen in server.seen] == [False, True, True, False]


@pytest.mark.parametrize("service", SERVICES)
def test_a_stream_yields_each_delta_when_it_arrives(service: str) -> None:
    with serving(service, TURN) as (provider, _):
        deltas = list(provider.stream(ASK))
    assert [item.text for item in deltas if isinstance(item, TextDelta)] == list(TURN.text)
    calls: dict[int, list[str]] = {}
    for item in deltas:
        if isinstance(item, ToolCallDelta):
            name, arguments = calls.setdefault(item.index, ["", ""])
            calls[item.index] = [name + item.name, arguments + item.arguments]
    arguments = calls[0][1].replace(" ", "")
    assert (calls[0][0], arguments, calls[1][0]) == ("add", '{"a":1,"b":[2.5,null]}', "now")
    assert sorted(calls) == [0, 1]


@pytest.mark.parametrize("service", ["openai", "anthropic", "groq"])
def test_arguments_are_streamed_as_the_model_writes_them(service: str) -> None:
    turn = Turn(calls=(ToolCallTurn("add", {"a": 11, "b": 22}, "c1"),))
    with serving(service, turn) as (provider, _):
        deltas = [item for item in provider.stream(ASK) if isinstance(item, ToolCallDelta)]
    pieces = [item.arguments for item in deltas if item.arguments]
    assert (deltas[0].name, deltas[0].id, pieces) == ("add", "c1", ['{"a": 11,', ' "b": 22}'])


STOPS = [
    ("openai", "length", "length"),
    ("openai", "content_filter", "content_filter"),
    ("groq", "length", "length"),
    ("anthropic", "max_tokens", "length"),
    ("anthropic", "model_context_window_exceeded", "length"),
    ("anthropic", "refusal", "refusal"),
    ("anthropic", "stop_sequence", "stop"),
    ("gemini", "MAX_TOKENS", "length"),
    ("gemini", "SAFETY", "content_filter"),
    ("gemini", "MALFORMED_FUNCTION_CALL", "malformed_function_call"),
    ("ollama", "length", "length"),
]


@pytest.mark.parametrize(("service", "said", "reason"), STOPS)
def test_stop_reasons_are_the_same_for_every_service(service: str, said: str, reason: str) -> None:
    with serving(service, *[Turn(("so far",), stop=said)] * 2) as (provider, _):
        assert provider.complete(ASK).stop_reason == reason
        assert completed(list(provider.stream(ASK))).stop_reason == reason


@pytest.mark.parametrize("service", ["openai", "groq"])
def test_a_tool_call_truncated_by_the_token_limit_is_not_completed(service: str) -> None:
    """`{"path": "/tmp/ab` could be repaired to another path than the model meant."""
    turn = Turn(calls=(ToolCallTurn("remove", {}, "c1"),), arguments='{"path": "/tmp/ab', stop="length")
    with serving(service, turn) as (provider, _):
        (call,) = provider.complete(ASK).message.tool_calls
    assert call == ToolCall("remove", {}, "c1", malformed='{"path": "/tmp/ab')


@pytest.mark.parametrize("service", ["openai", "groq"])
def test_arguments_that_are_nearly_json_are_read(service: str) -> None:
    turn = Turn(calls=(ToolCallTurn("add", {}, "c1"),), arguments='{"a": 1, "b": 2,}')
    with serving(service, turn) as (provider, _):
        assert provider.complete(ASK).message.tool_calls == (ToolCall("add", {"a": 1, "b": 2}, "c1"),)


def test_a_refusal_of_openai_is_text_and_a_reason_to_stop() -> None:
    class Refusing(OpenAIWire):
        def whole(self, turn: Turn) -> Any:
            result = super().whole(turn)
            result["choices"][0]["message"] |= {"content": None, "refusal": "I cannot help with that."}
            return result

    result = complete(Refusing(), "openai")
    assert (result.message.content, result.stop_reason) == ("I cannot help with that.", "refusal")


def test_a_question_blocked_by_gemini_has_an_empty_answer_and_the_stop_reason() -> None:
    class Blocking(GeminiWire):
        def whole(self, turn: Turn) -> Any:
            return {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 7}}

    result = complete(Blocking(), "gemini")
    assert (result.message.content, result.stop_reason, result.usage) == ("", "content_filter", Tokens(7))


def test_gemini_thinking_tokens_are_counted_and_priced() -> None:
    class Thinking(GeminiWire):
        def whole(self, turn: Turn) -> Any:
            result = super().whole(turn)
            result["usageMetadata"] |= {"thoughtsTokenCount": 30, "toolUsePromptTokenCount": 4}
            return result

    assert complete(Thinking(), "gemini").usage == Tokens(14, 35)


def test_anthropic_cache_writes_are_counted() -> None:
    class Writing(AnthropicWire):
        def usage(self, turn: Turn) -> dict[str, Any]:
            return {**super().usage(turn), "cache_creation_input_tokens": 50}

    expected = Tokens(60, 5, 0, 50)
    assert complete(Writing(), "anthropic").usage == expected
    with WireServer(Writing(), [Turn(("ok",), prompt_tokens=10, completion_tokens=5)]) as server:
        assert completed(list(connect("anthropic", server.url).stream(ASK))).usage == expected


def test_redacted_thinking_of_anthropic_is_sent_with_the_next_request() -> None:
    class Hiding(AnthropicWire):
        def whole(self, turn: Turn) -> Any:
            result = super().whole(turn)
            return {**result, "content": [{"type": "redacted_thinking", "data": "xyz"}, *result["content"]]}

    state = complete(Hiding(), "anthropic").message.provider_state
    assert state == {"anthropic": [{"type": "redacted_thinking", "data": "xyz"}]}


def complete(dialect: Dialect, service: str) -> Completion:
    """The completion of a service with this wire format."""
    with WireServer(dialect, [Turn(("ok",), prompt_tokens=10, completion_tokens=5)]) as server:
        return connect(service, server.url).complete(ASK)


@pytest.mark.parametrize("service", ["openai", "groq"])
def test_the_model_that_answered_is_reported_if_it_differs(service: str) -> None:
    with serving(service, *[Turn(("ok",))] * 2) as (provider, _):
        routed = provider.complete(ModelRequest("router", ASK.messages))
        dated = provider.complete(ModelRequest(MODELS[service], ASK.messages))
    assert routed.model in {"gpt-4o-mini-2024-07-18", "llama-3.3-70b-versatile"}
    assert dated.model == MODELS[service]


@pytest.mark.parametrize("service", ["openai", "groq", "anthropic"])
def test_a_web_page_instead_of_an_api_response_is_an_error(service: str) -> None:
    class Page(OpenAIWire):
        def wrong(self, seen: object) -> str:
            return ""

        def streams(self, seen: object) -> bool:
            return False

        def whole(self, turn: Turn) -> Any:
            return b"<html>Sign in to the guest network</html>"

    with (
        WireServer(Page(), [Turn()]) as server,
        pytest.raises(ConnectionFailed, match=r"invalid response.*<html>Sign in") as caught,
    ):
        connect(service, server.url).complete(ASK)
    assert server.url in str(caught.value)


def test_a_stream_without_usage_is_accepted() -> None:
    class Silent(OpenAIWire):
        def ended(self, chunks: list[dict[str, Any]], turn: Turn) -> list[dict[str, Any]]:
            return chunks

    with WireServer(Silent(), [Turn(("ok",), prompt_tokens=10)]) as server:
        result = completed(list(connect("openai", server.url).stream(ASK)))
    assert (result.message.content, result.usage) == ("ok", Tokens())


def test_an_answer_in_pieces_of_one_byte_is_the_same_answer() -> None:
    class Dribbling(OpenAIWire):
        def pieces(self, turn: Turn) -> list[bytes]:
            return [bytes([item]) for piece in super().pieces(turn) for item in piece]

    with WireServer(Dribbling(), [TURN, TURN]) as server:
        provider = connect("openai", server.url)
        assert completed(list(provider.stream(ASK))) == provider.complete(ASK)


@pytest.mark.parametrize("service", SERVICES)
def test_pauses_between_deltas_are_not_errors(service: str) -> None:
    with serving(service, Fault(turn=TURN, pause_s=0.02)) as (provider, _):
        assert completed(list(provider.stream(ASK))).stop_reason == "tool_calls"
