"""The usage of a run as text."""

from __future__ import annotations

import json

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.cache.base import InMemoryCache
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.agent.tools.base import tool
from ragkit.usage.meter import AgentUsage, Meter, ModelUsage, UsageStats, record_embedding, use_meter
from ragkit.usage.summary import format_usd
from ragkit.usage.tokens import Tokens


@tool
def look(word: str) -> str:
    """Look a word up."""
    record_embedding("text-embedding-3-small", 1000, None, provider="openai")
    return word


@tool
def plain() -> str:
    """Return nothing of interest."""
    return ""


def test_a_summary_has_totals_models_and_tools() -> None:
    tokens = Tokens(10_000, 500, cached_tokens=2_000)
    calls = (ToolCall("look", {"word": "a"}, "c1"), ToolCall("plain", {}, "c2"), ToolCall("look", {"word": "b"}, "c3"))
    script = [
        Completion(Message.assistant("", calls), tokens, model="gpt-4.1-mini", provider="openai"),
        Completion(Message.assistant("done"), tokens, model="gpt-4.1-mini", provider="openai"),
    ]
    usage = Agent(ScriptedProvider(script), [look, plain]).run("x").usage
    assert usage.summary().splitlines() == [
        "23,000 tokens (20,000 in, 1,000 out, 2,000 embedded, 4,000 cached), 4 model calls, $0.00844",
        "  openai:gpt-4.1-mini: 2 calls, 21,000 tokens (20,000 in, 1,000 out, 4,000 cached), $0.0084",
        "  openai:text-embedding-3-small: 2 calls, 2,000 tokens (2,000 embedded), $0.00004",
        "  tool look: 2 calls, 2,000 tokens (2,000 embedded), $0.00004",
        "  tool plain: 1 call",
    ]


def test_a_summary_says_what_the_response_cache_saved() -> None:
    answer = Completion(Message.assistant("hi"), Tokens(1000, 100), model="gpt-4.1-mini", provider="openai")
    agent = Agent(ScriptedProvider([answer]), config=AgentConfig(cache=InMemoryCache()))
    agent.run("x")
    usage = agent.run("x").usage
    assert usage.by_model["openai:gpt-4.1-mini"] == ModelUsage(
        0, 1, UsageStats(cached_tokens=1100, saved_cost_usd=0.00056)
    )
    assert usage.summary().splitlines() == [
        "0 tokens (1,100 cached), 0 model calls, $0.00",
        "  saved $0.00056: 1 call answered by the response cache",
        "  openai:gpt-4.1-mini: 0 calls, 0 tokens (1,100 cached), $0.00",
    ]


def test_an_unknown_price_is_called_unknown_and_the_known_part_is_told() -> None:
    meter = Meter()
    meter.record_chat("openai", "gpt-4.1-mini", Tokens(1_000_000, 0))
    meter.record_chat("openai", "nobody-knows", Tokens(10, 2))
    assert meter.usage().summary().splitlines() == [
        "1,000,012 tokens (1,000,010 in, 2 out), 2 model calls, "
        "cost unknown ($0.40 without the models whose price is unknown)",
        "  openai:gpt-4.1-mini: 1 call, 1,000,000 tokens (1,000,000 in), $0.40",
        "  openai:nobody-knows: 1 call, 12 tokens (10 in, 2 out), price unknown",
    ]


def test_usage_by_model_survives_json_and_a_resumed_run() -> None:
    meter = Meter()
    meter.record_chat("openai", "gpt-4.1-mini", Tokens(10, 2))
    meter.record_cache_hit("openai", "gpt-4.1-mini", Tokens(10, 2))
    usage = meter.usage()
    restored = AgentUsage.from_dict(json.loads(json.dumps(usage.to_dict())))
    assert restored == usage
    later = Meter()
    later.restore(restored)
    later.record_chat("openai", "gpt-4.1-mini", Tokens(10, 2))
    assert later.usage().by_model["openai:gpt-4.1-mini"].calls == 2


def test_the_models_of_an_agent_inside_a_tool_are_counted_in_the_outer_run() -> None:
    outer = Meter()
    with use_meter(outer, tool="expert"):
        Meter().record_chat("local", "m", Tokens(10, 1))
    assert (outer.usage().by_model["local:m"].calls, outer.usage().by_tool["expert"].calls) == (1, 0)


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (0.0, "$0.00"),
        (12.5, "$12.50"),
        (0.5, "$0.50"),
        (0.000528, "$0.000528"),
        (1e-9, "<$0.000001"),
        (None, "price unknown"),
    ],
)
def test_dollars_are_shown_as_exactly_as_they_count(cost: float | None, text: str) -> None:
    assert format_usd(cost) == text
