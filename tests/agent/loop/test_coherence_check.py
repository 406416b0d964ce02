"""The coherence check: a second model request checks the calls before they are executed."""

import asyncio

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.loop.coherence_check import CoherenceCheck
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.messages import Message
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import ScriptedProvider, ScriptedTurn
from ragkit.agent.tracing.trace import StepType
from ragkit.errors import ConnectionFailed
from ragkit.usage.tokens import Tokens
from tests.agent.parts import AT_ONCE, add, call, fail, tool_messages

CALLS: ScriptedTurn = [call("add", "c1", a=1, b=2), call("fail", "c2")]


def checked(judge: ScriptedProvider, script: list[ScriptedTurn], **options: bool) -> tuple[Agent, ScriptedProvider]:
    provider = ScriptedProvider(script)
    config = AgentConfig(coherence=CoherenceCheck(judge, "judge-model", **options), retry=AT_ONCE)
    return Agent(provider, [add, fail], config=config), provider


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_call_that_does_not_serve_the_request_is_answered_with_the_reason(mode: str) -> None:
    judge = ScriptedProvider(['```json\n{"refused": [{"call": 2, "reason": "nobody asked to fail"}]}\n```'])
    agent, _ = checked(judge, [CALLS, "three"])
    result = agent.run("1 + 2?") if mode == "sync" else asyncio.run(agent.arun("1 + 2?"))
    assert tool_messages(result) == ["3", "Error: fail does not fit the request: nobody asked to fail"]
    assert result.trace.find_spans(StepType.COHERENCE)[0].attributes == {"c2": "nobody asked to fail"}


def test_the_check_receives_only_the_user_message_and_the_calls() -> None:
    judge = ScriptedProvider(['{"refused": []}'])
    agent, _ = checked(judge, [CALLS, "three"])
    agent.run("1 + 2?")
    [request] = judge.requests
    assert (request.model, request.settings.temperature, request.tools) == ("judge-model", 0.0, ())
    assert request.messages[1].content == 'User:\n1 + 2?\n\nCalls:\n1. add {"a":1,"b":2}\n2. fail {}'


def test_the_cost_of_the_check_is_part_of_the_run() -> None:
    judge = ScriptedProvider([Completion(Message.assistant('{"refused": []}'), Tokens(50, 5, cost_usd=0.5))])
    agent, _ = checked(judge, [CALLS, "three"])
    assert agent.run("x").usage.llm_cost_usd == 0.5


UNREADABLE = ["", "nonsense", "[]", "{}", '{"refused": "all"}', '{"refused": [{"call": 9}, 3]}']


@pytest.mark.parametrize("answer", UNREADABLE)
def test_an_unreadable_verdict_allows_the_calls(answer: str) -> None:
    agent, _ = checked(ScriptedProvider([answer]), [CALLS, "ok"])
    result = agent.run("x")
    assert tool_messages(result) == ["3", "Error executing fail: no reason"]
    assert "unreadable verdict" in str(result.trace.find_spans(StepType.COHERENCE)[0].attributes["error"])


@pytest.mark.parametrize("answer", UNREADABLE)
def test_an_unreadable_verdict_refuses_the_calls_if_the_check_fails_closed(answer: str) -> None:
    agent, _ = checked(ScriptedProvider([answer]), [CALLS, "ok"], fail_open=False)
    first, second = tool_messages(agent.run("x"))
    assert first.startswith("Error: add does not fit the request: it could not be checked: unreadable verdict")
    assert second.startswith("Error: fail does not fit the request: it could not be checked: unreadable verdict")


@pytest.mark.parametrize("fail_open", [True, False])
def test_the_readable_part_of_a_verdict_counts(fail_open: bool) -> None:
    judge = ScriptedProvider(['{"refused": [{"call": 7}, {"call": "2", "reason": "not asked"}]}'])
    agent, _ = checked(judge, [CALLS, "ok"], fail_open=fail_open)
    first, second = tool_messages(agent.run("x"))
    assert second == "Error: fail does not fit the request: not asked"
    assert (first == "3") == fail_open


@pytest.mark.parametrize("fail_open", [True, False])
def test_an_empty_list_allows_the_calls(fail_open: bool) -> None:
    agent, _ = checked(ScriptedProvider(['{"refused": []}']), [CALLS, "ok"], fail_open=fail_open)
    assert tool_messages(agent.run("x")) == ["3", "Error executing fail: no reason"]


def test_a_failed_check_allows_the_calls_unless_configured_otherwise() -> None:
    agent, _ = checked(ScriptedProvider([ConnectionFailed("judge", "down")]), [CALLS, "ok"])
    result = agent.run("x")
    assert tool_messages(result)[0] == "3"
    assert result.trace.find_spans(StepType.COHERENCE)[0].attributes == {"error": "judge: down"}
    agent, _ = checked(ScriptedProvider([ConnectionFailed("judge", "down")]), [CALLS, "ok"], fail_open=False)
    assert (
        tool_messages(agent.run("x"))[0] == "Error: add does not fit the request: it could not be checked: judge: down"
    )


def test_the_check_may_use_the_provider_of_the_agent() -> None:
    provider = ScriptedProvider([CALLS, '{"refused": []}', "ok"], model="own")
    agent = Agent(provider, [add, fail], config=AgentConfig(coherence=CoherenceCheck()))
    assert agent.run("x").content == "ok"
    assert [request.model for request in provider.requests] == ["own"] * 3
