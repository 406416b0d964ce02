"""Reasoning and tool calls in the text of a model are never shown, however the stream is cut."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.agent.agent import Agent
from ragkit.agent.events import Event, ReasoningChunk, TextChunk
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.messages import Message
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.agent.providers.stream_filter import StreamFilter, split_reasoning
from ragkit.agent.tracing.trace import StepType
from tests.agent.parts import add, final_result, tool_messages

CALL = '{"tool_name": "add", "parameters": {"a": 1, "b": 2}}'


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("It is 3.", "It is 3.", ""),
        ("<think>1 + 2\n</think>\n\nIt is 3.", "It is 3.", "1 + 2"),
        ("\n<THINKING>a</THINKING> <think>b</think>c", "c", "a\n\nb"),
        ("<think>cut off", "", "cut off"),
        ("1 + 2 is 3</think>It is 3.", "It is 3.", "1 + 2 is 3"),
        ("<think></think>x", "x", ""),
        ("Write <think> around it, and </think> behind it.", "Write <think> around it, and </think> behind it.", ""),
        ("a < b and c > d", "a < b and c > d", ""),
    ],
)
def test_reasoning_is_split_from_the_answer(text: str, answer: str, reasoning: str) -> None:
    assert split_reasoning(text) == (answer, reasoning)


def show(text: str, cuts: list[int], *, bare: bool = True, has_calls: bool = False) -> str:
    """The visible text of a stream that is cut at these positions."""
    stream_filter = StreamFilter(["add"], accept_bare_json=bare)
    positions = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    shown = "".join(stream_filter.feed(text[a:b]) for a, b in pairwise(positions))
    return shown if has_calls else shown + stream_filter.flush()


PLAIN = [
    "It is 3.",
    "To call a TOOL you write T, TO or TOOL_CAL.",
    "Code:\n```python\nx = {1: 2}\n```\nand more `code` here.",
    "[1] is a citation, and {braces} too.\nA list:\n[1, 2]\nend",
    "T",
    "``",
    "a <b> c",
    "<thin air",
]


@given(st.sampled_from(PLAIN), st.lists(st.integers(0, 100)), st.booleans())
def test_plain_text_is_shown_whole(text: str, cuts: list[int], bare: bool) -> None:
    assert show(text, cuts, bare=bare) == text


@given(
    st.sampled_from(["", "Let me add these.\n", "Here:\n```py\nx\n```\n"]),
    st.sampled_from([f"TOOL_CALL {CALL}", f"```json\nTOOL_CALL {CALL}\n```", f"```json\n{CALL}\n```", CALL]),
    st.lists(st.integers(0, 200)),
)
def test_a_call_is_held_back(before: str, call: str, cuts: list[int]) -> None:
    assert show(before + call, cuts, has_calls=True) == before


@given(st.sampled_from(PLAIN), st.lists(st.integers(0, 100)))
def test_reasoning_is_held_back(text: str, cuts: list[int]) -> None:
    assert show(f" <think>1 < 2 TOOL_CALL {CALL}</think>\n{text}", cuts) == text


@given(st.sampled_from(["", "1 + 2", "a </ b <think c </thin", "é"]), st.lists(st.integers(0, 100)))
def test_reasoning_is_handed_out_as_it_arrives(reasoning: str, cuts: list[int]) -> None:
    text = f"<think>{reasoning}</think>It is 3."
    positions = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    stream_filter, thought = StreamFilter(["add"]), ""
    for start, end in pairwise(positions):
        stream_filter.feed(text[start:end])
        thought += stream_filter.take_reasoning()
        complete = min(max(0, end - len("<think>")), len(reasoning))
        assert thought.startswith(reasoning[: max(0, complete - len("</reasoning"))])
    assert thought == reasoning


@given(st.sampled_from(PLAIN), st.lists(st.integers(0, 100)), st.booleans())
def test_an_answer_may_start_inside_its_reasoning(text: str, cuts: list[int], has_tag: bool) -> None:
    whole = f"1 < 2</think>\n{text}" if has_tag else text
    stream_filter = StreamFilter(starts_with_reasoning=True)
    positions = sorted({0, len(whole), *(cut % (len(whole) + 1) for cut in cuts)})
    shown = "".join(stream_filter.feed(whole[a:b]) for a, b in pairwise(positions)) + stream_filter.flush()
    assert (shown, stream_filter.take_reasoning()) == (text, "1 < 2" if has_tag else "")
    assert split_reasoning(whole, starts_with_reasoning=True) == (text, "1 < 2" if has_tag else "")


def chunks(agent: Agent, text: str, *, is_async: bool) -> str:
    async def consume() -> str:
        return "".join([event.text async for event in agent.astream(text) if isinstance(event, TextChunk)])

    if is_async:
        return asyncio.run(consume())
    return "".join(event.text for event in agent.stream(text) if isinstance(event, TextChunk))


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("call", [f"TOOL_CALL {CALL}", f"```json\n{CALL}\n```"])
def test_a_stream_without_native_tools_shows_no_call(call: str, is_async: bool) -> None:
    provider = ScriptedProvider([f"<think>I add.</think>Adding.\n{call}", "It is 3."])
    provider.native_tools = False
    agent = Agent(provider, [add])
    assert chunks(agent, "1 + 2?", is_async=is_async).split() == ["Adding.", "It", "is", "3."]
    result = Agent(_again(provider, call), [add]).run("1 + 2?")
    assert (result.content, tool_messages(result)) == ("It is 3.", ["3"])
    assert result.reasoning.startswith("I add.")


def _again(provider: ScriptedProvider, call: str) -> ScriptedProvider:
    fresh = ScriptedProvider([f"<think>I add.</think>Adding.\n{call}", "It is 3."])
    fresh.native_tools = provider.native_tools
    return fresh


def test_reasoning_of_the_service_and_of_the_text_are_joined() -> None:
    message = Message.assistant("<think>text</think>answer")
    completion = Completion(Message(message.role, message.content, reasoning="service"))
    result = Agent(ScriptedProvider([completion]), config=AgentConfig()).run("x")
    assert (result.content, result.messages[-1].content) == ("answer", "answer")
    assert result.reasoning == "service\n\ntext"


def both_streams(script: list[str | Message], config: AgentConfig | None = None) -> list[list[Event]]:
    async def consume() -> list[Event]:
        agent = Agent(ScriptedProvider(script), config=config or AgentConfig())
        return [event async for event in agent.astream("x")]

    return [list(Agent(ScriptedProvider(script), config=config or AgentConfig()).stream("x")), asyncio.run(consume())]


@pytest.mark.parametrize("tagged", [True, False])
def test_reasoning_is_streamed_as_its_own_events_and_kept_in_the_trace(tagged: bool) -> None:
    message = Message.assistant("<think>1 + 2</think>It is 3.")
    if not tagged:
        message = Message(message.role, "It is 3.", reasoning="1 + 2")
    for events in both_streams([message]):
        assert "".join(event.text for event in events if isinstance(event, ReasoningChunk)) == "1 + 2"
        assert "".join(event.text for event in events if isinstance(event, TextChunk)) == "It is 3."
        result = final_result(events)
        assert (result.content, result.reasoning) == ("It is 3.", "1 + 2")
        [span] = result.trace.find_spans(StepType.LLM_CALL)
        assert span.attributes["reasoning"] == "1 + 2"


def test_a_stream_that_ends_in_its_reasoning_has_no_text() -> None:
    for events in both_streams(["<think>1 + 2"]):
        assert [event.text for event in events if isinstance(event, TextChunk)] == []
        assert "".join(event.text for event in events if isinstance(event, ReasoningChunk)) == "1 + 2"


def test_an_agent_whose_model_starts_inside_its_reasoning_shows_none_of_it() -> None:
    for events in both_streams(["1 < 2 </think>Yes."], AgentConfig(starts_with_reasoning=True)):
        assert [event.text for event in events if isinstance(event, TextChunk)] == ["Yes."]
        assert (final_result(events).content, final_result(events).reasoning) == ("Yes.", "1 < 2")
