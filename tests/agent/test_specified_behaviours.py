"""What programs written for the specification expect of memory, hooks, analytics and usage, in ragkit's names.

Thresholds, defaults and rounding that differ on purpose are named where they are tested.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragkit import (
    Agent,
    AgentAnalytics,
    AgentConfig,
    ConversationMemory,
    Message,
    Role,
    ScriptedProvider,
    ToolCall,
    tool,
)
from ragkit.agent.memory.memory import estimate_message_tokens
from ragkit.agent.observers import Hook
from ragkit.agent.providers.scripted import ScriptedTurn
from ragkit.errors import InvalidOption, ProviderError
from tests.agent.parts import AT_ONCE


def users(*words: str) -> list[Message]:
    return [Message.user(word) for word in words]


def words(memory: ConversationMemory) -> list[str]:
    return [message.content for message in memory]


# memory


def test_a_new_memory_is_empty_and_true() -> None:
    memory = ConversationMemory()
    assert (len(memory), memory.get_history(), bool(memory)) == (0, [], True)
    assert (memory.max_messages, memory.max_tokens) == (None, None)  # no limit unless one is given


@pytest.mark.parametrize("limit", ["max_messages", "max_tokens"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_below_one_is_rejected(limit: str, value: int) -> None:
    with pytest.raises(InvalidOption, match=f"{limit} must be >= 1 or None"):
        _ = ConversationMemory(value) if limit == "max_messages" else ConversationMemory(max_tokens=value)


def test_messages_stay_in_the_order_in_which_they_came() -> None:
    memory = ConversationMemory()
    memory.add(Message.user("a"))
    memory.add_many(users("b", "c"))
    memory.add_many([])
    memory.add(Message.user("d"))
    assert words(memory) == ["a", "b", "c", "d"]


def test_roles_are_kept() -> None:
    given = [Message.system("s"), Message.user("u"), Message.assistant("a", [ToolCall("t", {}, "c")])]
    given.append(Message(Role.TOOL, "r", tool_call_id="c"))
    memory = ConversationMemory(messages=given)
    assert [message.role for message in memory] == [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL]


def test_one_by_one_or_together_the_window_holds_the_newest() -> None:
    one_by_one, together = ConversationMemory(3), ConversationMemory(3)
    for message in users(*"abcdefg"):
        one_by_one.add(message)
    together.add_many(users(*"abcdefg"))
    assert words(one_by_one) == words(together) == ["e", "f", "g"]


def test_a_window_of_one_holds_the_last_question() -> None:
    memory = ConversationMemory(max_messages=1)
    memory.add_many(users("a", "b"))
    assert words(memory) == ["b"]


def test_a_limit_in_tokens_drops_the_oldest_and_keeps_at_least_one() -> None:
    size = estimate_message_tokens(Message.user("x" * 100))
    memory = ConversationMemory(max_tokens=2 * size)
    memory.add_many(users("a" * 100, "b" * 100, "c" * 100))
    assert words(memory) == ["b" * 100, "c" * 100]
    memory.add(Message.user("d" * 10_000))
    assert words(memory) == ["d" * 10_000]


def test_the_history_is_a_copy() -> None:
    memory = ConversationMemory(messages=users("a"))
    memory.get_history().clear()
    memory.get_recent(1).clear()
    assert words(memory) == ["a"]


@pytest.mark.parametrize(
    ("count", "expected"), [(1, ["c"]), (2, ["b", "c"]), (3, ["a", "b", "c"]), (9, ["a", "b", "c"])]
)
def test_the_recent_messages_are_the_newest(count: int, expected: list[str]) -> None:
    memory = ConversationMemory(messages=users("a", "b", "c"))
    assert [message.content for message in memory.get_recent(count)] == expected


def test_a_cleared_memory_can_be_used_again() -> None:
    memory = ConversationMemory(2, messages=users("a", "b"))
    memory.clear()
    memory.clear()
    memory.add_many(users("c", "d", "e"))
    assert words(memory) == ["d", "e"]


def test_a_memory_describes_itself() -> None:
    memory = ConversationMemory(5, 900, messages=users("a", "b"))
    described = memory.to_dict()
    assert {key: described[key] for key in ("max_messages", "max_tokens", "message_count")} == {
        "max_messages": 5,
        "max_tokens": 900,
        "message_count": 2,
    }
    assert described["messages"] == [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    assert json.loads(json.dumps(described)) == described
    assert repr(memory) == "ConversationMemory(max_messages=5, max_tokens=900, messages=2)"


# hooks


@tool
def divide(a: float, b: float) -> str:
    """Divide a by b."""
    return str(a / b)


@tool
def lines(count: int) -> Iterator[str]:
    """Say some lines."""
    for number in range(count):
        yield f"line {number}\n"


def test_every_hook_of_the_life_of_a_run_is_called_in_order() -> None:
    seen: list[str] = []
    names = "on_agent_start on_agent_end on_iteration_start on_iteration_end on_llm_start on_llm_end on_tool_start"
    hooks: dict[str, Hook] = {
        name: lambda *_, name=name: seen.append(name)
        for name in [*names.split(), "on_tool_end", "on_tool_error", "on_tool_chunk", "on_error"]
    }
    script: list[ScriptedTurn] = [ToolCall("divide", {"a": 1, "b": 0}), ToolCall("lines", {"count": 1}), "done"]
    Agent(ScriptedProvider(script), [divide, lines], config=AgentConfig(hooks=hooks)).run("x")
    turn = ["on_iteration_start", "on_llm_start", "on_llm_end", "on_tool_start"]
    assert seen == [
        "on_agent_start",
        *[*turn, "on_tool_error", "on_iteration_end"],
        *[*turn, "on_tool_chunk", "on_tool_end", "on_iteration_end"],
        *["on_iteration_start", "on_llm_start", "on_llm_end", "on_iteration_end"],
        "on_agent_end",
    ]


def test_hooks_written_for_the_specification_get_what_they_name() -> None:
    seen: list[object] = []
    hooks: dict[str, Hook] = {
        "on_tool_start": lambda name, args: seen.append((name, args)),
        "on_tool_chunk": lambda name, chunk: seen.append((name, chunk)),
        "on_tool_end": lambda name, result, duration: seen.append((name, result, 0 <= duration < 60)),
        "on_llm_end": lambda response, usage: seen.append((response.content, usage.total_tokens > 0)),
    }
    script: list[ScriptedTurn] = [ToolCall("lines", {"count": 2}), "done"]
    Agent(ScriptedProvider(script), [lines], config=AgentConfig(hooks=hooks)).run("x")
    assert seen == [
        ("", True),
        ("lines", {"count": 2}),
        ("lines", "line 0\n"),
        ("lines", "line 1\n"),
        ("lines", "line 0\nline 1\n", True),
        ("done", True),
    ]


def test_the_error_that_ends_a_run_reaches_its_hook() -> None:
    seen: list[str] = []
    config = AgentConfig(retry=AT_ONCE, hooks={"on_error": lambda error: seen.append(str(error))})
    with pytest.raises(ProviderError, match="p: down"):
        Agent(ScriptedProvider([ProviderError("p", "down")]), config=config).run("x")
    assert seen == ["p: down"]


# analytics


def counted() -> AgentAnalytics:
    """The analytics of three calls: one fails, one streams."""
    analytics = AgentAnalytics()
    script: list[ScriptedTurn] = [
        [ToolCall("divide", {"a": 1, "b": 2}, "c1"), ToolCall("divide", {"a": 1, "b": 0}, "c2")],
        ToolCall("lines", {"count": 3}, "c3"),
        "done",
    ]
    Agent(ScriptedProvider(script), [divide, lines], config=AgentConfig(analytics=analytics)).run("x")
    return analytics


def test_analytics_count_calls_successes_timing_parameters_and_chunks() -> None:
    analytics = counted()
    division, speech = analytics.tool("divide"), analytics.tool("lines")
    assert division is not None and speech is not None and analytics.tool("other") is None
    assert (division.calls, division.successes, division.failures, division.success_rate) == (
        2,
        1,
        1,
        0.5,
    )  # not percent
    assert division.parameters == {"a": {"1": 2}, "b": {"2": 1, "0": 1}}
    assert division.errors == {"ZeroDivisionError": 1}
    assert 0 <= division.mean_seconds <= division.max_seconds <= division.total_seconds
    assert (speech.streamed_calls, speech.chunks, division.streamed_calls) == (1, 3, 0)


def test_long_parameter_values_are_cut() -> None:
    analytics = AgentAnalytics()
    analytics.record_tool("t", {"text": "x" * 500}, 0.1)
    statistics = analytics.tool("t")
    assert statistics is not None
    [value] = statistics.parameters["text"]
    assert len(value) <= 83


def test_analytics_print_a_line_for_each_tool() -> None:
    assert AgentAnalytics().summary() == "no tool calls"
    analytics = AgentAnalytics()
    analytics.record_tool("add", {}, 0.010)
    analytics.record_tool("add", {}, 0.030, error="ValueError")
    analytics.record_tool("say", {}, 1.0, chunks=4)
    assert analytics.summary().splitlines() == [
        "add: 2 calls, 50% succeeded (ValueError 1), mean 20 ms, longest 30 ms",
        "say: 1 call, 100% succeeded, mean 1000 ms, longest 1000 ms, 1 streamed in 4 chunks",
    ]


def test_analytics_are_exported_and_reset(tmp_path: Path) -> None:
    analytics = counted()
    analytics.export_json(tmp_path / "a.json")
    analytics.export_csv(tmp_path / "a.csv")
    assert [entry["tool"] for entry in json.loads((tmp_path / "a.json").read_text())["tools"]] == ["divide", "lines"]
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 3
    analytics.reset()
    assert analytics.tools() == []


# usage and trace


def test_usage_counts_each_iteration_and_each_tool() -> None:
    script: list[ScriptedTurn] = [ToolCall("divide", {"a": 1, "b": 2}), "done"]
    result = Agent(ScriptedProvider(script), [divide]).run("x")
    usage = result.usage
    assert len(usage.iterations) == result.iterations == 2
    assert sum(stats.total_tokens for stats in usage.iterations) == usage.total_tokens == result.trace.total_tokens
    assert usage.by_tool["divide"].calls == result.tool_calls_made == len(result.trace.tool_calls) == 1
