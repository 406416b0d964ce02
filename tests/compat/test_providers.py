"""Providers with the signatures of other libraries: their answers, streams, tools and costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ragkit import Agent, AgentConfig, Message, Provider, RateLimited, ScriptedProvider, ToolCall, UsageStats, tool
from ragkit.agent.config import RetryPolicy
from ragkit.agent.events import TextChunk
from ragkit.agent.providers.base import Completion, ModelRequest
from ragkit.errors import InvalidOption, ProviderError


@tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


Arguments = dict[str, object]


class Recorder:
    """Answers with a script and keeps the arguments of each call."""

    def __init__(self, *script: object) -> None:
        self.script = list(script)
        self.seen: list[Arguments] = []

    def take(self, **arguments: object) -> Any:
        self.seen.append(arguments)
        return self.script[len(self.seen) - 1]


class Full(Recorder):
    """The signature of the first document."""

    def complete(  # noqa: PLR0917 - the documented signature
        self,
        model: str,
        system_prompt: str,
        messages: list[Message],
        tools: list[object] | None = None,
        temperature: float = 0.0,
        max_tokens: int = 1000,
        timeout: float | None = None,
    ) -> object:
        return self.take(
            model=model,
            prompt=system_prompt,
            messages=messages,
            tools=tools,
            settings=(temperature, max_tokens, timeout),
        )


USAGE = UsageStats(prompt_tokens=11, completion_tokens=2, llm_cost_usd=0.5)


@pytest.mark.parametrize(
    "answer",
    [
        "It is 3.",
        Message.assistant("It is 3."),
        (Message.assistant("It is 3."), USAGE),
        ("It is 3.", {"prompt_tokens": 11}),
    ],
)
def test_a_provider_may_return_text_a_message_or_a_pair(answer: object) -> None:
    provider = Full(answer)
    agent = Agent(provider, config=AgentConfig(model="m", temperature=0.1, max_tokens=7), instructions="Be brief.")  # type: ignore[arg-type]
    result = agent.run("What is 1 + 2?")
    assert result.content == "It is 3."
    assert result.usage.prompt_tokens == (11 if isinstance(answer, tuple) else 0)
    [seen] = provider.seen
    assert (seen["model"], seen["prompt"], seen["tools"]) == ("m", "Be brief.", None)
    assert seen["messages"] == [Message.user("What is 1 + 2?")]
    assert seen["settings"] == (0.1, 7, 120.0)


def test_tools_reach_a_provider_that_takes_them_and_the_prompt_of_one_that_does_not() -> None:
    provider = Full(Message.assistant("", [ToolCall("add", {"a": 1, "b": 2})]), "It is 3.")
    assert Agent(provider, [add]).run("go").tool_calls[0].content == "3"  # type: ignore[arg-type]
    assert provider.seen[0]["tools"] == [add]
    assert "TOOL_CALL" not in str(provider.seen[0]["prompt"])

    class Plain(Recorder):
        def complete(self, prompt: str, messages: list[Message]) -> object:
            return self.take(prompt=prompt)

    plain = Plain('TOOL_CALL {"tool_name": "add", "parameters": {"a": 1, "b": 2}}', "It is 3.")
    assert Agent(plain, [add]).run("go").tool_calls[0].content == "3"  # type: ignore[arg-type]
    assert "add: Add two numbers." in str(plain.seen[0]["prompt"])


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


def test_an_asynchronous_provider_and_streams_of_text_are_adapted() -> None:
    class Streams:
        def stream(self, model: str, system_prompt: str, messages: Sequence[Message]) -> Iterator[str | ToolCall]:
            yield from ("It ", "is 3.")

        async def astream(self, model: str, system_prompt: str, messages: Sequence[Message]) -> AsyncIterator[str]:
            for piece in ("It ", "is 4."):
                yield piece

        async def acomplete(self, model: str, system_prompt: str, messages: Sequence[Message]) -> str:
            return "It is 5."

    agent = Agent(Streams())  # type: ignore[arg-type]

    async def collect() -> str:
        return "".join([event.text async for event in agent.astream("go") if isinstance(event, TextChunk)])

    assert [event.text for event in agent.stream("go") if isinstance(event, TextChunk)] == ["It ", "is 3."]
    assert asyncio.run(collect()) == "It is 4."
    assert asyncio.run(agent.arun("go")).content == "It is 5."


@dataclass
class ChatResponse:
    text: str
    tool_calls: list[dict[str, object]] = field(default_factory=list)
    usage: object = None


def test_chat_gets_the_format_of_openai_and_its_cost_is_used() -> None:
    class Chat(Recorder):
        def chat(self, messages: list[Arguments], tools: list[Arguments] | None = None) -> object:
            return self.take(messages=messages, tools=tools)

        def get_cost(self, usage: UsageStats) -> float:
            return usage.prompt_tokens / 1000

    call: Arguments = {"id": "c1", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    provider = Chat(ChatResponse("", [call], USAGE), ChatResponse("It is 3.", usage=USAGE))
    result = Agent(provider, [add]).run("What is 1 + 2?")  # type: ignore[arg-type]
    assert (result.content, result.usage.prompt_tokens) == ("It is 3.", 22)
    assert result.total_cost == pytest.approx(0.022)
    first, second = provider.seen
    assert first["tools"] == [add.to_schema()]
    messages: Any = second["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool"]
    assert messages[-1]["tool_call_id"] == "c1"


def test_an_error_of_an_adapted_provider_is_retried() -> None:
    class Busy(Recorder):
        def complete(self, model: str, system_prompt: str, messages: list[Message]) -> object:
            answer = self.take()
            if isinstance(answer, Exception):
                raise answer
            return answer

    provider = Busy(RateLimited("custom", "busy"), "done")
    config = AgentConfig(retry=RetryPolicy(initial_wait_s=0.0))
    assert Agent(provider, config=config).run("go").content == "done"  # type: ignore[arg-type]


def test_an_answer_of_another_kind_is_an_error_of_the_provider() -> None:
    with pytest.raises(ProviderError, match=r"must return text, a Message, .* \(got NoneType\)"):
        Agent(Full(None)).run("go")  # type: ignore[arg-type]


def test_an_object_without_a_method_of_a_provider_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"provider must be a Provider, or an object with .* chat \(got 'object'\)"):
        Agent(object())  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="provider must be a Provider"):
        Agent(name="nobody")


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


def test_the_model_of_an_agent_overrides_that_of_its_config() -> None:
    provider = ScriptedProvider(["ok"])
    Agent(provider, config=AgentConfig(model="one"), model="two").run("go")
    assert provider.requests[0].model == "two"
