"""The cache that compares questions by their meaning."""

from __future__ import annotations

import asyncio
import logging

import numpy as np
import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.cache.base import CacheStats
from ragkit.agent.cache.semantic import SemanticCache, Vector
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.messages import Message
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.embed.minilm import MiniLM
from ragkit.errors import ConnectionFailed, InvalidOption
from ragkit.usage.meter import record_embedding
from ragkit.usage.tokens import Tokens
from tests.agent.parts import add, call, tool_messages

VECTORS = {"open": [1, 0, 0], "hours": [0.9, 0.436, 0], "price": [0, 1, 0], "cost": [0, 0.98, 0.2]}


class TableEmbedder:
    """Vectors from a table: the first known word of a text counts."""

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def embed_query(self, text: str) -> Vector:
        self.embedded.append(text)
        record_embedding("table", 7, 0.001, provider="test")
        word = next(word for word in VECTORS if word in text)
        return np.asarray(VECTORS[word], np.float32) * 3  # not of length 1


def agent_with(cache: SemanticCache, *answers: str, **config: float) -> Agent:
    settings = AgentConfig(cache=cache, **config)  # type: ignore[arg-type]  # temperature only
    return Agent(ScriptedProvider(answers), config=settings)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_question_of_the_same_meaning_is_answered_once(is_async: bool) -> None:
    cache = SemanticCache(TableEmbedder(), 0.85)
    agent = agent_with(cache, "from 9 to 5", "two euros")

    def ask(question: str) -> str:
        return (asyncio.run(agent.arun(question)) if is_async else agent.run(question)).content

    asked = ["when open?", "hours please", "the price?", "what does it cost", "when open?"]
    assert [ask(question) for question in asked] == ["from 9 to 5"] * 2 + ["two euros"] * 2 + ["from 9 to 5"]
    assert cache.stats == CacheStats(hits=3, misses=2, evictions=0, size=2)


def test_the_threshold_decides() -> None:
    agent = agent_with(SemanticCache(TableEmbedder(), 0.91), "first", "second")
    assert [agent.run(question).content for question in ("open?", "hours?")] == ["first", "second"]


def test_of_several_answers_the_nearest_is_used() -> None:
    cache = SemanticCache(TableEmbedder(), 0.95)
    agent = agent_with(cache, "first", "second")
    assert (agent.run("open?").content, agent.run("hours?").content) == ("first", "second")
    cache.threshold = 0.5
    assert agent.run("hours again").content == "second"


def test_texts_with_other_numbers_never_match() -> None:
    agent = agent_with(SemanticCache(TableEmbedder(), 0.5), "12", "13", "none")
    assert [agent.run(question).content for question in ("price of 2", "price of 3", "price", "cost of 2")] == [
        "12",
        "13",
        "none",
        "12",
    ]


def test_model_settings_prompt_tools_and_history_must_be_the_same() -> None:
    cache = SemanticCache(TableEmbedder(), 0.5)
    agents = [
        Agent(ScriptedProvider(["plain"]), config=AgentConfig(cache=cache)),
        Agent(ScriptedProvider(["model"]), config=AgentConfig(cache=cache, model="other")),
        Agent(ScriptedProvider(["temperature"]), config=AgentConfig(cache=cache, temperature=0.1)),
        Agent(ScriptedProvider(["prompt"]), config=AgentConfig(cache=cache), instructions="Be rude."),
        Agent(ScriptedProvider(["tools"]), [add], config=AgentConfig(cache=cache)),
    ]
    assert [agent.run("open?").content for agent in agents] == ["plain", "model", "temperature", "prompt", "tools"]
    assert [agent.run("open now?").content for agent in agents] == ["plain", "model", "temperature", "prompt", "tools"]
    history = [Message.user("I am Ilse"), Message.assistant("Hello"), Message.user("open?")]
    assert Agent(ScriptedProvider(["other"]), config=AgentConfig(cache=cache)).run(history).content == "other"


def test_calls_of_tools_are_answered_from_the_cache_too() -> None:
    cache = SemanticCache(TableEmbedder(), 0.85)
    agent = Agent(ScriptedProvider([call("add", a=1, b=2), "3"]), [add], config=AgentConfig(cache=cache))
    assert [agent.run(question).content for question in ("the price?", "the cost?")] == ["3", "3"]
    assert tool_messages(agent.run("cost?")) == ["3"]


def test_the_cost_of_embedding_is_in_the_usage_and_a_text_is_embedded_once() -> None:
    embedder = TableEmbedder()
    answer = Completion(Message.assistant("9 to 5"), Tokens(100, 10, cost_usd=0.5))
    agent = Agent(ScriptedProvider([answer]), config=AgentConfig(cache=SemanticCache(embedder, 0.85)))
    first, second = agent.run("open?").usage, agent.run("hours?").usage
    assert (first.embedding_cost_usd, first.llm_cost_usd, first.embedding_tokens) == (0.001, 0.5, 7)
    assert (second.total_cost_usd, second.saved_cost_usd) == (0.001, 0.5)
    assert embedder.embedded == ["open?", "hours?"]


def test_entries_expire_and_the_oldest_are_evicted() -> None:
    now = [0.0]
    cache = SemanticCache(TableEmbedder(), 0.99, max_size=1, default_ttl=10, clock=lambda: now[0])
    agent = agent_with(cache, "a", "b", "c", "d")
    assert [agent.run("open?").content, agent.run("open?").content] == ["a", "a"]
    now[0] = 10.0
    assert agent.run("open?").content == "b"
    assert [agent.run("price?").content, agent.run("open?").content] == ["c", "d"]
    assert cache.stats == CacheStats(hits=1, misses=4, evictions=3, size=1)
    cache.clear()
    assert cache.stats == CacheStats()


def test_an_embedder_that_fails_is_a_miss(caplog: pytest.LogCaptureFixture) -> None:
    class Down:
        def embed_query(self, text: str) -> Vector:
            raise ConnectionFailed("embedder", "no network")

    agent = agent_with(SemanticCache(Down()), "one", "two")
    with caplog.at_level(logging.WARNING, "ragkit.agent"):
        assert [agent.run("open?").content, agent.run("open?").content] == ["one", "two"]
    assert "the embedder failed" in caplog.text


def test_options_are_checked() -> None:
    with pytest.raises(InvalidOption, match="threshold must be > 0 and <= 1"):
        SemanticCache(TableEmbedder(), 1.5)
    with pytest.raises(InvalidOption, match="max_size must be >= 1"):
        SemanticCache(TableEmbedder(), max_size=0)


def test_it_works_with_the_embedder_that_ships() -> None:
    cache = SemanticCache(MiniLM(), 0.8)
    agent = agent_with(cache, "14 days", "Oslo")
    assert agent.run("How do I get a refund?").content == "14 days"
    assert agent.run("How can I get a refund?").content == "14 days"
    assert agent.run("Where is your office?").content == "Oslo"
