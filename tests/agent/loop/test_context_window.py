"""Prompts that fit the model's window: what is left out first, and what happens when a service says no."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.events import Retrying
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.loop.context_window import CUT_OFF, LEFT_OUT_RESULT, ContextWindow, fit_messages, leave_out_results
from ragkit.agent.memory.memory import ConversationMemory, estimate_message_tokens
from ragkit.agent.messages import Message, Role, ToolCall
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.agent.tools.base import tool
from ragkit.errors import ContextTooLong, InvalidOption, InvalidRequest
from ragkit.usage.tokens import Tokens
from tests.agent.parts import AT_ONCE, call, scripted

LONG = "word " * 400


def turn(n: int) -> list[Message]:
    """A turn with a long result."""
    return [
        Message.user(f"question {n}"),
        Message.assistant("", [ToolCall("look", {}, f"c{n}")]),
        Message(Role.TOOL, f"{n}: {LONG}", (), f"c{n}", "look"),
        Message.assistant(f"answer {n}"),
    ]


CONVERSATION = [message for n in range(4) for message in turn(n)]
PRESENT = [*CONVERSATION, *turn(4)[:3]]


def size(messages: Sequence[Message]) -> int:
    return sum(map(estimate_message_tokens, messages))


def too_long(limit: int | None = None) -> ContextTooLong:
    error = ContextTooLong("scripted", "too long", status=400)
    error.limit = limit
    return error


def test_a_conversation_that_fits_is_sent_as_it_is() -> None:
    assert fit_messages(PRESENT, 10_000, leave_out_results) == PRESENT


def test_results_of_earlier_turns_are_left_out_first_the_oldest_first() -> None:
    shown = fit_messages(PRESENT, 1300, leave_out_results)
    results = [message.content for message in shown if message.role is Role.TOOL]
    assert [text == LEFT_OUT_RESULT for text in results] == [True, True, True, False, False]
    assert [m.content for m in shown if m.role is not Role.TOOL] == [
        m.content for m in PRESENT if m.role is not Role.TOOL
    ]


def test_then_earlier_turns_are_left_out_with_a_note_of_what_they_were_about() -> None:
    shown = fit_messages(PRESENT, 680, leave_out_results)
    assert len(shown) < len(PRESENT)
    assert shown[0].role is Role.USER
    assert shown[0].content.startswith(
        "Earlier in this conversation (left out to save room):\n- question 0 -> answer 0\n"
    )
    assert shown[-1] == PRESENT[-1]
    assert size(shown) <= 680


def test_pinned_messages_stay() -> None:
    pinned = Message(Role.USER, "the summary", pinned=True)
    shown = fit_messages([pinned, *PRESENT], 600, leave_out_results)
    assert shown[0] == pinned


def test_last_the_newest_result_is_cut() -> None:
    shown = fit_messages(PRESENT, 300, leave_out_results)
    assert [message.role for message in shown] == [Role.USER, Role.ASSISTANT, Role.TOOL]
    assert shown[-1].content.endswith(CUT_OFF)
    assert 100 < size(shown) <= 300


def test_the_messages_of_a_run_and_of_its_memory_stay_whole() -> None:
    memory = ConversationMemory(messages=CONVERSATION * 3)
    provider = ScriptedProvider(["done"])
    config = AgentConfig(max_tokens=100, context_window=ContextWindow(600))
    result = Agent(provider, config=config, memory=memory).run("question 4")
    assert len(provider.requests[0].messages) < 3 * len(CONVERSATION)
    assert list(result.messages) == [
        *(CONVERSATION * 3),
        Message.user("question 4"),
        Message(Role.ASSISTANT, "done", agent_name="agent"),
    ]
    assert len(memory) == 3 * len(CONVERSATION) + 2


def test_the_answer_gets_a_quarter_of_a_small_window_at_most() -> None:
    agent, provider = scripted(["done"], config=AgentConfig(context_window=ContextWindow(2000)))
    agent.run("x")
    assert provider.requests[0].settings.max_tokens == 500


def test_a_prompt_that_the_service_finds_too_long_is_shortened_and_sent_again() -> None:
    memory = ConversationMemory(messages=CONVERSATION)
    provider = ScriptedProvider([too_long(1500), "done", "again"])
    config = AgentConfig(max_tokens=100, context_window=ContextWindow(), retry=AT_ONCE)
    agent = Agent(provider, config=config, memory=memory)
    events = list(agent.stream("question 4"))
    assert [size(request.messages) > 1500 for request in provider.requests] == [True, False]
    (again,) = [event for event in events if isinstance(event, Retrying)]
    assert (again.delay_s, again.discard_text) == (0.0, False)
    agent.run("question 5")  # the window is known now
    assert len(provider.requests) == 3
    assert size(provider.requests[2].messages) < 1500


def test_without_a_limit_in_the_error_the_prompt_shrinks_step_by_step() -> None:
    memory = ConversationMemory(messages=CONVERSATION)
    provider = ScriptedProvider([too_long(), too_long(), "done"])
    Agent(provider, config=AgentConfig(context_window=ContextWindow()), memory=memory).run("question 4")
    sizes = [size(request.messages) for request in provider.requests]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 3


def test_a_prompt_that_cannot_be_shortened_is_an_error() -> None:
    provider = ScriptedProvider([too_long()])
    with pytest.raises(ContextTooLong, match="too long"):
        Agent(provider, config=AgentConfig(max_tokens=10, context_window=ContextWindow())).run("x")


def test_without_a_window_a_prompt_that_is_too_long_is_an_error() -> None:
    provider = ScriptedProvider([too_long(1500)])
    with pytest.raises(ContextTooLong, match="too long"):
        Agent(provider, memory=ConversationMemory(messages=CONVERSATION)).run("x")


def test_other_errors_are_not_sent_again() -> None:
    provider = ScriptedProvider([InvalidRequest("scripted", "no such field", status=400)])
    with pytest.raises(InvalidRequest, match="no such field"):
        Agent(provider, config=AgentConfig(context_window=ContextWindow())).run("x")


def test_the_tokens_that_a_service_counts_correct_the_estimate() -> None:
    def answer(tokens: int) -> Completion:
        return Completion(Message.assistant("done"), Tokens(prompt_tokens=tokens))

    memory = ConversationMemory(messages=CONVERSATION)
    provider = ScriptedProvider([answer(4000), answer(4000)])  # twice the estimate
    config = AgentConfig(max_tokens=100, context_window=ContextWindow(3000))
    agent = Agent(provider, config=config, memory=memory)
    agent.run("question 4")
    agent.run("question 5")
    first, second = (size(request.messages) for request in provider.requests)
    assert second < first * 0.8


def test_the_last_answer_without_tools_keeps_the_results_of_the_present_turn() -> None:
    @tool
    def look() -> str:
        """Look."""
        return LONG

    config = AgentConfig(
        max_tokens=100, max_iterations=1, on_max_iterations="answer", context_window=ContextWindow(1500)
    )
    agent, provider = scripted([call("look"), "done"], [look], config)
    agent.run("question 4", memory=ConversationMemory(messages=CONVERSATION))
    (present,) = [m for m in provider.requests[-1].messages if m.role is Role.TOOL and m.tool_call_id == "c1"][-1:]
    assert LONG.strip() in present.content


@pytest.mark.parametrize("tokens", [0, 511, -1])
def test_a_window_of_no_use_is_refused(tokens: int) -> None:
    with pytest.raises(InvalidOption, match=f"tokens must be >= 512 or None, not {tokens}|{tokens}"):
        ContextWindow(tokens)
