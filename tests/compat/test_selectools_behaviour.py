"""What programs written for selectools 0.12 rely on in parsers, prompts, registries and memories.

Two behaviours differ on purpose: malformed JSON is repaired, and a call may have more than 8,000 characters.
"""

from __future__ import annotations

import pytest

from ragkit import ConversationMemory, Message, PromptBuilder, ToolCallParser, ToolRegistry, tool
from ragkit.errors import InvalidOption, InvalidToolArguments, UnknownName
from ragkit.records import JSON


@tool(description="Add numbers")
def add(a: int, b: int = 2) -> str:
    return str(a + b)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('TOOL_CALL: {"tool_name": "add", "parameters": {"n": 1}}', {"n": 1}),
        ('I add now.\nTOOL_CALL: {"tool_name": "add", "parameters": {"n": 1}}\nDone.', {"n": 1}),
        ('```json\n{"tool_name": "add", "parameters": {"n": 1}}\n```', {"n": 1}),
        ('I call {"tool": "add", "params": {"n": 1}} now', {"n": 1}),
        ("TOOL_CALL: {'tool_name': 'add', 'parameters': {'n': 1}}", {"n": 1}),
        ('TOOL_CALL: {"tool_name": "add", "parameters": {"n": "a\nb"}}', {"n": "a\nb"}),
        ('TOOL_CALL: {"tool_name": "add", "parameters": {"d": {"x": [1, {"y": 2}]}}}', {"d": {"x": [1, {"y": 2}]}}),
        ('TOOL_CALL: {"tool_name": "add"}', {}),
        ('TOOL_CALL: {"tool_name": "add", "parameters": {"n": 1,}}', {"n": 1}),  # differs
        ('TOOL_CALL: {"tool_name": "add", "parameters": {"n": "' + "x" * 9000 + '"}}', {"n": "x" * 9000}),  # differs
    ],
)
def test_a_call_in_text_is_read(text: str, arguments: dict[str, JSON]) -> None:
    call = ToolCallParser().parse(text)
    assert call is not None
    assert (call.tool_name, call.parameters) == ("add", arguments)


@pytest.mark.parametrize("text", ["", "nothing to call", 'TOOL_CALL: {"parameters": {"n": 1}}'])
def test_text_without_a_named_call_has_none(text: str) -> None:
    assert ToolCallParser().parse(text) is None


def test_the_first_of_several_calls_is_parsed_first() -> None:
    text = 'TOOL_CALL: {"tool_name": "a", "parameters": {}} TOOL_CALL: {"tool_name": "b", "parameters": {}}'
    call = ToolCallParser().parse(text)
    assert call is not None
    assert call.tool_name == "a"


def test_the_prompt_has_the_instructions_and_the_schema_of_every_tool() -> None:
    prompt = PromptBuilder("Be brief.").build([add])
    assert prompt.startswith("Be brief.\n\n")
    assert "TOOL_CALL" in prompt
    assert 'add: Add numbers\nparameters: {"additionalProperties": false, "properties": {"a":' in prompt
    assert PromptBuilder("Be brief.").build([]) == "Be brief."


def test_defaults_are_optional_and_wrong_arguments_are_refused_with_the_nearest_name() -> None:
    assert add.execute({"a": 1}) == "3"
    with pytest.raises(InvalidToolArguments, match=r"parameter 'a' is missing \(integer\)"):
        add.execute({})
    with pytest.raises(InvalidToolArguments, match=r"unknown parameter 'c' \(known: a, b\)"):
        add.execute({"a": 1, "c": 3})


def test_a_name_is_registered_once_and_an_unknown_one_is_an_error() -> None:
    registry = ToolRegistry([add])
    with pytest.raises(InvalidOption, match="the name of a tool must be unique in its registry"):
        registry.register(add)
    with pytest.raises(UnknownName, match="available: add"):
        registry.get("subtract")


def test_a_memory_keeps_the_newest_messages_and_gives_copies() -> None:
    memory = ConversationMemory(max_messages=2)
    memory.add_many([Message.user(str(number)) for number in range(4)])
    assert [message.content for message in memory.get_history()] == ["2", "3"]
    memory.get_history().clear()
    assert len(memory) == 2
    assert [message.content for message in memory.get_recent(1)] == ["3"]
    with pytest.raises(InvalidOption, match=r"max_messages must be >= 1 or None \(got 0\)"):
        ConversationMemory(max_messages=0)
