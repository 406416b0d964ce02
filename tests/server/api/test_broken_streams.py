"""The model breaks off in mid-stream or uses up its iterations: clients of the server never get text twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import openai
import pytest

from ragkit.agent.providers.fallback import FallbackProvider
from tests.server.parts import events, serving
from tests.wire.dialects import DIALECTS
from tests.wire.parts import SERVICES, connect
from tests.wire.parts import serving as serving_model
from tests.wire.server import Fault, ToolCallTurn, Turn, WireServer

QUESTION = "When is the hedge cut?"
LOOK = Turn(("I look.",), calls=(ToolCallTurn("search_knowledge_base", {"query": "hedge"}, "call_1"),))
ANSWER = Turn(("It ", "is ", "cut ", "in August [1]."), thought="The passage says so.")
TEXT = "It is cut in August [1]."


def broken(service: str, *, before: str) -> Fault:
    """A stream of the answer that breaks off before the chunk with this text."""
    pieces = DIALECTS[service].pieces(ANSWER)
    return Fault(turn=ANSWER, cut_after=next(at for at, piece in enumerate(pieces) if before.encode() in piece))


def text_of(url: str, kept: list[str]) -> None:
    """Read a streamed answer with the vendor's client."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client:
        messages: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
        for chunk in client.chat.completions.create(model="ragkit", messages=messages, stream=True):
            kept += [choice.delta.content for choice in chunk.choices if choice.delta.content]


@pytest.mark.rotating
@pytest.mark.parametrize("service", SERVICES)
def test_a_stream_of_the_openai_api_that_breaks_after_text_ends_with_an_error(service: str, base: Path) -> None:
    with serving_model(service, LOOK, broken(service, before="cut "), ANSWER) as (provider, model):
        kept: list[str] = []
        with serving(base, provider) as (served, _), pytest.raises(openai.APIError, match="the model provider failed"):
            text_of(served.url, kept)
        assert "".join(kept) == "I look.\n\nIt is"
        assert len(model.seen) == 2


@pytest.mark.rotating
@pytest.mark.parametrize("service", SERVICES)
def test_a_stream_of_the_openai_api_that_breaks_before_its_text_is_repeated(service: str, base: Path) -> None:
    with serving_model(service, LOOK, broken(service, before="It "), ANSWER) as (provider, model):
        kept: list[str] = []
        with serving(base, provider) as (served, _):
            text_of(served.url, kept)
        assert "".join(kept) == f"I look.\n\n{TEXT}"
        assert len(model.seen) == 3


@pytest.mark.parametrize("service", SERVICES)
def test_a_chat_stream_that_breaks_is_told_to_discard_its_text(service: str, base: Path) -> None:
    first = Turn(calls=LOOK.calls)
    with serving_model(service, first, broken(service, before="cut "), ANSWER) as (provider, _):
        kept, discarded = "", 0
        with (
            serving(base, provider) as (_, client),
            client.stream("POST", "/chat", json={"message": QUESTION, "stream": True}) as response,
        ):
            for name, data in events(response):
                kept = "" if name == "discard" else kept + data.get("delta", "")
                discarded += name == "discard"
                if name == "done":
                    assert data["message"]["content"] == TEXT
    assert (kept, discarded) == (TEXT, 1)


def test_the_next_provider_answers_when_the_first_one_breaks_off(base: Path) -> None:
    with (
        serving_model("openai", LOOK, broken("openai", before="cut ")) as (first, _),
        WireServer(DIALECTS["anthropic"], [ANSWER]) as second,
        serving(base, FallbackProvider([first, connect("anthropic", second.url)])) as (_, client),
    ):
        answer = client.post("/chat", json={"message": QUESTION}).json()
    assert answer["message"]["content"] == TEXT
    assert len(second.seen) == 1


def test_used_up_iterations_end_with_an_answer_without_tools(base: Path) -> None:
    looks = [replace(LOOK, calls=(ToolCallTurn("search_knowledge_base", {"query": f"hedge {n}"}),)) for n in range(10)]
    with serving_model("anthropic", *looks, ANSWER) as (provider, model):
        kept: list[str] = []
        with serving(base, provider) as (served, _):
            text_of(served.url, kept)
    assert "".join(kept) == "\n\n".join([*["I look."] * 10, TEXT])
    assert [seen.body.get("tool_choice") for seen in model.seen] == [None] * 10 + [{"type": "none"}]
