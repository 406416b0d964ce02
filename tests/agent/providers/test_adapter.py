"""Providers with the documented signatures run in an agent, by every entry point, as our own do."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.events import Event, TextChunk
from ragkit.agent.guardrails import ToolOutputScreening
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.adapter import AdaptedProvider
from ragkit.agent.providers.base import Completion, ModelRequest, Provider
from ragkit.agent.providers.fallback import FallbackProvider
from ragkit.agent.providers.scripted import EchoProvider, LocalProvider, ScriptedProvider
from ragkit.agent.providers.signatures import adapt_provider
from ragkit.agent.result import AgentResult
from ragkit.errors import AuthenticationFailed, ConnectionFailed, InvalidOption
from ragkit.usage.meter import UsageStats
from tests.agent.parts import AT_ONCE, add, call, final_result

CALL = Message.assistant("", [call("add", a=1, b=2)])
Seen = list[dict[str, Any]]


class Parts:
    """The documented `complete`, which also records what it gets; calls a tool, then answers."""

    name = "parts"
    default_model = "parts-1"

    def __init__(self) -> None:
        self.seen: Seen = []

    def complete(  # noqa: PLR0917 - the documented signature
        self,
        model: str,
        system_prompt: str,
        messages: list[Message],
        tools: list[Any] | None = None,
        temperature: float = 0.0,
        max_tokens: int = 1000,
        timeout: float | None = None,
    ) -> tuple[Message, UsageStats]:
        self.seen.append({"model": model, "prompt": system_prompt, "messages": list(messages), "tools": tools})
        self.seen[-1] |= {"temperature": temperature, "max_tokens": max_tokens, "timeout": timeout}
        answer = Message.assistant("It is 3.") if messages[-1].role is Role.TOOL else CALL
        return answer, UsageStats(100, 5, llm_cost_usd=0.25)


class AsyncParts(Parts):
    """The documented `acomplete` alone."""

    complete = None  # type: ignore[assignment]

    async def acomplete(
        self, model: str, system_prompt: str, messages: list[Message], tools: list[Any] | None = None
    ) -> tuple[Message, UsageStats]:
        return Parts.complete(self, model, system_prompt, messages, tools)


class StreamParts(Parts):
    """All four, as they are documented; the streams yield text and tool calls."""

    def stream(
        self, model: str, system_prompt: str, messages: list[Message], tools: list[Any] | None = None
    ) -> Iterator[str | ToolCall | Completion]:
        answer, _ = self.complete(model, system_prompt, messages, tools)
        yield from answer.content.split(" ") if answer.content else ()
        yield from answer.tool_calls

    async def astream(
        self, model: str, system_prompt: str, messages: list[Message], tools: list[Any] | None = None
    ) -> AsyncIterator[str | ToolCall | Completion]:
        for item in self.stream(model, system_prompt, messages, tools):
            yield item


def sync(agent: Agent) -> AgentResult:
    return agent.run("1 + 2?")


def asynchronous(agent: Agent) -> AgentResult:
    return asyncio.run(agent.arun("1 + 2?"))


def stream(agent: Agent) -> AgentResult:
    return final_result(list(agent.stream("1 + 2?")))


def astream(agent: Agent) -> AgentResult:
    async def collect() -> list[Event]:
        return [event async for event in agent.astream("1 + 2?")]

    return final_result(asyncio.run(collect()))


RunAgent = Callable[[Agent], AgentResult]
every_entry_point = pytest.mark.parametrize("run", [sync, asynchronous, stream, astream])


def create_agent(provider: Any, tools: Sequence[Any] = (add,), **options: Any) -> Agent:
    config = AgentConfig(**options, screening=ToolOutputScreening(mark_as_data=False))
    return Agent(provider, tools, config=config, instructions="Be short.")


@every_entry_point
@pytest.mark.parametrize("kind", [Parts, AsyncParts])
def test_the_parts_of_a_request_are_arguments(kind: type[Parts], run: RunAgent) -> None:
    provider = kind()
    result = run(create_agent(provider, temperature=0.2, max_tokens=77))
    assert (result.content, result.tool_calls[0].content) == ("It is 3.", "3")
    assert (result.usage.prompt_tokens, result.usage.total_cost_usd) == (200, 0.5)
    first, second = provider.seen
    assert (first["model"], first["prompt"], [item.name for item in first["tools"]]) == (
        "parts-1",
        "Be short.",
        ["add"],
    )
    assert first["messages"] == [Message.user("1 + 2?")]
    assert [message.role for message in second["messages"]] == [Role.USER, Role.ASSISTANT, Role.TOOL]
    if kind is Parts:
        assert (first["temperature"], first["max_tokens"], first["timeout"]) == (0.2, 77, 120.0)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_documented_stream_is_streamed(is_async: bool) -> None:
    agent = create_agent(StreamParts())

    async def collect() -> list[Event]:
        return [event async for event in agent.astream("1 + 2?")]

    events = asyncio.run(collect()) if is_async else list(agent.stream("1 + 2?"))
    assert [event.text for event in events if isinstance(event, TextChunk)] == ["It", "is", "3."]
    assert final_result(events).tool_calls[0].content == "3"


@pytest.mark.parametrize("answer", ["hello", Message.assistant("hello"), Completion(Message.assistant("hello"))])
@every_entry_point
def test_an_answer_may_be_text_a_message_or_a_completion(run: RunAgent, answer: Any) -> None:
    class Plain:
        def complete(self, model: str, prompt: str, messages: list[Message]) -> Any:
            return answer

    result = run(create_agent(Plain()))
    assert (result.content, result.usage.total_cost_usd) == ("hello", None)


def test_without_tools_in_the_signature_the_prompt_describes_them() -> None:
    prompts: list[str] = []

    class Textual:
        def complete(self, model: str, system_prompt: str, messages: list[Message]) -> str:
            prompts.append(system_prompt)
            call = 'TOOL_CALL {"tool_name": "add", "parameters": {"a": 1, "b": 2}}'
            return "It is 3." if messages[-1].role is Role.TOOL else call

    result = create_agent(Textual()).run("1 + 2?")
    assert (result.content, result.tool_calls[0].content) == ("It is 3.", "3")
    assert "TOOL_CALL" in prompts[0]


def test_options_may_be_collected() -> None:
    seen: Seen = []

    class Custom(Provider):
        def complete(self, messages: Any, **options: Any) -> str:  # type: ignore[override]
            seen.append({**options, "messages": messages})
            return "hello"

    assert create_agent(Custom()).run("hi").content == "hello"
    assert [message.role for message in seen[0]["messages"]] == [Role.SYSTEM, Role.USER]
    assert {"model", "temperature", "max_tokens", "top_p", "timeout", "tools"} == seen[0].keys() - {"messages"}


@every_entry_point
@pytest.mark.parametrize("base", [object, Provider])
def test_all_parts_may_be_collected(base: type, run: RunAgent) -> None:
    seen: Seen = []

    class Collects(base):  # type: ignore[misc]  # either class
        def complete(self, **kwargs: Any) -> str:
            seen.append(kwargs)
            return "hi"

    class WithModel(base):  # type: ignore[misc]  # either class
        def complete(self, model: str, **kwargs: Any) -> str:
            seen.append({"model": model, **kwargs})
            return "hi"

    for kind in (Collects, WithModel):
        assert run(create_agent(kind(), model="m")).content == "hi"
        names = {"model", "system_prompt", "messages", "tools", "temperature", "top_p", "max_tokens", "timeout"}
        assert seen[-1].keys() == names
        assert (seen[-1]["model"], [tool.name for tool in seen[-1]["tools"]]) == ("m", ["add"])
        assert seen[-1]["system_prompt"].startswith("Be short.")
        assert [message.role for message in seen[-1]["messages"]] == [Role.USER]


@every_entry_point
def test_a_subclass_of_one_of_ours_may_have_documented_methods(run: RunAgent) -> None:
    class Whole(LocalProvider):
        def complete(self, model: str, system_prompt: str, messages: list[Message]) -> str:  # type: ignore[override]
            return f"answer to {messages[-1].content}"

    class AsyncWhole(LocalProvider):
        async def acomplete(self, **kwargs: Any) -> str:  # type: ignore[override]
            return f"answer to {kwargs['messages'][-1].content}"

    for kind in (Whole, AsyncWhole):
        assert run(create_agent(kind())).content == "answer to 1 + 2?"


def test_a_provider_may_hand_all_parts_to_one_of_ours() -> None:
    class Logs:
        def complete(self, **kwargs: Any) -> Completion:
            return inner.complete(**kwargs)

    inner = ScriptedProvider(["hi"])
    assert create_agent(Logs(), temperature=0.5, top_p=0.5).run("x").content == "hi"
    assert (inner.requests[0].settings.temperature, inner.requests[0].settings.top_p) == (0.5, 0.5)


def test_our_providers_are_called_by_keyword_as_documented() -> None:
    message = Message.user("hello")
    for call_provider in (EchoProvider().complete, LocalProvider().complete):
        by_name = call_provider(model="m", system_prompt="s", messages=[message])  # type: ignore[call-arg]  # documented
        by_place = call_provider("m", "s", [message])  # type: ignore[call-arg,arg-type]  # documented
        request = ModelRequest("m", (Message.system("s"), message))
        assert by_name == by_place == call_provider(request) == call_provider(request=request)
    provider = ScriptedProvider(["hi"])
    list(provider.stream(model="m", messages=[message], temperature=0.5))  # type: ignore[call-arg]  # documented
    assert (provider.requests[0].model, provider.requests[0].settings.temperature) == ("m", 0.5)


@dataclass
class ChatResponse:
    text: str
    tool_calls: list[Any] = field(default_factory=list)
    usage: object = None


class ChatProvider(ABC):
    """The interface of the third document."""

    @abstractmethod
    def chat(self, messages: list[dict[str, Any]], tools: Any = None) -> ChatResponse: ...

    @abstractmethod
    def get_cost(self, usage: Any) -> float: ...


class Chat(ChatProvider):
    def __init__(self) -> None:
        self.seen: Seen = []

    def chat(self, messages: list[dict[str, Any]], tools: Any = None) -> ChatResponse:
        self.seen.append({"messages": messages, "tools": tools})
        if messages[-1]["role"] == "tool":
            return ChatResponse("It is 3.", [], {"input_tokens": 10, "output_tokens": 2})
        function = {"name": "add", "arguments": '{"a": 1, "b": 2}'}
        return ChatResponse("", [{"id": "c1", "type": "function", "function": function}], {"input_tokens": 10})

    def get_cost(self, usage: Any) -> float:
        return float(usage["input_tokens"]) / 100


@every_entry_point
def test_a_provider_with_chat_and_get_cost_runs(run: RunAgent) -> None:
    provider = Chat()
    result = run(create_agent(provider))
    assert (result.content, result.tool_calls[0].content) == ("It is 3.", "3")
    assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (20, 2)
    assert result.usage.total_cost_usd == pytest.approx(0.2)
    first, second = provider.seen
    assert first["messages"][0] == {"role": "system", "content": "Be short."}
    assert first["tools"][0]["function"]["name"] == "add"
    assert second["messages"][-1] == {"role": "tool", "tool_call_id": "c1", "content": "3"}


def test_a_subclass_of_our_protocol_may_have_chat_alone() -> None:
    class Subclass(Provider):
        def chat(self, messages: Any, tools: Any = None) -> ChatResponse:
            return ChatResponse("hello")

    assert create_agent(Subclass()).run("hi").content == "hello"


def test_our_own_providers_are_not_adapted() -> None:
    class Own(Provider):
        def complete(self, request: ModelRequest) -> Completion:
            return Completion(Message.assistant("hello"))

    for provider in (EchoProvider(), Own()):
        assert adapt_provider(provider) is provider
        assert Agent(provider).provider is provider
    adapted = Agent(Parts()).provider  # type: ignore[arg-type]  # adapted when the program runs
    assert isinstance(adapted, AdaptedProvider)
    assert (adapted.name, adapt_provider(adapted)) == ("parts", adapted)


def test_an_adapted_provider_may_be_in_a_fallback_chain() -> None:
    class Down:
        def complete(self, model: str, system_prompt: str, messages: list[Message]) -> str:
            raise ConnectionFailed("down", "no connection")

    chain = FallbackProvider([Down(), Parts()])  # type: ignore[list-item]  # adapted when the program runs
    assert create_agent(chain).run("1 + 2?").content == "It is 3."


def test_unknown_signatures_and_answers_are_errors() -> None:
    class Nothing:
        pass

    class Unknown:
        def complete(self, messages: Any, colour: str) -> str:
            return colour

    class Number:
        def complete(self, messages: Any) -> int:
            return 3

    with pytest.raises(
        InvalidOption, match=r"provider must be a Provider .an object with complete, stream, acomplete, astream or chat"
    ):
        create_agent(Nothing())
    with pytest.raises(InvalidOption, match=r"a parameter of Unknown.complete must be one of .*messages.* 'colour'"):
        create_agent(Unknown())
    with pytest.raises(InvalidOption, match="the answer of a provider must be text, a Message"):
        create_agent(Number()).run("x")


class SdkError(Exception):
    """An error of a service's SDK, with its HTTP status."""

    def __init__(self, status_code: int | None) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


