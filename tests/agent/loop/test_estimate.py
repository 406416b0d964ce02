"""The estimate of a run before it starts."""

from __future__ import annotations

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.memory.memory import ConversationMemory, estimate_message_tokens
from ragkit.agent.messages import Message, canonical_json
from ragkit.agent.providers.fallback import FallbackProvider
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.usage.model_info import ModelInfo, Price
from ragkit.usage.pricing import PriceBook
from ragkit.usage.tokens import estimate_tokens
from tests.agent.parts import add

PRICES = PriceBook({"scripted": ModelInfo("scripted", "scripted", price=Price(input_usd=1.0, output_usd=10.0))})


def test_an_estimate_counts_prompt_tools_memory_and_input() -> None:
    memory = ConversationMemory(messages=[Message.user("earlier " * 50), Message.assistant("yes")])
    provider = ScriptedProvider([])
    provider.native_tools = True
    agent = Agent(provider, [add], config=AgentConfig(max_iterations=3, max_tokens=100, prices=PRICES), memory=memory)
    estimate = agent.estimate("How much is 1 + 2?")
    messages = [*agent.system_message, *memory, Message.user("How much is 1 + 2?")]
    schema = estimate_tokens(canonical_json(add.to_schema()))
    assert estimate.prompt_tokens == sum(map(estimate_message_tokens, messages)) + schema
    prompt = estimate.prompt_tokens
    assert (estimate.completion_tokens, estimate.tokens) == (100, prompt + 100)
    assert estimate.cost_usd == pytest.approx((prompt * 1.0 + 100 * 10.0) / 1e6)
    assert estimate.max_tokens == (prompt + 100) + (prompt + 200) + (prompt + 300)
    assert estimate.max_cost_usd == pytest.approx((3 * prompt + 300 + 300 * 10.0) / 1e6)
    assert str(estimate).startswith(f"one request: up to {prompt + 100} tokens ({prompt} in), $0.001")


def test_the_estimate_of_the_prompt_is_what_the_run_then_sends() -> None:
    provider = ScriptedProvider(["hi"])
    agent = Agent(provider, [add])
    estimate = agent.estimate([Message.user("a"), Message.assistant("b"), Message.user("c")])
    agent.run([Message.user("a"), Message.assistant("b"), Message.user("c")])
    request = provider.requests[0]
    tools = (
        sum(estimate_tokens(canonical_json(tool.to_schema())) for tool in request.tools) if provider.native_tools else 0
    )
    assert estimate.prompt_tokens == sum(map(estimate_message_tokens, request.messages)) + tools


def test_an_estimate_sends_nothing_and_changes_no_memory() -> None:
    provider, memory = ScriptedProvider([]), ConversationMemory()
    Agent(provider, memory=memory).estimate("hi")
    assert (provider.requests, list(memory)) == ([], [])


def test_an_unknown_price_is_none() -> None:
    estimate = Agent(ScriptedProvider([]), config=AgentConfig(prices=PriceBook({}))).estimate("hi")
    assert (estimate.cost_usd, estimate.max_cost_usd) == (None, None)
    assert str(estimate).count("price unknown") == 2


def test_a_fallback_chain_is_estimated_by_its_first_provider() -> None:
    chain = FallbackProvider([ScriptedProvider([]), ScriptedProvider([])])
    config = AgentConfig(prices=PRICES)
    expected = Agent(ScriptedProvider([]), config=config).estimate("hi")
    assert Agent(chain, config=config).estimate("hi") == expected
