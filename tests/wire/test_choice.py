"""Choice of the provider: `provider:model` everywhere, `auto` by the available keys, and errors for missing ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

import ragkit
from ragkit import KnowledgeBase
from ragkit.agent.agent import Agent
from ragkit.agent.bot import Bot, default_provider
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.messages import Message
from ragkit.agent.providers import PROVIDERS
from ragkit.agent.providers.base import ModelRequest, Provider
from ragkit.agent.providers.credentials import HOST_VARIABLES, KEY_VARIABLES
from ragkit.agent.providers.lookup import detect_provider, get_provider
from ragkit.agent.providers.ollama import OllamaProvider
from ragkit.agent.providers.openai import OpenAIProvider
from ragkit.agent.providers.request_guard import ModelRequestForbidden, forbid_model_requests
from ragkit.agent.providers.scripted import LocalProvider, ScriptedProvider
from ragkit.answer.base import Searcher
from ragkit.answer.extractive.provider import ExtractiveProvider
from ragkit.cli import main
from ragkit.errors import AuthenticationFailed, InvalidOption
from ragkit.knowledge_base.answer_provider import resolve_answer_provider
from ragkit.usage.pricing import PriceBook
from tests.wire.dialects import DIALECTS
from tests.wire.parts import SERVICES, serving
from tests.wire.server import ToolCallTurn, Turn, WireServer

UNREACHABLE = cast("Searcher", None)


@pytest.mark.parametrize(
    ("service", "words"),
    [
        ("openai", "openai: no API key: set OPENAI_API_KEY, or pass api_key"),
        ("anthropic", "anthropic: no API key: set ANTHROPIC_API_KEY, or pass api_key"),
        ("gemini", "gemini: no API key: set GEMINI_API_KEY or GOOGLE_API_KEY, or pass api_key"),
        ("groq", "groq: no API key: set GROQ_API_KEY, or pass api_key"),
    ],
)
def test_without_a_key_one_line_names_the_variable(service: str, words: str) -> None:
    with pytest.raises(AuthenticationFailed, match="no API key") as caught:
        get_provider(f"{service}:some-model")
    assert str(caught.value) == words


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_is_found_by_its_name_and_has_a_default_model_whose_price_is_known(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in KEY_VARIABLES.get(service, ()):
        monkeypatch.setenv(name, "k")
    provider = get_provider(f"{service}:m")
    assert (provider.name, PROVIDERS.extra(service), provider.blocking) == (service, service, True)
    assert provider is get_provider(f"{service}:another-model")  # one provider keeps the connections
    known = PriceBook().model_info(service, provider.default_model)
    assert service == "ollama" or (known is not None and known.price.input_usd is not None)


@pytest.mark.parametrize("key", ["sk-\N{HORIZONTAL ELLIPSIS}", "sk-1\nsk-2", "sk 1"])
def test_an_invalid_key_is_rejected_without_showing_it(key: str) -> None:
    with pytest.raises(
        AuthenticationFailed, match=r"^openai: the API key contains an invalid character: copy it again$"
    ):
        OpenAIProvider(api_key=key)


def test_a_trailing_line_break_of_a_key_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "test-key\n")
    with WireServer(DIALECTS["groq"], [Turn(("ok",))]) as server:
        monkeypatch.setenv("GROQ_BASE_URL", server.url)
        assert get_provider("groq").complete(ModelRequest("", (Message.user("hi"),))).message.content == "ok"


def test_the_package_exports_each_provider() -> None:
    for name in ("OpenAIProvider", "AnthropicProvider", "GeminiProvider", "OllamaProvider", "GroqProvider"):
        kind = getattr(ragkit, name)
        assert kind is PROVIDERS.find(kind.name)


def test_importing_the_package_and_choosing_imports_no_vendor() -> None:
    script = (
        "import sys, ragkit, ragkit.agent.providers.lookup as choose\n"
        "assert choose.detect_provider() is None\n"
        "print([one for one in ('openai', 'anthropic', 'google.genai', 'ollama', 'groq', 'httpx', 'httpx2')"
        " if one in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_auto_takes_the_first_service_whose_key_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(KEY_VARIABLES) == ["openai", "anthropic", "gemini", "groq"]
    assert detect_provider() is None
    for service in reversed(list(KEY_VARIABLES)):
        monkeypatch.setenv(KEY_VARIABLES[service][-1], "k")
        result = detect_provider()
        assert result is not None
        assert result.name == service
        assert resolve_answer_provider("auto", UNREACHABLE) is result
    assert isinstance(resolve_answer_provider("extractive", UNREACHABLE), ExtractiveProvider)


def test_auto_without_a_key_quotes_and_a_bot_without_a_key_needs_no_service() -> None:
    assert isinstance(resolve_answer_provider("auto", UNREACHABLE), ExtractiveProvider)
    assert isinstance(default_provider(), LocalProvider)


def test_auto_skips_a_service_whose_package_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "GROQ_API_KEY"):
        monkeypatch.setenv(name, "not-seen-before")
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "ragkit.agent.providers.openai")
    result = detect_provider()
    assert result is not None
    assert result.name == "groq"
    with pytest.raises(ragkit.RagkitError, match=r"pip install 'ragkit-kb\[openai\]'"):
        get_provider("openai:gpt-4o")


def test_offline_auto_uses_no_service_and_a_named_service_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("RAGKIT_OFFLINE", "1")
    assert detect_provider() is None
    with pytest.raises(ModelRequestForbidden, match="RAGKIT_OFFLINE is 1, but openai needs a network"):
        Agent(get_provider("openai")).run("hi")


def test_a_script_in_the_environment_comes_before_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("RAGKIT_MOCK_JSON", '["scripted"]')
    assert isinstance(resolve_answer_provider("auto", UNREACHABLE), ScriptedProvider)
    assert Bot().chat("hi")[0] == "scripted"


def test_providers_declare_whether_they_are_remote() -> None:
    with serving("openai") as (provider, server), forbid_model_requests():
        with pytest.raises(ModelRequestForbidden, match="a test must not send requests to openai"):
            Agent(provider).run("hi")
        assert server.seen == []


@pytest.mark.parametrize("service", SERVICES)
def test_a_model_name_can_have_a_provider_prefix_and_colons(service: str) -> None:
    with serving(service, *[Turn(("ok",))] * 2) as (provider, server):
        provider.complete(ModelRequest(f"{service}:llama3.2:3b", (Message.user("hi"),)))
        Agent(provider, config=AgentConfig(model=f"{service}:llama3.2:3b")).run("hi")
    for seen in server.seen:
        assert "llama3.2:3b" in (seen.body.get("model") or seen.path)
        assert f"{service}:" not in str(seen.body.get("model", "")) + seen.path


FACT = "The capital of Peru is Lima. Lima lies on the coast."


@pytest.fixture
def knowledge_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A knowledge base of one document."""
    monkeypatch.chdir(tmp_path)
    for name in ("RAGKIT_KB", "RAGKIT_PIPELINE", "RAGKIT_MAX_COST"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "peru.txt").write_text(FACT)
    (tmp_path / "ragkit.yaml").write_text("embed: {name: hashing, dimension: 64}\n")
    with KnowledgeBase.open(tmp_path / ".ragkit", pipeline=tmp_path / "ragkit.yaml") as kb:
        kb.index(tmp_path / "peru.txt")
    return tmp_path


