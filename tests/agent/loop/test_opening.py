"""Tool calls that an agent makes itself before its first request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.events import Event, RunEnded, ToolEnded
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import BY_RAGKIT, Message, Role, ToolCall, json_objects
from ragkit.agent.policy import ToolPolicy
from ragkit.agent.providers.scripted import ScriptedProvider, ScriptedTurn
from ragkit.agent.tracing.trace import StepType
from ragkit.errors import KnowledgeBaseError, ToolsNotSupported
from tests.agent.parts import AT_ONCE, add, call, fail, names, request_messages


def add_one(messages: Sequence[Message]) -> list[ToolCall]:
    return [ToolCall("add", {"a": 1, "b": len(messages)})]


def opened(script: Sequence[ScriptedTurn], config: AgentConfig | None = None) -> tuple[Agent, ScriptedProvider]:
    provider = ScriptedProvider(script)
    agent = Agent(provider, [add, fail], config=config or AgentConfig(retry=AT_ONCE))
    return replace(agent, opening=add_one), provider


def test_the_first_request_has_the_result_above_the_users_text_and_no_call() -> None:
    agent, provider = opened(["done"])
    result = agent.run("How many?")
    [(role, content)] = request_messages(provider)
    assert role == "user"
    assert content.startswith('<data tool="add"')
    assert content.endswith('</data n="' + content.split('n="')[1][:12] + '">\n\nHow many?')
    assert (result.content, result.iterations, len(provider.requests)) == ("done", 1, 1)


def test_the_call_is_ragkits_in_messages_trace_events_and_usage() -> None:
    agent, _ = opened(["done"])
    events: list[Event] = list(agent.stream("How many?"))
    result = agent.run("How many?") if not events else None
    assert result is None
    ended = [event for event in events if isinstance(event, ToolEnded)]
    assert [(event.call.name, event.call.by, event.content) for event in ended] == [("add", BY_RAGKIT, "2")]
    assert names(events).index("ToolEnded") < names(events).index("ModelCallStarted")


def test_a_trace_says_who_made_the_call() -> None:
    agent, _ = opened([call("add", a=5, b=5), "done"])
    result = agent.run("How many?")
    assert [outcome.call.by for outcome in result.tool_calls] == ["ragkit", "model"]
    described = json_objects(result.trace.to_dict()["tool_calls"])
    assert [item.get("by") for item in described] == ["ragkit", None]
    spans = [span for span in result.trace.steps if span.type is StepType.TOOL]
    assert [span.attributes.get("by") for span in spans] == ["ragkit", None]
    assert result.usage.by_tool["add"].calls == 2
    restored = Message.from_dict(result.messages[1].to_dict())
    assert restored.tool_calls[0].by == "ragkit"


def test_async_runs_open_alike() -> None:
    agent, provider = opened(["done"])
    result = asyncio.run(agent.arun("How many?"))
    assert ([outcome.content for outcome in result.tool_calls], len(provider.requests)) == (["2"], 1)


def test_each_turn_of_a_conversation_opens_and_keeps_its_result() -> None:
    agent, provider = opened(["first", "second"])
    memory = ConversationMemory()
    agent.run("one", memory=memory)
    agent.run("two", memory=memory)
    roles = [role for role, _ in request_messages(provider)]
    assert roles == ["user", "assistant", "user"]
    assert [message.role for message in memory.load_messages()][:3] == [Role.USER, Role.ASSISTANT, Role.TOOL]


def test_a_denied_call_is_told_to_the_model() -> None:
    agent, provider = opened(["done"], AgentConfig(policy=ToolPolicy(deny=["add"])))
    agent.run("How many?")
    assert "Error: add is not allowed" in request_messages(provider)[0][1]


def test_a_call_under_review_suspends_the_run_and_is_resumed() -> None:
    agent, provider = opened(["done"], AgentConfig(policy=ToolPolicy(review=["add"])))
    suspended = agent.run("How many?").suspended
    assert suspended is not None
    assert provider.requests == []
    result = agent.run(suspended.approve(suspended.pending[0].call.id))
    assert result.content == "done"
    assert [outcome.content for outcome in result.tool_calls] == ["2"]


def test_routing_and_input_that_ends_with_no_user_message_are_not_opened() -> None:
    routed, _ = opened([call("fail")], AgentConfig(routing_only=True))
    assert [outcome.name for outcome in routed.run("How many?").tool_calls] == ["fail"]
    agent, provider = opened(["done"])
    agent.run([Message.user("How many?"), Message.assistant("", [call("add", a=1, b=1)]), tool_result("2")])
    assert [role for role, _ in request_messages(provider)] == ["user", "assistant", "tool"]


def tool_result(content: str) -> Message:
    return Message(Role.TOOL, content, tool_call_id="c1", name="add")


def test_an_error_of_the_opening_ends_the_run() -> None:
    def fails(messages: Sequence[Message]) -> list[ToolCall]:
        raise KnowledgeBaseError("/kb", "is damaged")

    agent, provider = opened(["done"])
    with pytest.raises(KnowledgeBaseError, match="is damaged"):
        replace(agent, opening=fails).run("How many?")
    assert provider.requests == []


def test_a_model_that_knows_no_tools_is_asked_again_without_them_and_later_at_once() -> None:
    agent, provider = opened([ToolsNotSupported("scripted", "no tools"), "done", "again"])
    assert agent.run("How many?").content == "done"
    assert agent.run("How many?").content == "again"
    assert [len(request.tools) for request in provider.requests] == [2, 0, 0]


def test_a_call_of_no_tool_in_the_text_of_a_local_model_is_no_answer() -> None:
    agent, provider = opened(['```json\n{"name": "clean", "arguments": {"n": 1}}\n```', "done"])
    provider.writes_calls = True
    assert agent.run("How many?").content == "done"
    assert [len(request.tools) for request in provider.requests] == [2, 0]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "add", "arguments": {"a": 5, "b": 6}}',
        'I add.\n```json\n{"name": "add", "parameters": {"a": 5, "b": 6}}\n```',
        '<tool_call>\n{"name": "add", "arguments": "{\\"a\\": 5, \\"b\\": 6}"}\n</tool_call>',
        '{{"name": "add", "arguments": {"a": 5, "b": 6}}}',
    ],
)
def test_calls_that_a_local_model_writes_as_text_are_made_and_not_shown(text: str) -> None:
    agent, provider = opened([text, "done"])
    provider.writes_calls = True
    events = list(agent.stream("How many?"))
    shown = "".join(getattr(event, "text", "") for event in events if type(event).__name__ == "TextChunk")
    assert [e.content for e in events if isinstance(e, ToolEnded)] == ["2", "11"]
    assert shown.replace("I add.", "").strip() == "done"
    [ended] = [event for event in events if isinstance(event, RunEnded)]
    [calling] = [message for message in ended.result.new_messages if message.tool_calls and not message.is_opening]
    reason = "I add." if text.startswith("I add.") else ""
    assert (calling.content, ended.result.reasoning) == (reason, reason)


def test_a_service_with_tool_calls_of_its_own_writes_none_as_text() -> None:
    text = '{"name": "add", "arguments": {"a": 5, "b": 6}}'
    agent, _ = opened([text])
    assert agent.run("How many?").content == text
