"""Loops and used-up iterations: the model is told, asked for a last answer without tools, or the run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.events import Event, LastAnswerRequested, LoopDetected, TextChunk
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.observers import AgentObserver
from ragkit.agent.providers.scripted import ScriptedProvider, ScriptedTurn
from ragkit.agent.result import partial_result
from ragkit.agent.tools.base import Tool, tool
from ragkit.agent.tracing.trace import StepType
from ragkit.errors import InvalidOption, ToolCallLoop
from tests.agent.parts import AT_ONCE, add, call, fail, final_result, request_messages, scripted, tool_messages

LAST = AgentConfig(max_iterations=2, on_max_iterations="answer", retry=AT_ONCE)
TWO_CALLS = [call("add", "c1", a=1, b=2), call("add", "c2", a=3, b=4)]
CLOSED = "Answer my question now with the results of the tools; say what they do not tell."
REFUSED = "Error: add had the same result 3 times with these arguments: use that result, try something else, or answer"


def stream(agent: Agent) -> list[Event]:
    return list(agent.stream("x"))


def astream(agent: Agent) -> list[Event]:
    async def consume() -> list[Event]:
        return [event async for event in agent.astream("x")]

    return asyncio.run(consume())


both = pytest.mark.parametrize("listen", [stream, astream])
Listen = Callable[[Agent], list[Event]]


@both
def test_used_up_iterations_end_with_an_answer_without_tools(listen: Listen) -> None:
    agent, provider = scripted([*TWO_CALLS, "It is 3, and 7."], config=LAST)
    events = listen(agent)
    result = final_result(events)
    assert (result.content, result.stop_reason, result.iterations) == ("It is 3, and 7.", "max_iterations", 2)
    assert [event.reason for event in events if isinstance(event, LastAnswerRequested)] == ["max_iterations"]
    assert "".join(event.text for event in events if isinstance(event, TextChunk)) == "It is 3, and 7."
    last = provider.requests[-1]
    assert (last.tools, [item.name for item in last.closed_tools]) == ((), ["add", "fail"])
    assert request_messages(provider)[-1] == ("user", CLOSED)
    assert [message.role for message in result.messages[-2:]] == [Role.TOOL, Role.ASSISTANT]
    assert result.trace.root.children[-1].name == "last answer"
    assert result.trace.find_spans(StepType.OUTCOME)[-1].attributes == {"reason": "max_iterations"}
    assert len(result.usage.iterations) == 2
    assert result.usage.prompt_tokens == sum(stats.prompt_tokens for stats in result.usage.iterations)


def test_the_request_for_a_last_answer_is_not_kept_in_the_memory() -> None:
    memory = ConversationMemory()
    agent, _ = scripted([*TWO_CALLS, "It is 3, and 7."], config=LAST)
    agent.run("x", memory=memory)
    roles = [message.role.value for message in memory.load_messages()]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"]


@both
@pytest.mark.parametrize("config", [LAST, replace(LAST, on_max_iterations="stop")])
def test_the_fixed_text_is_streamed_too(config: AgentConfig, listen: Listen) -> None:
    agent, _ = scripted([*TWO_CALLS, ""], config=config)
    texts = [event.text for event in listen(agent) if isinstance(event, TextChunk)]
    assert texts == ["[Max iterations reached]"]


@pytest.mark.parametrize("answer", ["", call("add", "c3", a=5, b=6)])
def test_a_model_that_still_does_not_answer_gives_the_fixed_text(answer: ScriptedTurn) -> None:
    agent, _ = scripted([*TWO_CALLS, answer], config=LAST)
    result = agent.run("x")
    assert (result.content, result.stop_reason, result.tool_calls_made) == (
        "[Max iterations reached]",
        "max_iterations",
        2,
    )
    assert result.messages[-1] == Message(Role.ASSISTANT, "[Max iterations reached]", agent_name="agent")


def test_the_last_answer_keeps_the_response_format() -> None:
    config = replace(LAST, response_format={"type": "object", "required": ["sum"]})
    agent, provider = scripted([*TWO_CALLS, "seven", '{"sum": 7}'], config=config)
    result = agent.run("x")
    assert (result.parsed, result.stop_reason) == ({"sum": 7}, "max_iterations")
    assert [request.tools for request in provider.requests[2:]] == [(), ()]


def looping(times: int, *rest: ScriptedTurn, **options: Any) -> tuple[Agent, ScriptedProvider]:
    calls: Sequence[ScriptedTurn] = [call("add", f"c{n}", a=1, b=2) for n in range(times)]
    return scripted([*calls, *rest], config=AgentConfig(retry=AT_ONCE, **options))


@both
def test_a_repeated_call_is_refused_and_the_model_is_told(listen: Listen) -> None:
    agent, _ = looping(5, "It is 3.")
    events = listen(agent)
    result = final_result(events)
    assert tool_messages(result) == ["3", "3", "3", REFUSED, REFUSED]
    assert (result.content, result.stop_reason) == ("It is 3.", "stop")
    loops = [event for event in events if isinstance(event, LoopDetected)]
    assert [(event.iteration, event.call.name, event.times) for event in loops] == [(4, "add", 3), (5, "add", 3)]
    assert result.trace.find_spans(StepType.LOOP)[0].attributes == {"call_id": "c3", "times": 3}
    assert [outcome.attempts for outcome in result.tool_calls] == [1, 1, 1, 0, 0]


@both
def test_a_loop_can_end_with_a_last_answer(listen: Listen) -> None:
    agent, provider = looping(3, "It is 3.", max_repeated_calls=2, on_loop="answer")
    result = final_result(listen(agent))
    assert (result.content, result.stop_reason, result.iterations) == ("It is 3.", "loop", 3)
    assert (provider.requests[-1].tools, request_messages(provider)[-1]) == ((), ("user", CLOSED))


@both
def test_a_loop_can_end_with_an_error(listen: Listen) -> None:
    agent, _ = looping(3, max_repeated_calls=2, on_loop="raise")
    with pytest.raises(ToolCallLoop, match="the model is in a loop: add had the same result 2 times") as raised:
        listen(agent)
    partial = partial_result(raised.value)
    assert partial is not None
    assert tool_messages(partial) == ["3", "3"]


def repeating(useless: ScriptedTurn) -> tuple[Agent, ScriptedProvider]:
    @tool(description="Add.")
    def add_up(a: int, b: int) -> str:
        return str(a + b)

    provider = ScriptedProvider([call("add_up", "c1", a=1, b=2), useless, "It is 3."])
    provider.writes_calls = True
    return Agent(provider, [add_up]), provider


def add_up(a: int, b: int) -> int:
    return a + b


def written(*arguments: dict[str, int]) -> Message:
    return Message.assistant("", [ToolCall("add_up", dict(given), f"c{n}") for n, given in enumerate(arguments)])


@both
@pytest.mark.parametrize("useless", [call("add_up", "c2", a=1, b=2), ""])
def test_a_model_that_writes_its_calls_answers_from_their_results(listen: Listen, useless: ScriptedTurn) -> None:
    agent, provider = repeating(useless)
    result = final_result(listen(agent))
    assert (result.content, result.stop_reason, len(provider.requests)) == ("It is 3.", "stop", 3)
    assert (provider.requests[-1].tools, request_messages(provider)[-1]) == ((), ("user", CLOSED))
    assert tool_messages(result) == ["3"]


def test_calls_that_one_message_repeats_are_made_once_and_the_last_request_shows_results_alone() -> None:
    provider = ScriptedProvider([written({"a": 1, "b": 2}), written({}, {"a": 1, "b": 2}, {}), "It is 3."])
    provider.writes_calls = True
    added: list[int] = []

    @tool(description="Add.")
    def add_up(a: int, b: int) -> int:
        added.append(a + b)
        return a + b

    result = Agent(provider, [add_up]).run("x")
    assert (result.content, added, len(provider.requests)) == ("It is 3.", [3, 3], 3)


def test_refused_arguments_that_are_repeated_add_nothing() -> None:
    twice = [written({"a": 1, "b": 2}, {}), written({}, {}, {"a": 1, "b": 2})]
    provider = ScriptedProvider([*twice, "It is 3."])
    provider.writes_calls = True
    agent = Agent(provider, [tool(description="Add.")(add_up)])
    assert agent.run("x").content == "It is 3."
    last = provider.requests[-1]
    assert [message.role for message in last.messages[-3:]] == [Role.USER] * 3
    assert not any(message.tool_calls for message in last.messages)
    assert last.messages[-2].content.splitlines()[1:-1] == ["3"]


@pytest.mark.parametrize("given", [[], [Message.assistant("Hello.")]])
def test_the_results_are_shown_where_nobody_asked(given: list[Message]) -> None:
    provider = ScriptedProvider([written({"a": 1, "b": 2}), written({"a": 1, "b": 2}), "It is 3."])
    provider.writes_calls = True
    assert Agent(provider, [tool(description="Add.")(add_up)]).run(given).content == "It is 3."


def test_a_model_that_names_a_tool_instead_of_its_result_is_asked_again() -> None:
    assert repeating("To add, you can use the `add_up` function.")[0].run("x").content == "It is 3."


def test_a_model_that_writes_its_calls_may_try_again_after_an_error() -> None:
    provider = ScriptedProvider([call("busy", "c1"), call("busy", "c2"), "It is done."])
    provider.writes_calls = True
    tries: list[str] = []

    @tool(description="Try.")
    def busy() -> str:
        tries.append("again")
        if len(tries) == 1:
            raise ValueError("busy")
        return "done"

    result = Agent(provider, [busy]).run("x")
    assert (result.content, [one.content for one in result.tool_calls][1]) == ("It is done.", "done")


def test_a_loop_reaches_observers_and_hooks() -> None:
    seen: list[object] = []

    class Watcher(AgentObserver):
        def on_loop(self, event: LoopDetected) -> None:
            seen.append(event.times)

        def on_last_answer(self, event: LastAnswerRequested) -> None:
            seen.append(event.reason)

    hooks = {"on_loop": lambda event: seen.append(event.call.name)}
    looping(2, "3", max_repeated_calls=1, on_loop="answer", observers=[Watcher()], hooks=hooks)[0].run("x")
    assert seen == [1, "add", "loop"]


def test_no_limit_of_repeated_calls_allows_ten() -> None:
    agent, _ = looping(9, "It is 3.", max_repeated_calls=None)
    assert tool_messages(agent.run("x")) == ["3"] * 9


def counter() -> Tool:
    pages = iter(range(100))

    @tool
    def next_page() -> str:
        """The next page."""
        return f"page {next(pages)}"

    return next_page


def test_a_call_that_gives_something_new_is_no_loop() -> None:
    agent, _ = scripted([*[call("next_page", f"c{n}") for n in range(6)], "done"], [counter()])
    assert tool_messages(agent.run("x")) == [f"page {n}" for n in range(6)]


def test_other_arguments_are_no_loop_and_errors_are() -> None:
    several = [call("add", f"c{n}", a=n, b=n) for n in range(4)]
    failing = [call("fail", f"f{n}") for n in range(4)]
    agent, _ = scripted([*several, *failing, "done"], [add, fail])
    contents = tool_messages(agent.run("x"))
    assert contents[:4] == ["0", "2", "4", "6"]
    assert contents[4:7] == ["Error executing fail: no reason"] * 3
    assert contents[7].startswith("Error: fail had the same result 3 times")


def test_unreadable_arguments_can_be_a_loop() -> None:
    broken = [ToolCall("add", {}, f"c{n}", malformed="{{{") for n in range(4)]
    agent, _ = scripted([*broken, "sorry"])
    assert [message[:11] for message in tool_messages(agent.run("x"))] == ["Error: inva"] * 3 + ["Error: add "]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_repeated_calls": 0}, r"max_repeated_calls must be >= 1 or None \(got 0\)"),
        ({"on_loop": "stop"}, "on_loop must be one of auto, tell, answer, raise"),
        ({"on_max_iterations": "go"}, "on_max_iterations must be one of stop, answer"),
    ],
)
def test_invalid_settings_are_rejected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        AgentConfig(**options)
