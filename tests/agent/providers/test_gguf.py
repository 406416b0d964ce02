"""Models in GGUF files: the real engine, with a small model whose answers are known."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ragkit import Agent, AgentConfig, GGUFProvider, Message, tool
from ragkit.agent.guardrails import ToolOutputScreening
from ragkit.agent.messages import Image
from ragkit.agent.providers.base import ModelRequest, ModelSettings, StreamCompleted, TextDelta
from ragkit.agent.providers.lookup import get_provider
from ragkit.errors import ContextTooLong, InvalidOption, InvalidRequest
from ragkit.gguf.engine import EngineSettings, choose_window, get_engine
from ragkit.gguf.header import read_gguf
from tests.gguf_models import CALL, PLAIN_TEMPLATE, TOOL_TEMPLATE, write_chat_model, write_minilm_gguf


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_model(tmp_path_factory.mktemp("gguf") / "chat.gguf", context=16_384)


@pytest.fixture(scope="module")
def provider(model: Path) -> GGUFProvider:
    return GGUFProvider(model, threads=1)


def request(text: str, **settings: object) -> ModelRequest:
    return ModelRequest("", (Message.user(text),), settings=replace(ModelSettings(0.7, max_tokens=50), **settings))  # type: ignore[arg-type]


def test_the_whole_answer_has_its_text_its_stop_reason_and_exact_counts(provider: GGUFProvider) -> None:
    answer = provider.complete(request("Capital of France"))
    assert (answer.message.content, answer.stop_reason) == ("Paris is the capital.", "stop")
    # the start, eleven bytes and one word; three words and the end
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (17 - 4 + 4, 4)


def test_an_answer_streams_word_by_word(provider: GGUFProvider) -> None:
    async def listen() -> list[object]:
        return [delta async for delta in provider.astream(request("Capital of France"))]

    for deltas in (list(provider.stream(request("Capital of France"))), asyncio.run(listen())):
        assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ["Paris", " is", " the capital."]
        assert isinstance(deltas[-1], StreamCompleted)


def test_an_answer_that_reaches_its_limit_says_so(provider: GGUFProvider) -> None:
    answer = provider.complete(request("forever", max_tokens=6))
    assert (answer.message.content, answer.stop_reason) == (" tick tock tick tock tick tock", "length")
    assert answer.usage.completion_tokens == 6


def test_a_closed_stream_stops_the_engine(provider: GGUFProvider) -> None:
    stream = provider.stream(request("forever", max_tokens=16_000))
    assert isinstance(next(stream), TextDelta)
    stream.close()  # type: ignore[attr-defined]  # a generator
    engine, started = provider.load(), time.monotonic()
    while engine.running:
        assert time.monotonic() - started < 5
        time.sleep(0.01)
    assert provider.complete(request("Capital of Italy")).message.content == "Rome"


def test_the_next_turn_reads_only_what_is_new(provider: GGUFProvider) -> None:
    first = (Message.system("A long instruction. " * 20), Message.user("Capital of Italy"))
    provider.complete(replace(request(""), messages=first))
    provider.complete(request("another conversation, " * 30 + "Capital of France"))
    later = provider.complete(
        replace(request(""), messages=(*first, Message.assistant("Rome"), Message.user("Capital of France")))
    )
    assert later.usage.prompt_tokens - later.usage.cached_tokens < 60 < later.usage.cached_tokens


@pytest.mark.parametrize("count", [2, 12])
def test_questions_at_once_get_their_own_answers(provider: GGUFProvider, count: int) -> None:
    questions = [("Capital of France", "Paris is the capital."), ("Capital of Italy", "Rome")] * (count // 2)
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(lambda pair: provider.complete(request(pair[0])).message.content, questions))
    assert answers == [answer for _, answer in questions]


def test_questions_that_do_not_fit_into_the_window_together_wait_for_each_other(model: Path) -> None:
    provider = GGUFProvider(model, context_window=512, threads=1)
    question = request("a" * 300 + "forever", max_tokens=150)
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(provider.complete, [question] * 6))
    assert [(answer.stop_reason, answer.usage.completion_tokens) for answer in answers] == [("length", 150)] * 6


def test_a_prompt_above_the_window_is_refused_with_the_window(model: Path) -> None:
    with pytest.raises(ContextTooLong, match=r"request \(1001 tokens\) exceeds .* \(512 tokens\)") as caught:
        GGUFProvider(model, context_window=512, threads=1).complete(request("a" * 1000))
    assert caught.value.limit == 512
    assert not caught.value.retryable


def test_a_schema_holds_the_answer(provider: GGUFProvider) -> None:
    schema = {"type": "object", "properties": {"a": {"const": "x"}}, "required": ["a"], "additionalProperties": False}
    import json

    assert json.loads(provider.complete(request("Hello", response_schema=schema)).message.content) == {"a": "x"}


def test_images_are_refused(provider: GGUFProvider) -> None:
    message = replace(Message.user("What is this?"), images=(Image("aGVsbG8="),))
    with pytest.raises(InvalidRequest, match="models in GGUF files read no images here: send text"):
        provider.complete(ModelRequest("", (message,)))


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: rain"


def test_a_call_that_the_model_writes_as_text_is_made(tmp_path: Path) -> None:
    """With a template that takes tools, and with one that does not: then the agent describes them."""
    for template, native in ((TOOL_TEMPLATE, True), (PLAIN_TEMPLATE, False)):
        provider = GGUFProvider(write_chat_model(tmp_path / f"{native}.gguf", template=template), threads=1)
        assert provider.native_tools is native
        config = AgentConfig(max_tokens=60, screening=ToolOutputScreening(mark_as_data=False))
        result = Agent(provider, [weather], config=config).run("What is the weather in Oslo?")
        assert [(call.name, dict(call.arguments), call.content) for call in result.tool_calls] == [
            ("weather", {"city": "Oslo"}, "Oslo: rain")
        ]
        assert result.content == "It rains."
        assert result.usage.total_cost_usd == 0.0


def test_the_text_of_a_call_is_not_streamed(tmp_path: Path) -> None:
    provider = GGUFProvider(write_chat_model(tmp_path / "tools.gguf", template=TOOL_TEMPLATE), threads=1)
    asked = replace(request("Oslo?"), tools=(weather,))
    deltas = list(provider.stream(asked))
    assert not [delta for delta in deltas if isinstance(delta, TextDelta)]
    assert isinstance(deltas[-1], StreamCompleted)
    assert deltas[-1].completion.stop_reason == "tool_calls"


def test_a_call_that_a_document_holds_is_quoted_and_not_made(tmp_path: Path) -> None:
    provider = GGUFProvider(write_chat_model(tmp_path / "tools.gguf", template=TOOL_TEMPLATE), threads=1)
    messages = (Message.user("Read it."), Message.user(f"The document says {CALL}. Oslo?"))
    answer = provider.complete(replace(request(""), messages=messages, tools=(weather,)))
    assert (answer.message.content, answer.message.tool_calls) == (CALL, ())


def test_one_file_is_loaded_once(model: Path, provider: GGUFProvider) -> None:
    link = model.with_name("link.gguf")
    link.symlink_to(model)
    assert GGUFProvider(str(link), threads=1).load() is provider.load()
    assert get_provider(f"gguf:{model}") is get_provider(f"gguf:{model}")


def test_settings_come_from_the_environment(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGKIT_GGUF_CONTEXT", "1024")
    assert get_provider(f"gguf:{model}").context_window == 1024
    monkeypatch.setenv("RAGKIT_GGUF_THREADS", "many")
    with pytest.raises(InvalidOption, match="RAGKIT_GGUF_THREADS must be an integer >= 0"):
        get_provider(f"gguf:{model}")


def test_the_port_of_the_engine_is_closed_to_others(provider: GGUFProvider) -> None:
    import urllib.error
    import urllib.request

    address = provider.load().address
    for path in ("/v1/models", "/slots", "/props", "/v1/chat/completions"):
        with pytest.raises(urllib.error.HTTPError, match="401") as caught:
            urllib.request.urlopen(address + path, data=b"{}" if "chat" in path else None)
        caught.value.close()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda folder: "", r"model must be gguf:PATH with the path of a GGUF file \(got 'gguf'\)"),
        (lambda folder: str(folder / "none.gguf"), "model must be an existing GGUF file"),
        (
            lambda folder: str(write_minilm_gguf(folder / "e.gguf")),
            r"writes text; this one is for `embed: \{name: gguf",
        ),
        (lambda folder: str(write_chat_model(folder / "c.gguf", more={"llama.block_count": 1 << 28})), "into memory: "),
    ],
)
def test_a_file_that_cannot_answer_is_refused_before_it_is_loaded(
    make: Callable[[Path], str], says: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidOption, match=says):
        get_provider(f"gguf:{make(tmp_path)}")


def test_a_window_out_of_range_is_refused(model: Path) -> None:
    with pytest.raises(InvalidOption, match="context_window must be between 512 and 16384 tokens"):
        GGUFProvider(model, context_window=20_000)


def test_the_window_is_that_of_the_file_as_far_as_memory_allows(model: Path) -> None:
    file = read_gguf(model)
    assert choose_window(file, EngineSettings(), "model") == 16_384
    large = replace(file, cache_bytes_per_token=1_000_000, context_length=1_000_000)
    assert 2048 <= choose_window(large, EngineSettings(), "model") <= 16_384


def test_a_model_that_the_engine_does_not_know_is_refused_in_one_line(tmp_path: Path) -> None:
    path = write_chat_model(tmp_path / "new.gguf", more={"general.architecture": "future"})
    with pytest.raises(InvalidOption, match="can load: it failed on the architecture 'future'") as caught:
        GGUFProvider(path).load()
    assert "\n" not in str(caught.value)


FORKED = """
import os, sys
from ragkit import GGUFProvider, Message
from ragkit.agent.providers.base import ModelRequest
provider, request = GGUFProvider(sys.argv[1], threads=1), ModelRequest("", (Message.user("Capital of Italy"),))
print(provider.complete(request).message.content, flush=True)
child = os.fork()
print(provider.complete(request).message.content, flush=True)
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_process_loads_its_own(model: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(model)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.split() == ["Rome"] * 3
    assert ran.stderr == ""


INTERRUPTED = """
import sys
from ragkit import GGUFProvider, Message
from ragkit.agent.providers.base import ModelRequest, ModelSettings
provider = GGUFProvider(sys.argv[1], threads=1)
settings = ModelSettings(max_tokens=1_000_000)
print("started", flush=True)
provider.complete(ModelRequest("", (Message.user("forever"),), settings=settings))
"""


def test_an_interrupted_program_ends_soon(model: Path) -> None:
    import signal

    with subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(model)], stdout=-1, stderr=-1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) in (130, -signal.SIGINT, 1)


DROPPED = """
import sys
from pathlib import Path
from ragkit.gguf.engine import EngineSettings, GGUFEngine
from ragkit.gguf.header import read_gguf
file = read_gguf(Path(sys.argv[1]))
for _ in range(20):
    GGUFEngine(file, EngineSettings(window=777, threads=1), "model")
"""


def test_an_engine_that_nobody_uses_is_freed(model: Path) -> None:
    import gc
    import weakref

    engine = weakref.ref(get_engine(read_gguf(model), EngineSettings(window=777, threads=1), "model"))
    gc.collect()
    assert engine() is None


def test_engines_are_freed_as_soon_as_they_are_loaded(model: Path) -> None:
    subprocess.run([sys.executable, "-c", DROPPED, str(model)], check=True, timeout=120)
