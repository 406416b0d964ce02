"""Models by name: looked up in the current data, with limits and prices."""

from __future__ import annotations

import copy
import json
import pickle
import runpy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import ragkit
from ragkit import models
from ragkit.agent.agent import Agent
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.providers.base import Provider
from ragkit.agent.providers.openai import OpenAIProvider
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.models import Anthropic, Cohere, Gemini, Ollama, OpenAI, Voyage
from ragkit.usage import model_limits
from ragkit.usage.model_info import ModelInfo, Price
from ragkit.usage.pricing import PriceBook
from ragkit.usage.tokens import Tokens

ROOT = Path(__file__).parent.parent.parent
CAPITALS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


def constants() -> list[ModelInfo]:
    """Every constant of every provider."""
    classes = [value for value in vars(models).values() if isinstance(value, models._Models)]
    return [getattr(cls, name) for cls in classes for name in dir(cls) if name.lstrip("_")[0] in CAPITALS]


def test_a_constant_has_the_limits_and_price_of_its_model() -> None:
    model = OpenAI.GPT_4O
    assert model == ModelInfo("openai", "gpt-4o", 128_000, 16_384, Price(2.5, 10, 1.25))
    assert (model.id, model.name) == ("gpt-4o", "openai:gpt-4o")
    assert OpenAI.TEXT_EMBEDDING_3_SMALL.kind == "embedding"
    assert Cohere.RERANK_V3_5.price.search_usd == 2.0
    assert Voyage.VOYAGE_3_5.context_window == 32_000
    assert (Anthropic.CLAUDE_SONNET_4_5.max_output_tokens, Gemini.GEMINI_2_5_PRO.provider) == (64_000, "gemini")
    assert models.ModelInfo is ModelInfo


def test_there_are_more_than_130_constants_without_duplicates() -> None:
    names = [model.name for model in constants()]
    assert len(names) > 130
    assert len(set(names)) == len(names)


def test_an_unknown_model_is_an_attribute_error_that_says_where_to_look() -> None:
    with pytest.raises(AttributeError, match="OpenAI has no model 'GPT_NONE': `ragkit models --all` lists all models"):
        _ = OpenAI.GPT_NONE
    assert not hasattr(Voyage, "GPT_4O")


@pytest.mark.parametrize("name", ["OpenAIProvider", "AnthropicProvider", "GeminiProvider", "GroqProvider"])
def test_the_default_model_of_a_provider_has_all_limits_and_prices(name: str) -> None:
    provider: type[Provider] = getattr(ragkit, name)
    info = PriceBook().model_info(provider.name, provider.default_model)
    assert info is not None
    known = (info.context_window, info.max_output_tokens, info.price.input_usd, info.price.output_usd)
    assert None not in known, info


def test_most_models_have_limits_and_unknown_ones_are_none() -> None:
    known = [model for model in constants() if model.provider in {"openai", "anthropic", "gemini", "groq", "cohere"}]
    embedding = [model for model in constants() if model.kind == "embedding"]
    chat = [model for model in known if model.kind == "chat"]
    assert sum(model.context_window is not None for model in chat) > 0.75 * len(chat)
    assert sum(model.max_output_tokens is not None for model in chat) > 0.55 * len(chat)
    assert sum(model.context_window is not None for model in embedding) > 0.8 * len(embedding)
    assert OpenAI.DAVINCI.max_output_tokens is None


def test_models_of_ollama_cost_nothing_and_know_their_context() -> None:
    assert ModelInfo("ollama", "llama3.2", 131_072, None, Price(0, 0)) == Ollama.LLAMA3_2
    assert (Ollama.NOMIC_EMBED_TEXT.kind, Ollama.NOMIC_EMBED_TEXT.context_window) == ("embedding", 2_048)
    assert Ollama.LLAMA3_2.name == "ollama:llama3.2"


def test_a_dated_version_has_the_limits_of_the_list() -> None:
    info = PriceBook({}).model_info("anthropic", "claude-sonnet-4-5-20250929")
    assert info is not None
    assert (info.context_window, info.max_output_tokens) == (200_000, 64_000)


@pytest.fixture
def short_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A list of one model."""
    entry = {"kind": "chat", "context_window": 1000, "max_output_tokens": 100, "input": 2.0, "output": 4.0}
    (tmp_path / "list.json").write_text(json.dumps({"models": {"openai:only-listed": entry}}), "utf-8")
    monkeypatch.setattr(model_limits, "_FILE", tmp_path / "list.json")
    model_limits.listed_models.cache_clear()
    yield
    model_limits.listed_models.cache_clear()


@pytest.mark.usefixtures("short_list")
def test_a_model_that_only_the_list_has_is_priced() -> None:
    listed, book = ModelInfo("openai", "only-listed", 1000, 100, Price(2.0, 4.0)), PriceBook({})
    assert book.model_info("openai", "only-listed") == listed
    assert book.chat_cost("openai", "only-listed", Tokens(500_000, 250_000)) == 2.0
    assert listed in list(book.models())
    assert book.chat_cost("openai", "in-no-list", Tokens(1, 1)) is None


def test_the_list_is_written_from_the_data_of_litellm(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "refresh_models.py"))
    data = {
        "gemini/new": {
            "litellm_provider": "gemini", "mode": "chat", "max_input_tokens": 10, "max_output_tokens": 5,
            "input_cost_per_token": 2e-06, "output_cost_per_token": 4e-06, "cache_read_input_token_cost": 5e-07,
        },
        "voyage/new": {"litellm_provider": "voyage", "mode": "embedding", "max_input_tokens": 7},
        "rerank-new": {"litellm_provider": "cohere", "mode": "rerank", "input_cost_per_query": 0.002},
        "azure/new": {"litellm_provider": "azure", "mode": "chat"},
        "dall-e": {"litellm_provider": "openai", "mode": "image_generation"},
    }  # fmt: skip
    assert dict(script["entries"](data)) == {
        "gemini:new": {
            "kind": "chat", "context_window": 10, "max_output_tokens": 5, "input": 2.0, "output": 4.0, "cached": 0.5,
        },
        "voyage:new": {"kind": "embedding", "context_window": 7},
        "cohere:rerank-new": {"kind": "rerank", "searches": 2.0},
    }  # fmt: skip


def test_a_constant_is_the_name_of_a_model() -> None:
    model = OpenAI.GPT_4O
    assert (model, str(model), json.dumps(model), type(str(model))) == ("gpt-4o", "gpt-4o", '"gpt-4o"', str)
    assert {"gpt-4o": 1}[model] == 1
    for copied in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)), replace(model)):
        assert (copied, copied.provider, copied.price) == (model, "openai", model.price)
    assert model != replace(model, provider="azure")

    provider = ScriptedProvider(["hi"] * 2)
    Agent(provider, model=model).run("x")
    Agent(provider, config=AgentConfig(model=model)).run("x")
    assert [(request.model, type(request.model)) for request in provider.requests] == [("gpt-4o", str)] * 2
    assert OpenAIProvider(model, api_key="key").default_model == "gpt-4o"
