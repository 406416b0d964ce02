"""OpenAI's Responses API with its own client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import FunctionProvider, ScriptedProvider
from ragkit.errors import InvalidRequest
from tests.server.parts import SEARCH, SECONDS, serving

QUESTION = "When is the hedge cut?"
CITED = "It is cut in August [1]."
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a town.",
    "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
    "strict": False,
}
ASKS_WEATHER = ToolCall("get_weather", {"town": "Oslo"}, "call_1")
OPEN: list[openai.OpenAI] = []


def connect(url: str) -> Any:
    OPEN.append(openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=SECONDS))
    return OPEN[-1].responses


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


def test_a_response_has_text_citations_and_usage(base: Path) -> None:
    with serving(base, ScriptedProvider([SEARCH, CITED])) as (served, client):
        result = connect(served.url).create(
            model="ragkit", input=QUESTION, instructions="Be brief.", max_output_tokens=99
        )
        [session] = client.get("/sessions").json()["sessions"]
    assert (result.output_text, result.status, result.object) == (CITED, "completed", "response")
    [cited] = result.output[0].content[0].annotations
    assert CITED[cited.start_index : cited.end_index] == "[1]"
    assert cited.title.endswith("garden.md")
    assert result.usage.total_tokens == result.usage.input_tokens + result.usage.output_tokens > 0
    assert result.citations[0]["quote"] == "The hedge is cut in August."
    assert (result.store, result.session_id) == (True, session["id"])


def test_a_streamed_response_has_the_events_of_openai(base: Path) -> None:
    with serving(base, ScriptedProvider([SEARCH, CITED])) as (served, _):
        events = list(connect(served.url).create(model="ragkit", input=QUESTION, stream=True))
    names = [event.type.removeprefix("response.") for event in events]
    assert [name for at, name in enumerate(names) if names[at - 1] != name or at == 0] == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta",
        "output_text.annotation.added", "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text == CITED
    assert events[0].response.id == events[-1].response.id
    assert len({event.item_id for event in events if hasattr(event, "item_id")}) == 1


def test_the_stream_helper_of_the_client_reads_a_response(base: Path) -> None:
    with serving(base) as (served, _), connect(served.url).stream(model="ragkit", input=QUESTION) as stream:
        final = stream.until_done().get_final_response()
    assert final.output_text.startswith("The hedge is cut in August.")


def test_a_response_continues_the_one_before_it(base: Path) -> None:
    provider = ScriptedProvider([SEARCH, CITED, "As I said: August [1].", "Still August."])
    with serving(base, provider) as (served, client):
        responses = connect(served.url)
        first = responses.create(model="ragkit", input=QUESTION)
        second = responses.create(model="ragkit", input="When?", previous_response_id=first.id)
        with pytest.raises(openai.BadRequestError, match="must be the last response of its conversation"):
            responses.create(model="ragkit", input="Why?", previous_response_id=first.id)
        with pytest.raises(openai.BadRequestError, match="previous_response_id needs `store`"):
            responses.create(model="ragkit", input="Why?", previous_response_id=second.id, store=False)
        third = list(responses.create(model="ragkit", input="So?", previous_response_id=second.id, stream=True))
        [session] = client.get("/sessions").json()["sessions"]
        history = client.get(f"/session/{session['id']}").json()["history"]
    assert third[-1].response.previous_response_id == second.id
    assert [message["content"] for message in history] == [
        QUESTION, CITED, "When?", "As I said: August [1].", "So?", "Still August.",
    ]  # fmt: skip
    assert [message.content for message in provider.requests[-1].messages[1:]] == [item["content"] for item in history][
        :-1
    ]


def test_a_response_that_is_not_stored_cannot_be_continued(base: Path) -> None:
    with serving(base) as (served, client):
        responses = connect(served.url)
        first = responses.create(model="ragkit", input=QUESTION, store=False)
        assert first.store is False
        for unknown in (first.id, "resp_none", "none"):
            with pytest.raises(openai.NotFoundError, match="response not found"):
                responses.create(model="ragkit", input="When?", previous_response_id=unknown)
        assert client.get("/sessions").json()["sessions"] == []


def test_items_are_a_conversation(base: Path) -> None:
    provider = ScriptedProvider(["Yes."])
    items: Any = [
        {"role": "developer", "content": "Speak like a gardener."},
        {"role": "user", "content": [{"type": "input_text", "text": "One?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
         "content": [{"type": "output_text", "text": "Two.", "annotations": []}]},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw0KGgo="}]},
    ]  # fmt: skip
    with serving(base, provider) as (served, client):
        responses = connect(served.url)
        assert responses.create(model="ragkit", input=items).output_text == "Yes."
        [session] = client.get("/sessions").json()["sessions"]
        history = client.get(f"/session/{session['id']}").json()["history"]
        file: Any = [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]
        with pytest.raises(openai.BadRequestError, match="content of type 'input_file' is not supported"):
            responses.create(model="ragkit", input=file)
    system, *rest = provider.requests[0].messages
    assert "Speak like a gardener." in system.content
    assert [message.content for message in rest] == ["One?", "Two.", "What is this?"]
    assert rest[-1].images[0].media_type == "image/png"
    assert [message["content"] for message in history] == ["One?", "Two.", "What is this?", "Yes."]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("continues", [False, True])
def test_a_call_of_the_callers_tool_is_returned_and_resumed(base: Path, streamed: bool, continues: bool) -> None:
    provider = ScriptedProvider([SEARCH, ASKS_WEATHER, "Rain, and August [1]."])
    with serving(base, provider) as (served, _):
        responses = connect(served.url)
        first = responses.create(model="ragkit", input=QUESTION, tools=[WEATHER], stream=streamed)
        if streamed:
            events = list(first)
            first = events[-1].response
            names = [event.type for event in events if "function_call" in event.type]
            assert names == ["response.function_call_arguments.delta", "response.function_call_arguments.done"]
        [call] = first.output
        assert (call.type, call.name, call.arguments) == ("function_call", "get_weather", '{"town":"Oslo"}')
        result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
        items = [result] if continues else [{"role": "user", "content": QUESTION}, call.model_dump(), result]
        previous = first.id if continues else openai.omit
        last = responses.create(model="ragkit", input=items, tools=[WEATHER], previous_response_id=previous)
    assert last.output_text == "Rain, and August [1]."
    assert last.citations[0]["quote"] == "The hedge is cut in August."


def test_a_tool_can_be_forced_and_a_format_be_set(base: Path) -> None:
    schema = {"type": "object", "properties": {"month": {"type": "string"}}, "required": ["month"]}
    form: Any = {"format": {"type": "json_schema", "name": "month", "schema": schema}}
    with serving(base, ScriptedProvider(['{"town": "Oslo"}', SEARCH, '{"month": "August"}'])) as (served, _):
        responses = connect(served.url)
        choice: Any = {"type": "function", "name": "get_weather"}
        [call] = responses.create(model="ragkit", input=QUESTION, tools=[WEATHER], tool_choice=choice).output
        assert (call.name, call.arguments) == ("get_weather", '{"town":"Oslo"}')
        assert responses.create(model="ragkit", input=QUESTION, text=form).output_text == '{"month": "August"}'
    with serving(base) as (served, _):
        responses = connect(served.url)
        with pytest.raises(openai.BadRequestError, match="response_format needs a model"):
            responses.create(model="ragkit", input=QUESTION, text=form)
        for wrong, says in (
            ({"tools": [{"type": "web_search"}]}, "tools of type 'web_search' are not supported"),
            ({"tools": [{**WEATHER, "name": "two words"}]}, r"tools.0.name: String should match"),
            ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "use previous_response_id"),
            ({"input": [{"type": "function_call_output", "call_id": "x", "output": ""}]}, "matches no earlier"),
            ({"input": []}, "the last message must have the role"),
            ({"input": " "}, "the question is empty"),
        ):
            with pytest.raises(openai.BadRequestError, match=says):
                responses.create(**{"model": "ragkit", "input": QUESTION, **wrong})


def test_a_response_that_fails_or_is_cut_says_so(base: Path) -> None:
    def fails(request: Any) -> Any:
        raise InvalidRequest("svc", "secret words")

    with serving(base, FunctionProvider(fails)) as (served, _):
        *_, failed = connect(served.url).create(model="ragkit", input=QUESTION, stream=True)
        assert (failed.type, failed.response.status) == ("response.failed", "failed")
        assert failed.response.error.message == "the model provider failed"
    cut = Completion(Message.assistant("The hedge is"), stop_reason="length")
    with serving(base, ScriptedProvider([cut, cut])) as (served, _):
        responses = connect(served.url)
        result = responses.create(model="ragkit", input=QUESTION)
        assert (result.status, result.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        *_, last = responses.create(model="ragkit", input=QUESTION, stream=True)
        assert (last.type, last.response.output_text) == ("response.incomplete", "The hedge is")