class Raises:
    """A provider that raises an error of its own until it is used up."""

    name = "mine"

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.calls = list(errors), 0

    def complete(self, model: str, system_prompt: str, messages: list[Message]) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "It is 3."


class RaisesInStream(Raises):
    def stream(self, model: str, system_prompt: str, messages: list[Message]) -> Iterator[str]:
        yield self.complete(model, system_prompt, messages)


TRANSIENT = [ConnectionResetError("reset"), TimeoutError(), OSError("no route"), SdkError(None), SdkError(503)]


@every_entry_point
@pytest.mark.parametrize("kind", [Raises, RaisesInStream])
@pytest.mark.parametrize("error", TRANSIENT, ids=repr)
def test_errors_of_a_service_are_retried_and_handed_to_the_next_provider(
    error: Exception, kind: type[Raises], run: RunAgent
) -> None:
    provider = kind(error)
    assert (run(create_agent(provider, (), retry=AT_ONCE)).content, provider.calls) == ("It is 3.", 2)

    down, other = kind(*[error] * 9), kind()
    chain = FallbackProvider([down, other])  # type: ignore[list-item]  # adapted when the program runs
    assert (run(create_agent(chain, ())).content, down.calls, other.calls) == ("It is 3.", 1, 1)


@every_entry_point
def test_an_error_of_a_service_that_stays_is_a_provider_error_with_its_cause(run: RunAgent) -> None:
    error = ConnectionResetError("reset")
    provider = Raises(*[error] * 9)
    with pytest.raises(ConnectionFailed, match=r"^mine: reset$") as raised:
        run(create_agent(provider, (), retry=AT_ONCE))
    assert (raised.value.__cause__, provider.calls) == (error, AT_ONCE.max_attempts)

    provider = Raises(SdkError(401))
    with pytest.raises(AuthenticationFailed, match="the API key was rejected: status 401"):
        run(create_agent(provider, (), retry=AT_ONCE))
    assert provider.calls == 1


PROGRAMS = [TypeError("bad"), AttributeError("bad"), KeyError("bad"), FileNotFoundError("bad"), RuntimeError("bad")]


@every_entry_point
@pytest.mark.parametrize("error", PROGRAMS, ids=repr)
def test_an_error_of_the_program_is_raised_at_once(error: Exception, run: RunAgent) -> None:
    provider, other = Raises(error), Raises()
    with pytest.raises(type(error), match="bad"):
        run(create_agent(provider, (), retry=AT_ONCE))
    chain = FallbackProvider([Raises(error), other])  # type: ignore[list-item]  # adapted when the program runs
    with pytest.raises(type(error), match="bad"):
        run(create_agent(chain, (), retry=AT_ONCE))
    assert (provider.calls, other.calls) == (1, 0)
