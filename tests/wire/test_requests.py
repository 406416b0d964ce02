"""The request bodies of each SDK: roles, tools, results, images, settings, keys."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ragkit.agent.messages import Image, Message, Role, ToolCall
from ragkit.agent.providers.base import ModelRequest, ModelSettings, get_completion
from ragkit.agent.providers.groq import GroqProvider
from ragkit.agent.providers.ollama import OllamaProvider
from ragkit.agent.providers.openai import OpenAIProvider
from ragkit.agent.tools.base import tool
from tests.wire.dialects import DIALECTS, OpenAIWire
from tests.wire.parts import MODELS, SERVICES, serving
from tests.wire.server import RecordedRequest, ToolCallTurn, Turn, WireServer


@tool
def add(a: int, b: int = 0) -> str:
    """Add two numbers."""
    return str(a + b)


PNG = base64.b64encode(b"\x89PNG picture").decode()
MESSAGES = (
    Message.system("Be brief."),
    Message(Role.USER, "What is this?", images=(Image(PNG, "image/png"),)),
    Message.assistant("Let me see.", [ToolCall("add", {"a": 1, "b": 2}, "c1"), ToolCall("add", {"a": 3}, "c2")]),
    Message(Role.TOOL, "3", tool_call_id="c1", name="add"),
    Message(Role.TOOL, "no b", tool_call_id="c2", name="add", is_error=True),
    Message.user("And now?"),
)
SCHEMA: dict[str, Any] = dict(add.parameters)
SETTINGS = ModelSettings(temperature=0.25, top_p=0.5, max_tokens=99)


def sent_body(service: str, request: ModelRequest, *, live: bool = False) -> RecordedRequest:
    """The request body that the service receives."""
    with serving(service, Turn(("ok",))) as (provider, server):
        if live:
            list(provider.stream(request))
        else:
            provider.complete(request)
    return server.seen[0]


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("service", ["openai", "groq"])
def test_chat_completions(service: str, live: bool) -> None:
    model = MODELS[service]
    seen = sent_body(service, ModelRequest(f"{service}:{model}", MESSAGES, (add,), SETTINGS), live=live)
    function = {"name": "add", "description": "Add two numbers.", "parameters": SCHEMA}
    assert seen.body == {
        "model": model,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                ],
            },
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1,"b":2}'}},
                    {"id": "c2", "type": "function", "function": {"name": "add", "arguments": '{"a":3}'}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "3"},
            {"role": "tool", "tool_call_id": "c2", "content": "no b"},
            {"role": "user", "content": "And now?"},
        ],
        "tools": [{"type": "function", "function": function}],
        "temperature": 0.25,
        "top_p": 0.5,
        "max_tokens": 99,
        **({"stream": True} if live else {}),
        **({"stream_options": {"include_usage": True}} if live and service == "openai" else {}),
    }
    assert seen.headers["authorization"] == "Bearer test-key"


@pytest.mark.parametrize("live", [False, True])
def test_anthropic_messages(live: bool) -> None:
    seen = sent_body("anthropic", ModelRequest("", MESSAGES, (add,), SETTINGS), live=live)
    assert seen.body == {
        "model": "claude-haiku-4-5",
        "max_tokens": 99,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                    {"type": "text", "text": "What is this?"},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me see."},
                    {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1, "b": 2}},
                    {"type": "tool_use", "id": "c2", "name": "add", "input": {"a": 3}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "3", "is_error": False},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "no b", "is_error": True},
                    {"type": "text", "text": "And now?"},
                ],
            },
        ],
        "tools": [{"name": "add", "description": "Add two numbers.", "input_schema": SCHEMA}],
        "temperature": 0.25,
        "top_p": 0.5,
        **({"stream": True} if live else {}),
    }
    assert seen.headers["anthropic-version"] >= "2023-06-01"


def test_anthropic_gets_no_temperature_by_default() -> None:
    body = sent_body("anthropic", ModelRequest("", (Message.user("hi"),))).body
    assert sorted(body) == ["max_tokens", "messages", "model"]


@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")  # newer versions of the SDK know the end of a model
@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-opus-4-5", "claude-opus-4-6-20260205"])
def test_anthropic_gets_a_temperature_for_models_that_accept_one(model: str) -> None:
    body = sent_body("anthropic", ModelRequest(model, (Message.user("hi"),), (), ModelSettings(temperature=0.0))).body
    assert body["temperature"] == 0.0


@pytest.mark.parametrize(
    "model",
    [
        *("claude-opus-4-7", "claude-opus-4-7-20260416", "claude-opus-4-8", "claude-opus-5-5", "claude-sonnet-5"),
        *("claude-haiku-5-5", "claude-fable-5-1", "claude-sonnet-4-10"),
    ],
)
def test_anthropic_gets_no_temperature_for_models_that_accept_none(model: str) -> None:
    body = sent_body("anthropic", ModelRequest(model, (Message.user("hi"),), (), SETTINGS)).body
    assert sorted(body) == ["max_tokens", "messages", "model"]


@pytest.mark.parametrize("live", [False, True])
def test_gemini(live: bool) -> None:
    seen = sent_body("gemini", ModelRequest("", MESSAGES, (add,), SETTINGS), live=live)
    method = "streamGenerateContent?alt=sse" if live else "generateContent"
    assert seen.path == f"/v1/models/gemini-2.5-flash:{method}"
    assert seen.headers["x-goog-api-key"] == "test-key"
    assert seen.body == {
        "systemInstruction": {"parts": [{"text": "Be brief."}], "role": "user"},
        "contents": [
            {
                "role": "user",
                "parts": [{"text": "What is this?"}, {"inlineData": {"data": PNG, "mime_type": "image/png"}}],
            },
            {
                "role": "model",
                "parts": [
                    {"text": "Let me see."},
                    {"functionCall": {"id": "c1", "name": "add", "args": {"a": 1, "b": 2}}},
                    {"functionCall": {"id": "c2", "name": "add", "args": {"a": 3}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "c1", "name": "add", "response": {"result": "3"}}},
                    {"functionResponse": {"id": "c2", "name": "add", "response": {"error": "no b"}}},
                    {"text": "And now?"},
                ],
            },
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "add", "description": "Add two numbers.", "parameters_json_schema": SCHEMA}
                ]
            }
        ],
        "generationConfig": {"temperature": 0.25, "topP": 0.5, "maxOutputTokens": 99},
    }


@pytest.mark.parametrize("live", [False, True])
def test_ollama(live: bool) -> None:
    seen = sent_body("ollama", ModelRequest("", MESSAGES, (add,), SETTINGS), live=live)
    (declared,) = seen.body.pop("tools")
    assert (declared["type"], declared["function"]["name"]) == ("function", "add")
    assert declared["function"]["parameters"]["required"] == ["a"]
    assert sorted(declared["function"]["parameters"]["properties"]) == ["a", "b"]
    assert seen.body == {
        "model": "llama3.2",
        "stream": live,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "What is this?", "images": [PNG]},
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [
                    {"function": {"name": "add", "arguments": {"a": 1, "b": 2}}},
                    {"function": {"name": "add", "arguments": {"a": 3}}},
                ],
            },
            {"role": "tool", "content": "3", "tool_name": "add"},
            {"role": "tool", "content": "no b", "tool_name": "add"},
            {"role": "user", "content": "And now?"},
        ],
        "options": {"temperature": 0.25, "top_p": 0.5, "num_predict": 99, "num_ctx": 4096},
    }


@pytest.mark.parametrize("model", ["o4-mini", "gpt-5.4-mini", "gpt-6-sol", "openai/gpt-5-mini"])
def test_reasoning_models_get_no_temperature_and_max_completion_tokens(model: str) -> None:
    body = sent_body("openai", ModelRequest(model, (Message.user("hi"),), (), SETTINGS)).body
    assert body == {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 99}


@pytest.mark.parametrize("model", ["gpt-4o", "openai/gpt-oss-120b", "qwen3:8b"])
def test_other_models_get_temperature_and_max_tokens(model: str) -> None:
    body = sent_body("openai", ModelRequest(model, (Message.user("hi"),), (), SETTINGS)).body
    assert (body["temperature"], body["max_tokens"]) == (0.25, 99)


CLOSED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
OPEN = {"type": "object", "properties": {"n": {"type": "integer"}}}


def sent_format(service: str, schema: dict[str, Any], *, tools: bool = False, model: str = "") -> dict[str, Any]:
    """The request body with a response format."""
    settings = ModelSettings(response_schema=schema)
    body: dict[str, Any] = sent_body(
        service, ModelRequest(model, (Message.user("hi"),), (add,) if tools else (), settings)
    ).body
    return body


def test_a_response_format_is_sent_in_the_format_of_each_service() -> None:
    form = {"name": "answer", "schema": CLOSED, "strict": True}
    for service in ("openai", "groq"):
        assert sent_format(service, CLOSED)["response_format"] == {"type": "json_schema", "json_schema": form}
    assert sent_format("openai", OPEN)["response_format"]["json_schema"]["strict"] is False
    closed = {"type": "json_schema", "schema": {**OPEN, "additionalProperties": False}}
    assert sent_format("anthropic", OPEN)["output_config"] == {"format": closed}
    gemini = sent_format("gemini", CLOSED)["generationConfig"]
    assert (gemini["responseMimeType"], gemini["responseJsonSchema"]) == ("application/json", CLOSED)
    assert sent_format("ollama", CLOSED)["format"] == CLOSED


def test_a_service_without_tools_and_format_together_gets_the_format_in_the_system_prompt() -> None:
    words = "When you answer, answer with JSON alone that keeps this JSON Schema:"
    body = sent_format("ollama", CLOSED, tools=True)
    assert "format" not in body
    assert body["messages"][0]["content"].startswith(words)
    body = sent_format("gemini", CLOSED, tools=True)
    assert "responseMimeType" not in body["generationConfig"]
    assert body["systemInstruction"]["parts"][0]["text"].startswith(words)
    body = sent_format("gemini", CLOSED, tools=True, model="gemini-3.8-flash")
    assert body["generationConfig"]["responseJsonSchema"] == CLOSED


@pytest.mark.parametrize("service", SERVICES)
def test_malformed_arguments_are_sent_back_empty(service: str) -> None:
    messages = (
        Message.user("hi"),
        Message.assistant("", [ToolCall("add", {}, "c1", malformed='{"a": ')]),
        Message(Role.TOOL, "not JSON", tool_call_id="c1", name="add", is_error=True),
    )
    sent_body(service, ModelRequest("", messages, (add,)))  # the server rejects malformed arguments


@pytest.mark.parametrize("service", SERVICES)
def test_an_empty_earlier_answer_is_accepted(service: str) -> None:
    messages = (Message.user("hi"), Message.assistant(""), Message.user("are you there?"))
    body = sent_body(service, ModelRequest("", messages)).body
    assert "are you there?" in str(body)


def test_groq_puts_its_system_instruction_first() -> None:
    with WireServer(DIALECTS["groq"], [Turn(("ok",))]) as server:
        provider = GroqProvider("m", "Speak Latin.", api_key="test-key", base_url=server.url)
        provider.complete(ModelRequest("", (Message.system("Be brief."), Message.user("hi"))))
    assert server.seen[0].body["messages"] == [
        {"role": "system", "content": "Speak Latin."},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]


def test_a_compatible_server_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    class Anyone(OpenAIWire):
        def wrong(self, seen: RecordedRequest) -> str:
            return ""

    with WireServer(Anyone(), [Turn(("ok",))]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        assert OpenAIProvider().complete(ModelRequest("local", (Message.user("hi"),))).message.content == "ok"
    assert server.seen[0].path == "/v1/chat/completions"


def test_the_context_window_of_ollama_can_be_set() -> None:
    with WireServer(DIALECTS["ollama"], [Turn(("ok",))]) as server:
        OllamaProvider("m", base_url=server.url, context_window=16384).complete(ModelRequest("", (Message.user("hi"),)))
    assert server.seen[0].body["options"]["num_ctx"] == 16384


@pytest.mark.parametrize(("words", "tokens"), [(10, 4096), (10_000, 32_768), (1_000_000, 131_072)])
def test_ollama_gets_room_for_what_is_sent(words: int, tokens: int) -> None:
    with WireServer(DIALECTS["ollama"], [Turn(("ok",))]) as server:
        OllamaProvider("m", base_url=server.url).complete(ModelRequest("", (Message.user("word " * words),)))
    assert server.seen[0].body["options"]["num_ctx"] == tokens


@pytest.mark.parametrize(
    ("host", "remote"),
    [
        ("", False),
        ("localhost:11434", False),
        ("http://127.0.0.1:1", False),
        ("0.0.0.0", False),
        ("[::1]:11434", False),
        ("http://gpu.example:11434", True),
        ("10.0.0.7:11434", True),
        ("https://ollama.com", True),
    ],
)
def test_ollama_on_another_machine_is_remote(host: str, remote: bool) -> None:
    assert OllamaProvider(base_url=host).remote is remote


def test_signed_thinking_is_sent_with_the_next_request() -> None:
    turn = Turn(calls=(ToolCallTurn("add", {"a": 1}, "c1"),), thought="add them")
    for live in (False, True):
        for service in ("anthropic", "gemini", "openai"):
            with serving(service, turn, Turn(("ok",))) as (provider, server):
                ask = ModelRequest("", (Message.user("hi"),), (add,))
                answer = get_completion(provider.stream(ask), service) if live else provider.complete(ask)
                result = Message(Role.TOOL, "1", tool_call_id="c1", name="add")
                # through JSON, like a stored conversation
                output = Message.from_dict(answer.message.to_dict())
                provider.complete(ModelRequest("", (*ask.messages, output, result), (add,)))
            assert answer.message.reasoning == "add them"
            again = server.seen[1].body
            if service == "anthropic":
                thought = {"type": "thinking", "thinking": "add them", "signature": "signed"}
                assert again["messages"][1]["content"][0] == thought
            elif service == "openai":
                assert again["messages"][1]["reasoning_content"] == "add them"
            else:
                part = again["contents"][1]["parts"][0]
                assert (part["functionCall"]["name"], part["thoughtSignature"]) == ("add", SIGNATURE)


SIGNATURE = base64.b64encode(b"signed").decode()
