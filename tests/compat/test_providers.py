"""The documented ways to call a provider and to give it to an agent."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from ragkit import Agent, AgentConfig, Document, Message, Provider, RAGAgent, ScriptedProvider, tool
from ragkit.agent.providers.base import Completion, ModelRequest
from ragkit.agent.providers.signatures import adapt_provider
from ragkit.embed.hashing import HashingEmbedder
from ragkit.embed.options import HashingOptions


@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


Arguments = dict[str, object]


def test_a_subclass_with_options_gets_all_of_them() -> None:
    seen: list[tuple[list[Message], Arguments]] = []

    class Custom(Provider):
        def complete(self, messages: list[Message], **options: object) -> str:  # type: ignore[override]
            seen.append((messages, options))
            return "hello"

    provider = Custom()
    agent = Agent(name="assistant", model=provider.model("custom-model"))  # type: ignore[attr-defined]
    assert agent.run("hi").content == "hello"
    [(messages, options)] = seen
    assert [message.role.value for message in messages] == ["system", "user"]
    assert (options["model"], options["temperature"], options["tools"]) == ("custom-model", 0.7, None)
    assert provider.complete([Message.user("directly")], top_k=1) == "hello"
    assert seen[-1] == ([Message.user("directly")], {"top_k": 1})


def test_ragkits_providers_take_the_parts_of_a_request_too() -> None:
    provider: Any = ScriptedProvider(["one", "two", "three"])
    message, usage = provider.complete("m", "Be brief.", [Message.user("hi")], [add], temperature=0.2, max_tokens=5)
    assert (message.content, usage.cost_usd) == ("one", 0.0)
    assert asyncio.run(provider.acomplete("m", messages=[Message.user("hi")])).message.content == "two"
    assert [type(delta).__name__ for delta in provider.stream("m", "", [])] == ["TextDelta", "StreamCompleted"]
    request: ModelRequest = provider.requests[0]
    assert [item.content for item in request.messages] == ["Be brief.", "hi"]
    assert (request.tools, request.settings.temperature, request.settings.max_tokens) == ((add,), 0.2, 5)


def test_a_completion_unpacks_into_its_message_and_its_usage() -> None:
    completion = Completion(Message.assistant("hi"))
    assert list(completion) == [completion.message, completion.usage]


def test_a_method_may_be_set_on_the_object() -> None:
    async def acomplete(model: str, system_prompt: str, messages: list[Message]) -> str:
        return "asynchronous"

    provider: Any = SimpleNamespace(
        complete=lambda model, system_prompt, messages: f"to {messages[-1].content}", acomplete=acomplete
    )
    agent = Agent(provider, [add])
    assert agent.run("Ada").content == "to Ada"
    assert asyncio.run(agent.arun("Ada")).content == "asynchronous"


def test_a_provider_says_that_its_model_is_small_and_on_this_machine() -> None:
    def complete(model: str, system_prompt: str, messages: list[Message]) -> str:
        return "yes"

    small = adapt_provider(
        cast("Provider", SimpleNamespace(complete=complete, on_this_machine=True, writes_calls=True))
    )
    other = adapt_provider(cast("Provider", SimpleNamespace(complete=complete)))
    assert (small.on_this_machine, small.writes_calls) == (True, True)
    assert (other.on_this_machine, other.writes_calls) == (False, False)


def test_a_provider_that_answers_to_every_attribute_reads_documents() -> None:
    class Wrapper:
        """As wrappers and doubles of clients do."""

        def __getattr__(self, name: str) -> Wrapper:
            return Wrapper()

        def complete(self, model: str, system_prompt: str, messages: list[Message], **settings: object) -> str:
            return "In August [1]."

    agent = RAGAgent.from_documents(
        [Document("The hedge is cut in August.", {"source": "garden"})],
        Wrapper(),  # type: ignore[arg-type]
        embedder=HashingEmbedder(HashingOptions(16)),
    )
    answer = agent.ask("When is the hedge cut?")
    assert (answer.text, [citation.source for citation in answer.citations]) == ("In August [1].", ["garden"])


def test_the_model_of_an_agent_overrides_that_of_its_config() -> None:
    provider = ScriptedProvider(["ok"])
    Agent(provider, config=AgentConfig(model="one"), model="two").run("go")
    assert provider.requests[0].model == "two"