SEARCH = Turn(calls=(ToolCallTurn("search_knowledge_base", {"query": "capital of Peru"}, "c1"),), prompt_tokens=50)
ANSWER = Turn(("The capital ", "is Lima [1]."), prompt_tokens=90, completion_tokens=8)


def point_to(service: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment variables of a service to the wire server."""
    monkeypatch.setenv(HOST_VARIABLES[service], f"{url}/v1" if service == "openai" else url)
    for name in KEY_VARIABLES.get(service, ()):
        monkeypatch.setenv(name, "test-key")


@pytest.mark.parametrize("service", SERVICES)
def test_ask_takes_a_model_on_the_command_line(
    service: str, knowledge_base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with WireServer(DIALECTS[service], [SEARCH, ANSWER]) as server:
        point_to(service, server.url, monkeypatch)
        with pytest.raises(SystemExit) as ended:
            main(["ask", "What is the capital of Peru?", "--model", f"{service}:some-model"])
    result = capsys.readouterr()
    assert ended.value.code in (0, None), result.err
    assert "The capital is Lima [1]." in result.out
    assert "peru.txt" in result.out
    assert "Lima lies on the coast" in str(server.seen[1].body)
    assert "some-model" in (server.seen[0].body.get("model") or server.seen[0].path)


def test_a_pipeline_file_takes_a_model(knowledge_base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = knowledge_base / "ragkit.yaml"
    path.write_text(path.read_text() + "answer: {provider: 'anthropic:claude-haiku-4-5', max_iterations: 4}\n")
    with WireServer(DIALECTS["anthropic"], [SEARCH, ANSWER]) as server:
        point_to("anthropic", server.url, monkeypatch)
        with KnowledgeBase.open(knowledge_base / ".ragkit", pipeline=path) as kb:
            answer = kb.ask("What is the capital of Peru?")
    assert answer.text == "The capital is Lima [1]."
    assert answer.model == "anthropic:claude-haiku-4-5"
    assert [citation.quote for citation in answer.citations] != []
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (140, 8)
    assert answer.usage.llm_cost_usd == pytest.approx((140 * 1 + 8 * 5) / 1e6)


def test_auto_uses_the_service_whose_key_is_set(knowledge_base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with WireServer(DIALECTS["groq"], [SEARCH, ANSWER]) as server:
        point_to("groq", server.url, monkeypatch)
        with KnowledgeBase.open(knowledge_base / ".ragkit", pipeline=knowledge_base / "ragkit.yaml") as kb:
            answer = kb.ask("What is the capital of Peru?")
    assert (answer.text, answer.model) == ("The capital is Lima [1].", "groq:llama-3.3-70b-versatile")


def test_an_ollama_model_with_a_colon_is_reported_with_its_provider(
    knowledge_base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WireServer(DIALECTS["ollama"], [SEARCH, ANSWER]) as server:
        point_to("ollama", server.url, monkeypatch)
        with KnowledgeBase.open(knowledge_base / ".ragkit", pipeline=knowledge_base / "ragkit.yaml") as kb:
            answer = kb.ask("What is the capital of Peru?", model="ollama:qwen3:8b")
    assert (answer.model, answer.usage.total_cost_usd) == ("ollama:qwen3:8b", 0.0)


def test_an_openai_provider_accepts_an_api_key() -> None:
    provider = OpenAIProvider(api_key="k", default_model="gpt-4o")
    assert (provider.default_model, provider.name) == ("gpt-4o", "openai")


@pytest.mark.parametrize(
    "name", ["AnthropicProvider", "GeminiProvider", "GroqProvider", "OllamaProvider", "OpenAIProvider"]
)
def test_the_first_argument_of_every_provider_is_the_model(name: str) -> None:
    kind: Callable[..., Provider] = getattr(ragkit, name)
    options = {} if kind is OllamaProvider else {"api_key": "k"}
    names = [kind("m", **options), kind(model="m", **options), kind(default_model="m", **options), kind(**options)]
    assert [provider.default_model == "m" for provider in names] == [True, True, True, False]
    with pytest.raises(InvalidOption, match=r"model must be the name of a model; pass a key as api_key=") as caught:
        kind("sk-abcdefghijklmnop", **options)
    assert "abcdefgh" not in str(caught.value)
