"""The official OpenAI client against the server."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest

from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest
from ragkit.agent.providers.scripted import FunctionProvider, ScriptedProvider
from ragkit.errors import AuthenticationFailed, ContextTooLong, InvalidRequest, ProviderError, RateLimited
from ragkit.server.api.dependencies import AppContext
from ragkit.server.settings import ServerSettings
from ragkit.usage.tokens import Tokens
from tests.server.parts import SEARCH, SECONDS, StepProvider, limited, serving
from tests.server.transcripts import recorded

QUESTION: Any = [{"role": "user", "content": "When is the hedge cut?"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a town.",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
    },
}
PIXEL = "data:image/png;base64,iVBORw0KGgo="
ASKS_WEATHER = ToolCall("get_weather", {"town": "Oslo"}, "call_1")
CITED = "It is cut in August [1]."


OPEN = ExitStack()


def connect(url: str, key: str = "unused") -> openai.OpenAI:
    address = OPEN.enter_context(recorded(url, "openai"))
    return OPEN.enter_context(openai.OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0, timeout=SECONDS))


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    OPEN.close()


def test_an_answer_has_text_usage_citations_and_annotations(base: Path) -> None:
    turn = Completion(Message.assistant(CITED), Tokens(20, 5, 4, cost_usd=0.0))
    with serving(base, ScriptedProvider([SEARCH, turn])) as (served, _):
        result = connect(served.url).chat.completions.create(model="ragkit", messages=QUESTION)
        choice = result.choices[0]
        assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", CITED, "stop")
        assert (result.object, result.model) == ("chat.completion", "ragkit")
        assert result.usage is not None
        assert result.usage.completion_tokens == 5
        assert result.usage.total_tokens == result.usage.prompt_tokens + 5
        extra: Any = result.model_extra
        [citation] = extra["citations"]
        assert (citation["quote"], citation["verified"]) == ("The hedge is cut in August.", True)
        assert (extra["abstained"], extra["session_id"]) == (False, None)
        annotations: Any = choice.message.annotations
        [cited] = [item.url_citation for item in annotations]
        assert CITED[cited.start_index : cited.end_index] == "[1]"
        with served.client() as client:
            document = client.get(cited.url).json()
        lines = document["text"].split("\n")
        assert lines[citation["start_line"] - 1] == "The hedge is cut in August."


def test_a_streamed_answer_is_the_same_and_ends_with_usage(base: Path) -> None:
    with serving(base, ScriptedProvider([SEARCH, CITED])) as (served, _):
        stream = connect(served.url).chat.completions.create(
            model="ragkit", messages=QUESTION, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == CITED
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-2:] == [None, "stop"]
    last: Any = chunks[-1]
    assert (last.choices, last.citations[0]["n"], last.abstained) == ([], 1, False)
    assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens
    assert len({chunk.id for chunk in chunks}) == 1


def test_without_include_usage_every_chunk_has_a_choice(base: Path) -> None:
    with serving(base, ScriptedProvider([SEARCH, CITED])) as (served, _):
        chunks = list(connect(served.url).chat.completions.create(model="ragkit", messages=QUESTION, stream=True))
    assert all(len(chunk.choices) == 1 for chunk in chunks)
    last: Any = chunks[-1]
    assert last.trace_id.startswith("trace_")


def test_without_a_model_the_answer_is_extractive(base: Path) -> None:
    with serving(base) as (served, _):
        result: Any = connect(served.url).chat.completions.create(model="ragkit", messages=QUESTION)
    assert result.choices[0].message.content.startswith("The hedge is cut in August.")
    assert result.citations[0]["verified"]
    assert result.answered_by == "extractive"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_call_of_the_callers_tool_is_returned_and_the_run_resumes_with_its_result(base: Path, streamed: bool) -> None:
    provider = ScriptedProvider([SEARCH, ASKS_WEATHER, "In Oslo it rains, and the hedge is cut in August [1]."])
    with serving(base, provider) as (served, _):
        client = connect(served.url)
        call = _first_call(client, streamed)
        assert (call["name"], call["arguments"]) == ("get_weather", '{"town":"Oslo"}')
        tool_call = {"type": "function", "id": call["id"], "function": {k: call[k] for k in ("name", "arguments")}}
        conversation = [*QUESTION, {"role": "assistant", "content": None, "tool_calls": [tool_call]}]
        conversation.append({"role": "tool", "tool_call_id": call["id"], "content": "rain"})
        result: Any = client.chat.completions.create(model="ragkit", messages=conversation, tools=[WEATHER])
    assert result.choices[0].message.content == "In Oslo it rains, and the hedge is cut in August [1]."
    assert result.citations[0]["quote"] == "The hedge is cut in August."
    messages = provider.requests[-1].messages
    assert [message.role.value for message in messages] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert "rain" in messages[-1].content


def _first_call(client: openai.OpenAI, streamed: bool) -> dict[str, str]:
    if not streamed:
        result = client.chat.completions.create(model="ragkit", messages=QUESTION, tools=[WEATHER])
        assert result.choices[0].finish_reason == "tool_calls"
        calls: Any = result.choices[0].message.tool_calls
        [call] = calls
        return {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
    chunks = list(client.chat.completions.create(model="ragkit", messages=QUESTION, tools=[WEATHER], stream=True))
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    pieces: Any = [item for chunk in chunks for item in chunk.choices[0].delta.tool_calls or ()]
    [piece] = pieces
    return {"id": piece.id, "name": piece.function.name, "arguments": piece.function.arguments}


def test_tool_results_without_a_suspended_run_are_part_of_the_conversation(base: Path) -> None:
    provider = ScriptedProvider(["Umbrella."])
    tool_call = {"type": "function", "id": "call_far", "function": {"name": "get_weather", "arguments": "{}"}}
    conversation: Any = [
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [tool_call]},
        {"role": "tool", "tool_call_id": "call_far", "content": "rain"},
    ]
    with serving(base, provider) as (served, _):
        result = connect(served.url).chat.completions.create(model="ragkit", messages=conversation, tools=[WEATHER])
    assert result.choices[0].message.content == "Umbrella."
    assert "rain" in provider.requests[0].messages[-1].content


def test_a_missing_tool_result_is_an_error(base: Path) -> None:
    both = [ASKS_WEATHER, ToolCall("get_weather", {"town": "Rome"}, "call_2")]
    with serving(base, ScriptedProvider([both])) as (served, _):
        client = connect(served.url)
        result = client.chat.completions.create(model="ragkit", messages=QUESTION, tools=[WEATHER])
        calls: Any = result.choices[0].message.tool_calls
        assert len(calls) == 2
        assistant: Any = {"role": "assistant", "tool_calls": [item.model_dump() for item in calls]}
        conversation = [*QUESTION, assistant, {"role": "tool", "tool_call_id": calls[0].id, "content": "rain"}]
        with pytest.raises(openai.BadRequestError, match="missing tool results: get_weather"):
            client.chat.completions.create(model="ragkit", messages=conversation, tools=[WEATHER])


def test_request_options_reach_the_model(base: Path) -> None:
    provider = ScriptedProvider(["Yes."])
    conversation: Any = [
        {"role": "system", "content": "Speak like a gardener."},
        {"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "two?"}]},
    ]
    with serving(base, provider) as (served, _):
        connect(served.url).chat.completions.create(
            model="ragkit", messages=conversation, temperature=0.1, top_p=0.5, max_tokens=17
        )
    [request] = provider.requests
    settings = request.settings
    assert (settings.temperature, settings.top_p, settings.max_tokens) == (0.1, 0.5, 17)
    assert request.messages[0].content.startswith("Answer from the passages")
    assert "Speak like a gardener." in request.messages[0].content
    assert request.messages[1].content == "One\ntwo?"


def test_the_filter_of_a_request_applies_to_every_search_of_the_model(base: Path) -> None:
    widened = ToolCall("search_knowledge_base", {"query": "hedge", "where": "year >= 2000"}, "call_1")
    with serving(base, ScriptedProvider([widened, "The boiler [1]."])) as (served, _):
        result: Any = connect(served.url).chat.completions.create(
            model="ragkit", messages=QUESTION, extra_body={"where": {"year": {"$lt": 2020}}, "top_k": 5}
        )
    assert [item["source"].rpartition("/")[2] for item in result.citations] == ["house.md"]


def test_a_session_keeps_the_conversation(base: Path) -> None:
    provider = ScriptedProvider([SEARCH, CITED, "As I said: August [1]."])
    with serving(base, provider) as (served, client):
        session = client.post("/session/start", json={}).json()["id"]
        chat = connect(served.url).chat.completions
        first: Any = chat.create(model="ragkit", messages=QUESTION, extra_body={"session_id": session})
        assert first.session_id == session
        again: Any = [{"role": "user", "content": "When?"}]
        chat.create(model="ragkit", messages=again, extra_body={"session_id": session})
        history = client.get(f"/session/{session}").json()["history"]
    assert [item["content"] for item in history] == [QUESTION[0]["content"], CITED, "When?", "As I said: August [1]."]
    contents = [item.content for item in provider.requests[-1].messages[1:]]
    assert contents == ["When is the hedge cut?", CITED, "When?"]


def test_an_answer_with_a_response_format_is_json(base: Path) -> None:
    form: Any = {
        "type": "json_schema",
        "json_schema": {
            "name": "month",
            "schema": {"type": "object", "properties": {"month": {"type": "string"}}, "required": ["month"]},
        },
    }
    with serving(base, ScriptedProvider([SEARCH, '{"month": "August"}'])) as (served, _):
        result = connect(served.url).chat.completions.create(model="ragkit", messages=QUESTION, response_format=form)
    assert result.choices[0].message.content == '{"month": "August"}'


def test_models_are_listed_and_found(base: Path) -> None:
    with serving(base, settings=ServerSettings(port=0, models=("extractive", "echo"))) as (served, _):
        client = connect(served.url)
        names = [item.id for item in client.models.list()]
        assert names[:3] == ["ragkit", "extractive", "echo"]
        assert client.models.retrieve("echo").owned_by == "ragkit"
        with pytest.raises(openai.NotFoundError, match="unknown model"):
            client.models.retrieve("gpt-4o")
        with pytest.raises(openai.NotFoundError, match="available: ragkit, extractive, echo"):
            client.chat.completions.create(model="gpt-4o", messages=QUESTION)
        with pytest.raises(openai.NotFoundError, match="'local:hashing' embeds texts, it does not answer; available: "):
            client.chat.completions.create(model=names[-1], messages=QUESTION)
        result: Any = client.chat.completions.create(model="echo", messages=QUESTION)
        assert result.choices[0].message.content == "When is the hedge cut?"


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_embeddings_are_those_of_the_knowledge_base(base: Path, encoding: Any) -> None:
    with serving(base) as (served, _):
        client = connect(served.url)
        result = client.embeddings.create(model="ragkit", input=["hedge", "boiler"], encoding_format=encoding)
        expected = served.kb.components.embedder.embed_texts(["hedge", "boiler"])
        for row, item in zip(expected, result.data, strict=True):
            raw: Any = item.embedding
            actual = (
                np.frombuffer(base64.b64decode(raw), "<f4") if isinstance(raw, str) else np.asarray(raw, np.float32)
            )
            assert np.array_equal(actual, row)
        assert [item.index for item in result.data] == [0, 1]
        default = client.embeddings.create(model="ragkit", input="hedge")
        assert np.allclose(default.data[0].embedding, expected[0])
        with pytest.raises(openai.BadRequestError, match=r"dimensions must be 64 \(got 3\): vectors of .* cannot be"):
            client.embeddings.create(model="ragkit", input="hedge", dimensions=3)
        assert len(client.embeddings.create(model="ragkit", input="hedge", dimensions=64).data[0].embedding) == 64
        with pytest.raises(openai.BadRequestError, match=r"token ids need tiktoken .*check_embedding_ctx_length=False"):
            client.embeddings.create(model="ragkit", input=[[1, 2]])
        assert len(client.embeddings.create(model="ragkit", input=["hedge"] * 2048).data) == 2048
        with pytest.raises(openai.BadRequestError, match=r"1 to 2048 texts \(got 2049\)"):
            client.embeddings.create(model="ragkit", input=["hedge"] * 2049)
        long = ["The hedge is cut in August. " * 130] * 2048  # 7 MB: chunks as long as other programs make them
        assert len(client.embeddings.create(model="ragkit", input=long).data) == 2048


def test_vectors_are_shortened_only_if_their_model_is_trained_for_it(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AppContext, "embedder_name", "openai:text-embedding-3-small")
    with serving(base) as (served, _):
        client = connect(served.url)
        [row] = [item.embedding for item in client.embeddings.create(model="ragkit", input="hedge", dimensions=16).data]
        whole = served.kb.components.embedder.embed_texts(["hedge"])[0, :16]
        assert np.allclose(row, whole / np.linalg.norm(whole), atol=1e-6)
        with pytest.raises(openai.BadRequestError, match=r"dimensions must be at most 64 \(got 65\)"):
            client.embeddings.create(model="ragkit", input="hedge", dimensions=65)


def test_an_answer_ends_before_a_stop_sequence(base: Path) -> None:
    text = "It is cut in August [1].\n\nThe lawn is mown on Fridays [1]. STOP It is green."
    with serving(base, ScriptedProvider([SEARCH, text] * 5)) as (served, _):
        chat = connect(served.url).chat.completions
        for stop, expected in ((["STOP"], text[: text.index("STOP")]), ("\n\n", CITED), ([], text)):
            result: Any = chat.create(model="ragkit", messages=QUESTION, stop=stop)
            assert result.choices[0].message.content == expected
            assert result.choices[0].finish_reason == "stop"
            assert len(result.citations) == 1
        before: Any = chat.create(model="ragkit", messages=QUESTION, stop=[" in August", "never"])
        assert (before.choices[0].message.content, before.citations) == ("It is cut", [])
        stream = chat.create(model="ragkit", messages=QUESTION, stop=["STOP", "mown"], stream=True)
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text[: text.index("mown")]
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_stop_sequence_is_found_however_a_stream_is_divided(base: Path, size: int) -> None:
    text = "one tw two twoo three"
    provider = StepProvider([text[at : at + size] for at in range(0, len(text), size)], steps=100)
    with serving(base, provider) as (served, client):
        session = client.post("/session/start", json={}).json()["id"]
        stream = connect(served.url).chat.completions.create(
            model="ragkit", messages=QUESTION, stop=["twoo", "three"], stream=True, extra_body={"session_id": session}
        )
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "one tw two "
        assert client.get(f"/session/{session}").json()["history"][-1]["content"] == "one tw two "


def test_a_quoted_answer_ends_before_a_stop_sequence(base: Path) -> None:
    for streamed in (False, True):
        with serving(base) as (served, _):
            create: Callable[..., Any] = connect(served.url).chat.completions.create
            result = create(model="ragkit", messages=QUESTION, stop=[" August"], stream=streamed)
            choices = [chunk.choices[0] for chunk in result] if streamed else result.choices
            text = "".join((choice.delta if streamed else choice.message).content or "" for choice in choices)
        assert text == "The hedge is cut in"


HOUR: Any = {"type": "function", "function": {"name": "get_hour", "parameters": {"type": "object", "properties": {}}}}
FORCED: list[tuple[Any, str]] = [
    ({"type": "function", "function": {"name": "get_weather"}}, '{"town": "Oslo"}'),
    ("required", '{"call": {"name": "get_weather", "arguments": {"town": "Oslo"}}}'),
]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("choice", "written"), FORCED, ids=["named", "required"])
def test_a_model_calls_the_tool_that_it_must_call(base: Path, choice: Any, written: str, streamed: bool) -> None:
    provider = ScriptedProvider([SEARCH, written])
    with serving(base, provider) as (served, _):
        create: Callable[..., Any] = connect(served.url).chat.completions.create
        result = create(model="ragkit", messages=QUESTION, tools=[WEATHER, HOUR], tool_choice=choice, stream=streamed)
        choices = [chunk.choices[0] for chunk in result] if streamed else result.choices
    parts = [choice.delta if streamed else choice.message for choice in choices]
    assert "".join(part.content or "" for part in parts) == ""
    [call] = [call for part in parts for call in part.tool_calls or ()]
    assert (call.function.name, call.function.arguments) == ("get_weather", '{"town":"Oslo"}')
    assert choices[-1].finish_reason == "tool_calls"
    assert [tool.name for tool in provider.requests[-1].tools] == ["search_knowledge_base"]
    assert "`get_weather`: The weather of a town." in provider.requests[-1].messages[0].content


def test_keys_of_other_clients_are_accepted(base: Path) -> None:
    extra: dict[str, Any] = {
        "n": 1, "logprobs": None, "max_tokens": -1, "max_completion_tokens": -1, "user": "u", "seed": 1, "store": True,
        "metadata": {"a": "b"}, "presence_penalty": 0.1, "frequency_penalty": 0.1, "logit_bias": {"1": 2},
        "parallel_tool_calls": True, "service_tier": "auto", "reasoning_effort": "low", "top_logprobs": None,
        "response_format": {"type": "text"}, "stop": None, "tools": [], "tool_choice": None, "chat_id": "c",
        "stream_options": {"include_usage": True}, "options": {"num_ctx": 1}, "verbosity": "low", "stream": False,
    }  # fmt: skip
    content = [{"type": "text", "text": "When is the hedge"}, {"type": "input_text", "text": "cut?"}]
    with serving(base) as (_, client):
        body = {"messages": [{"role": "user", "content": content, "name": "me"}], **extra}
        result = client.post("/v1/chat/completions", json=body)
        assert result.status_code == 200, result.text
        assert result.json()["choices"][0]["message"]["content"].startswith("The hedge is cut in August.")
        refused = client.post("/v1/chat/completions", json={**body, "logprobs": False, "n": 3}).json()
    assert refused["error"] == {
        "message": "n must be 1 (got 3)", "type": "invalid_request_error", "param": "n", "code": "unsupported_value",
    }  # fmt: skip


def test_completions_of_the_older_api_answer_a_question(base: Path) -> None:
    with serving(base) as (served, _):
        create: Callable[..., Any] = connect(served.url).completions.create
        result = create(model="ragkit", prompt=QUESTION[0]["content"], max_tokens=50)
        assert result.choices[0].text.startswith("The hedge is cut in August.")
        assert (result.object, result.choices[0].finish_reason) == ("text_completion", "stop")
        chunks = list(create(model="ragkit", prompt=[QUESTION[0]["content"]], stream=True))
        assert "".join(chunk.choices[0].text for chunk in chunks) == result.choices[0].text
        with pytest.raises(openai.BadRequestError, match="prompt must be one text"):
            create(model="ragkit", prompt=["one", "two"])


ERRORS: list[tuple[ProviderError, type[openai.APIStatusError], str]] = [
    (RateLimited("svc", "secret words", retry_after=99), openai.RateLimitError, "provider_rate_limited"),
    (ContextTooLong("svc", "secret words"), openai.BadRequestError, "context_length_exceeded"),
    (AuthenticationFailed("svc", "secret words"), openai.InternalServerError, "provider_refused"),
    (InvalidRequest("svc", "secret words"), openai.InternalServerError, "provider_failed"),
]


@pytest.mark.parametrize(("error", "kind", "code"), ERRORS, ids=[item[2] for item in ERRORS])
def test_errors_are_typed_and_hide_the_message_of_the_provider(
    base: Path, error: ProviderError, kind: type[openai.APIStatusError], code: str
) -> None:
    with serving(base, ScriptedProvider([error] * 5)) as (served, _):  # a prompt that is too long is shortened
        with pytest.raises(kind, match=r"provider|conversation") as caught:
            connect(served.url).chat.completions.create(model="ragkit", messages=QUESTION)
        body: Any = caught.value.body
        assert (body["code"], "secret" in str(caught.value)) == (code, False)
        assert caught.value.response.headers["x-request-id"].startswith("req_")


def test_an_error_in_the_middle_of_a_stream_reaches_the_client(base: Path) -> None:
    def fails(request: ModelRequest) -> Message:
        if request.messages[-1].role == "user":
            return Message.assistant("Let me look.", [SEARCH])
        raise InvalidRequest("svc", "secret words")

    with serving(base, FunctionProvider(fails)) as (served, _):
        stream = connect(served.url).chat.completions.create(model="ragkit", messages=QUESTION, stream=True)
        with pytest.raises(openai.APIError, match="the model provider failed") as caught:
            list(stream)
        assert "secret" not in str(caught.value)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"n": 2}, "n must be 1"),
    ({"stop": [str(n) for n in range(17)]}, "stop must have at most 16 texts"),
    ({"logprobs": True}, "`logprobs` is not supported"),
    ({"tool_choice": "required", "tools": [WEATHER]}, "tool_choice needs a model: start the server with --model"),
    ({"tool_choice": "required"}, "tool_choice needs `tools`"),
    ({"tool_choice": "always", "tools": [WEATHER]}, "tool_choice must be `auto`, `none`, `required` or"),
    ({"tool_choice": {"type": "function", "function": {"name": "f"}}, "tools": [WEATHER]}, "unknown function 'f'"),
    ({"response_format": {"type": "json_object"}}, "response_format needs a model: start the server with --model"),
    ({"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]},
     "content of type 'file' is not supported: send texts and images"),
    ({"messages": [{"role": "user", "content": [
        {"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": PIXEL}}]}]},
     "an image needs a model"),
    ({"max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
    ({"tools": [WEATHER, WEATHER]}, "tool names must be unique"),
    ({"temperature": 3}, "temperature: Input should be less than or equal to 2"),
    ({"messages": [{"role": "assistant", "content": "I"}]}, "the last message must have the role"),
    ({"messages": [{"role": "user", "content": "  "}]}, "the question is empty"),
    ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "y"}]}, "matches no earlier tool call"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}]},
     "images must be data: URLs"),
    ({"extra_body": {"where": {"year": {"$near": 1}}}}, r"\$near"),
    ({"extra_body": {"session_id": "ses_none"}}, "session not found"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "says"), WRONG, ids=[item[1] for item in WRONG])
def test_unsupported_requests_give_a_one_line_error(base: Path, change: dict[str, Any], says: str) -> None:
    create: Callable[..., Any]
    with serving(base) as (served, _):
        create = connect(served.url).chat.completions.create
        with pytest.raises((openai.BadRequestError, openai.NotFoundError), match=says):
            create(**{"model": "ragkit", "messages": QUESTION, **change})


def test_a_token_is_required_and_accepted(base: Path) -> None:
    token = "a-token-of-some-length"
    with serving(base, settings=ServerSettings(port=0, tokens=("another-token-here", token))) as (served, _):
        with pytest.raises(openai.AuthenticationError, match="Authorization: Bearer"):
            connect(served.url, "wrong").models.list()
        assert connect(served.url, token).models.list().data[0].id == "ragkit"


def test_the_rate_of_a_token_is_limited(base: Path) -> None:
    token = "a-token-of-some-length"
    settings = ServerSettings(port=0, tokens=(token,), limits=limited(requests_per_minute=2).limits)
    with serving(base, settings=settings) as (served, _):
        client = connect(served.url, token)
        client.models.list()
        client.models.list()
        with pytest.raises(openai.RateLimitError, match="rate limit of 2 requests per minute exceeded") as caught:
            client.models.list()
        assert 1 <= int(caught.value.response.headers["retry-after"]) <= 30
