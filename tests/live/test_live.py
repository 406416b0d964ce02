"""One short conversation with tools on each real service whose key is in the environment."""

from __future__ import annotations

import asyncio
import os

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.events import Event, RunEnded, TextChunk
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.providers.credentials import HOST_VARIABLES
from ragkit.agent.providers.lookup import get_provider
from ragkit.agent.tools.base import tool

pytestmark = pytest.mark.live
MODEL = "RAGKIT_LIVE_MODEL_"
"""Prefix of variables that override the default model; the name of the service in upper case follows."""


@tool
def population(city: str) -> str:
    """The number of people who live in a city."""
    return {"oslo": "717 710", "bergen": "291 940"}.get(city.lower(), "unknown")


def make_agent(service: str) -> Agent:
    config = AgentConfig(model=os.environ.get(f"{MODEL}{service.upper()}", ""), max_tokens=2000)
    return Agent(get_provider(service), [population], config=config, instructions="Use the tool. Be brief.")


QUESTION = "How many people live in Oslo, and how many in Bergen? Copy the numbers as the tool writes them."


@pytest.mark.parametrize("service", HOST_VARIABLES, indirect=True)
def test_a_conversation_with_tools(service: str) -> None:
    events: list[Event] = list(make_agent(service).stream(QUESTION))
    _check(events)


@pytest.mark.parametrize("service", HOST_VARIABLES, indirect=True)
def test_a_conversation_with_tools_asynchronously(service: str) -> None:
    async def collect() -> list[Event]:
        return [event async for event in make_agent(service).astream(QUESTION)]

    _check(asyncio.run(collect()))


def _check(events: list[Event]) -> None:
    last = events[-1]
    assert isinstance(last, RunEnded)
    result = last.result
    digits = "".join(character for character in result.content if character.isdigit())
    assert "717710" in digits
    assert "291940" in digits
    assert sorted(str(call.arguments["city"]).lower() for call in result.tool_calls) == ["bergen", "oslo"]
    assert "".join(event.text for event in events if isinstance(event, TextChunk)).endswith(result.content)
    assert result.usage.prompt_tokens > 50
    assert result.usage.completion_tokens > 10
