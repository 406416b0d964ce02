"""A memory that summarizes what it drops."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.agent.events import MemoryTrimmed, RunEnded
from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.memory.stores import FileConversationStore
from ragkit.agent.memory.summarizing_memory import SUMMARY_MARK, SummarizingMemory
from ragkit.agent.messages import Message, Role
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.agent.result import AgentResult
from ragkit.errors import ConnectionFailed, InvalidOption
from ragkit.usage.meter import Meter, use_meter
from ragkit.usage.tokens import Tokens
from tests.agent.parts import call, request_messages, scripted

START = "Summary of the conversation so far:\n"


def contents(memory: ConversationMemory) -> list[str]:
    return [message.content for message in memory]


def say(memory: ConversationMemory, *turns: str) -> None:
    for turn in turns:
        memory.add_many([Message.user(turn), Message.assistant(turn.upper())])


def test_the_older_half_becomes_a_summary() -> None:
    writer = ScriptedProvider(["They said a and b."])
    memory = SummarizingMemory(writer, max_messages=6)
    say(memory, "a", "b", "c", "d")
    assert contents(memory) == [f"{START}They said a and b.", "d", "D"]
    [(_, prompt)] = request_messages(writer)
    said = "User: a\n\nAssistant: A\n\nUser: b\n\nAssistant: B\n\nUser: c\n\nAssistant: C"
    assert prompt == f"<conversation>\n{said}\n</conversation>"


def test_the_next_summary_replaces_the_first_and_knows_it() -> None:
    writer = ScriptedProvider(["one", "two"])
    memory = SummarizingMemory(writer, max_messages=4)
    say(memory, "a", "b", "c", "d")
    assert contents(memory) == [f"{START}two", "d", "D"]
    [(_, prompt)] = request_messages(writer)
    assert prompt.startswith("<conversation>\nEarlier: one\n\nUser: c")


def test_a_limit_in_tokens_works_too() -> None:
    memory = SummarizingMemory(ScriptedProvider(["short"]), max_tokens=100)
    say(memory, "a" * 150, "b" * 150)
    assert contents(memory) == [f"{START}short", "b" * 150, "B" * 150]


def test_reasoning_is_not_part_of_a_summary() -> None:
    memory = SummarizingMemory(ScriptedProvider(["<think>hm</think>short"]), max_messages=2)
    say(memory, "a", "b")
    assert contents(memory)[0] == f"{START}short"


def test_tool_calls_and_results_are_summarized_together() -> None:
    writer = ScriptedProvider(["They added."])
    memory = SummarizingMemory(writer, max_messages=4)
    agent, _ = scripted([call("add", a=1, b=2), "3", "fine"])
    agent.run("1 + 2?", memory=memory)
    agent.run("thanks", memory=memory)
    assert contents(memory) == [f"{START}They added.", "thanks", "fine"]
    [(_, prompt)] = request_messages(writer)
    assert 'Assistant:  [calls add {"a":1,"b":2}]\n\nResult of add: 3' in prompt


@pytest.mark.parametrize("mode", ["run", "arun", "stream"])
def test_the_cost_of_a_summary_is_in_the_usage_of_its_run(mode: str) -> None:
    summary = Completion(Message.assistant("short"), Tokens(500, 50, cost_usd=0.25), provider="writer", model="small")
    memory = SummarizingMemory(ScriptedProvider([summary]), max_messages=2)
    agent, _ = scripted(["one", "two"])
    agent.run("a", memory=memory)
    result: AgentResult
    if mode == "run":
        result = agent.run("b", memory=memory)
    elif mode == "arun":
        result = asyncio.run(agent.arun("b", memory=memory))
    else:
        *_, trimmed, ended = list(agent.stream("b", memory=memory))
        assert isinstance(trimmed, MemoryTrimmed) and isinstance(ended, RunEnded)
        assert [message.content for message in trimmed.messages] == ["a", "one"]
        result = ended.result
    assert (result.usage.total_cost_usd, result.usage.by_model["writer:small"].calls) == (0.25, 1)
    assert (result.trace.total_cost_usd, result.trace.total_tokens) == (0.25, result.usage.total_tokens)


@pytest.mark.parametrize("answer", [ConnectionFailed("p", "no network"), ""])
def test_a_model_that_fails_leaves_a_plain_trim(
    answer: str | ConnectionFailed, caplog: pytest.LogCaptureFixture
) -> None:
    memory = SummarizingMemory(ScriptedProvider([answer]), max_messages=4)
    with caplog.at_level(logging.WARNING, "ragkit.agent"):
        say(memory, "a", "b", "c")
    assert contents(memory) == ["b", "B", "c", "C"]
    assert "could not be summarized" in caplog.text


def test_a_spent_budget_leaves_a_plain_trim() -> None:
    writer = ScriptedProvider([])
    memory = SummarizingMemory(writer, max_messages=2)
    dear = Completion(Message.assistant("one"), Tokens(5, 5, cost_usd=2.0))
    agent, _ = scripted(["zero", dear])
    with use_meter(Meter(budget_usd=1.0)):
        agent.run("a", memory=memory)
        agent.run("b", memory=memory)
    assert (contents(memory), writer.requests) == (["b", "one"], [])


def test_a_summary_and_its_mark_are_saved(tmp_path: Path) -> None:
    store = FileConversationStore(tmp_path / "talk.json")
    say(SummarizingMemory(ScriptedProvider(["one"]), max_messages=2, store=store), "a", "b")
    writer = ScriptedProvider(["two"])
    memory = SummarizingMemory(writer, max_messages=3, store=store)
    say(memory, "c")
    assert contents(memory) == [f"{START}two", "c", "C"]
    assert "Earlier: one" in request_messages(writer)[0][1]


def test_pinned_messages_are_not_summarized() -> None:
    memory = SummarizingMemory(ScriptedProvider(["short"]), max_messages=4)
    say(memory, "a")
    memory.pin(0)
    say(memory, "b", "c")
    assert contents(memory) == [f"{START}short", "a", "c", "C"]


def test_a_fork_summarizes_on_its_own() -> None:
    memory = SummarizingMemory(ScriptedProvider(["short"]), max_messages=2)
    say(memory, "a")
    copy = memory.fork()
    say(copy, "b")
    assert (contents(memory), contents(copy)[0]) == (["a", "A"], f"{START}short")


def test_a_memory_without_a_limit_is_rejected() -> None:
    with pytest.raises(InvalidOption, match="at least one limit"):
        SummarizingMemory(ScriptedProvider([]))


@given(st.lists(st.sampled_from(["say", "call"]), min_size=1, max_size=12), st.integers(2, 9), st.booleans())
def test_a_user_message_comes_first_and_no_result_is_without_its_call(
    kinds: list[str], limit: int, fails: bool
) -> None:
    answers = [ConnectionFailed("p", "down") if fails else "short" for _ in kinds]
    memory = SummarizingMemory(ScriptedProvider(answers), max_messages=limit)
    for index, kind in enumerate(kinds):
        turn = [Message.user(f"u{index}")]
        if kind == "call":
            turn += [
                Message.assistant("", [call("add", f"c{index}")]),
                Message(Role.TOOL, "3", tool_call_id=f"c{index}"),
            ]
        memory.record_turn([*turn, Message.assistant(f"a{index}")], {})
    history = memory.get_history()
    assert sum(message.data == SUMMARY_MARK for message in history) <= 1
    calls = {wanted.id for message in history for wanted in message.tool_calls}
    assert {message.tool_call_id for message in history if message.role is Role.TOOL} == calls
    if any(message.role is Role.USER for message in history):
        assert history[0].role is Role.USER
