"""A small language model, in this process and behind a server: `make test-models` fetches it and runs these tests.

Its answers are poor; what is tested is what the engine, the template and the providers do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import xllamacpp

from ragkit import Agent, AgentConfig, Document, GGUFProvider, Message, OpenAIProvider, RAGAgent, tool
from ragkit.agent.providers.base import ModelRequest, ModelSettings, Provider, StreamCompleted, TextDelta
from ragkit.errors import ContextTooLong
from scripts.fetch_model import TARGET

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
WINDOW = 2048


@pytest.fixture(scope="module", params=["gguf", "openai"])
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    assert TARGET.exists(), f"{TARGET} is missing: make test-models"
    if request.param == "gguf":
        yield GGUFProvider(TARGET, context_window=WINDOW, threads=1)
        return
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel, params.verbosity = str(TARGET), WINDOW, 1, 0
    params.cpuparams.n_threads = 1  # two that share their cores with other work wait for each other
    server = xllamacpp.Server(params)
    yield OpenAIProvider("any", api_key="none", base_url=f"{server.listening_address}/v1")


def ask(text: str, **settings: object) -> ModelRequest:
    chosen = {"temperature": 0.0, "max_tokens": 24, **settings}
    messages = (Message.system("Be brief."), Message.user(text))
    return ModelRequest("", messages, settings=ModelSettings(**chosen))  # type: ignore[arg-type]  # numbers, a schema


def test_the_model_answers_with_its_stop_reason_and_counts(provider: Provider) -> None:
    answer = provider.complete(ask("What is the capital of France?"))
    assert "Paris" in answer.message.content
    assert answer.stop_reason == "stop"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (24, 8)


def test_the_stream_has_the_same_text_in_pieces(provider: Provider) -> None:
    *pieces, end = provider.stream(ask("What is the capital of France?"))
    assert isinstance(end, StreamCompleted)
    assert len(pieces) > 5
    text = "".join(piece.text for piece in pieces if isinstance(piece, TextDelta))
    assert text == end.completion.message.content
    assert "Paris" in text


def test_an_answer_that_is_too_long_is_cut_and_says_so(provider: Provider) -> None:
    answer = provider.complete(ask("Tell me a long story.", max_tokens=12))
    assert (answer.stop_reason, answer.usage.completion_tokens) == ("length", 12)


def test_a_closed_stream_frees_the_model(provider: Provider) -> None:
    stream = provider.stream(ask("Tell me a long story.", max_tokens=1500))
    next(stream)
    stream.close()  # type: ignore[attr-defined]  # a generator
    started = time.monotonic()
    assert "Paris" in provider.complete(ask("What is the capital of France?")).message.content
    assert time.monotonic() - started < 20


def test_a_schema_holds_the_answer(provider: Provider) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "country": {"enum": ["France", "Italy"]}},
        "required": ["city", "country"],
        "additionalProperties": False,
    }
    answer = provider.complete(ask("A city and its country, as JSON.", max_tokens=80, response_schema=schema))
    assert set(json.loads(answer.message.content)) == {"city", "country"}


def test_a_prompt_above_the_window_says_the_window(provider: Provider) -> None:
    with pytest.raises(ContextTooLong) as caught:
        provider.complete(ask("word " * 3000))
    assert caught.value.limit == WINDOW


def test_two_conversations_at_once_get_their_own_answers(provider: Provider) -> None:
    countries = {"France": "Paris", "Italy": "Rome", "Japan": "Tokyo", "Norway": "Oslo"}
    with ThreadPoolExecutor(len(countries)) as pool:
        requests = [ask(f"What is the capital of {country}?") for country in countries]
        answers = [answer.message.content for answer in pool.map(provider.complete, requests)]
    assert [city in answer for city, answer in zip(countries.values(), answers, strict=True)] == [True] * 4


def test_an_agent_with_a_tool_ends_though_the_template_knows_no_tools(provider: Provider) -> None:
    @tool
    def weather(city: str) -> str:
        """The weather of a city."""
        return f"{city}: rain"

    agent = Agent(provider, [weather], config=AgentConfig(max_tokens=60, max_iterations=3, temperature=0.0))
    result = agent.run("What is the weather in Oslo?")
    assert result.stop_reason
    assert result.usage.completion_tokens > 0


def test_documents_are_answered_from(provider: Provider) -> None:
    documents = [Document("A full-time employee gets 27 days of holiday each year.", {"source": "leave.txt"})]
    answer = RAGAgent.from_documents(documents, provider).ask("How many days of holiday does an employee get?")
    assert answer.usage.completion_tokens > 0
    assert {citation.source for citation in answer.citations} <= {"leave.txt"}
