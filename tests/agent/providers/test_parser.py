"""Tool calls in text, and lenient JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.agent.messages import ToolCall
from ragkit.agent.providers.parser import (
    ToolCallParser,
    extract_balanced,
    parse_arguments,
    parse_lenient_json,
    text_before_call,
)
from ragkit.records import JSON

PARSER = ToolCallParser()


def parsed(text: str, *known: str) -> list[tuple[str, object]]:
    return [(call.name, dict(call.arguments)) for call in PARSER.parse_all(text, known)]


@pytest.mark.parametrize(
    "text",
    [
        'TOOL_CALL {"tool_name": "add", "parameters": {"a": 1}}',
        'TOOL_CALL: {"tool": "add", "params": {"a": 1}}',
        'TOOL_CALL\n{"name": "add", "arguments": {"a": 1}}',
        'TOOL_CALL\n```json\n{"tool_name": "add", "parameters": {"a": 1}}\n```',
        '```\nTOOL_CALL {"tool_name": "add", "parameters": {"a": 1}}\n```',
        'Let me add these.\n\nTOOL_CALL {"tool_name": "add", "parameters": {"a": 1}}\nand wait.',
        "TOOL_CALL {'tool_name': 'add', 'parameters': {'a': 1}}",
        'TOOL_CALL {"tool_name": "add", "parameters": {"a": 1,},}',
        'TOOL_CALL {tool_name: "add", parameters: {a: 1}}',
        'TOOL_CALL {"tool_name": "add", "parameters": {"a": 1}',
        'TOOL_CALL {"tool_name": "add", "parameters": "{\\"a\\": 1}"}',
        'TOOL_CALL {"tool_name": "add", /* why */ "parameters": {"a": 1}}',
    ],
)
def test_a_call_is_parsed_in_every_notation(text: str) -> None:
    assert parsed(text) == [("add", {"a": 1})]


def test_nested_brackets_and_braces_inside_strings_do_not_end_a_call() -> None:
    arguments: dict[str, JSON] = {"code": 'if (x) { return "}"; } // \\ {', "deep": [[{"a": [1, {"b": 2}]}]]}
    text = f"TOOL_CALL {json.dumps({'tool_name': 'run', 'parameters': arguments})} and more {{text}}"
    assert parsed(text) == [("run", arguments)]


def test_several_calls_keep_their_order() -> None:
    text = 'TOOL_CALL {"tool": "a", "params": {}}\nthen\nTOOL_CALL {"tool": "b", "params": {"x": "TOOL_CALL {}"}}'
    assert parsed(text) == [("a", {}), ("b", {"x": "TOOL_CALL {}"})]


def test_a_list_of_calls_is_several_calls() -> None:
    assert parsed('TOOL_CALL [{"name": "a", "args": {}}, {"name": "b", "args": {"x": 1}}]') == [
        ("a", {}),
        ("b", {"x": 1}),
    ]


def test_without_the_marker_an_object_is_a_call_only_if_it_names_a_known_tool() -> None:
    text = 'I call:\n```json\n{"tool": "add", "parameters": {"a": 1}}\n```'
    assert parsed(text, "add") == [("add", {"a": 1})]
    assert parsed(text, "other") == []
    assert parsed(text) == []
    assert parsed('inline {"name": "add", "parameters": {"a": 1}} call', "add") == [("add", {"a": 1})]
    assert ToolCallParser(accept_bare_json=False).parse_all(text, ["add"]) == []


@pytest.mark.parametrize(
    "text", ["", "no call here", "TOOL_CALL", "TOOL_CALL soon", '{"a": 1}', "TOOL_CALL {}", "[1, 2]"]
)
def test_text_without_a_call_yields_no_call(text: str) -> None:
    assert parsed(text, "add") == []
    assert PARSER.parse(text) is None


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"tool": "add", "parameters": {"a": 1}}\n```',
        'I call {"tool_name": "add", "params": {"a": 1}} now',
        '{"name": "add", "arguments": "{\\"a\\": 1}"}',
        '[{"name": "add", "args": {"a": 1}}]',
    ],
)
def test_without_tool_names_any_object_with_a_name_and_arguments_is_a_call(text: str) -> None:
    call = PARSER.parse(text)
    assert call is not None
    assert (call.tool_name, call.parameters) == ("add", {"a": 1})
    assert PARSER.parse(text, []) is None


def test_an_object_with_a_name_alone_is_no_call() -> None:
    assert PARSER.parse('The user is {"name": "Bob", "age": 7}.') is None


def test_parse_returns_the_first_call() -> None:
    call = PARSER.parse('TOOL_CALL {"tool": "a", "params": {"x": 1}} TOOL_CALL {"tool": "b"}')
    assert call is not None
    assert (call.tool_name, call.parameters) == ("a", {"x": 1})


def test_the_text_before_the_call_is_the_reason() -> None:
    piece = '{"tool": "a"}'
    for before in ("```\nTOOL_CALL ", "TOOL_CALL: ", "```json\n", "<tool_call>\n", ""):
        assert text_before_call(f"I must add.\n{before}{piece}", piece) == "I must add."
    assert text_before_call("Use `x` {}", "{}") == "Use `x`"


def test_arguments_that_are_not_an_object_are_kept_as_text() -> None:
    assert parse_arguments("t", '{"a": 1}', "c") == ToolCall("t", {"a": 1}, "c")
    assert parse_arguments("t", "") == ToolCall("t", {})
    assert parse_arguments("t", '{"a": 1') == ToolCall("t", {"a": 1})
    assert parse_arguments("t", "nonsense") == ToolCall("t", {}, malformed="nonsense")
    assert parse_arguments("t", "[1, 2]") == ToolCall("t", {}, malformed="[1, 2]")


def test_valid_json_is_parsed_unchanged() -> None:
    assert parse_lenient_json('{"a": "// no comment", "b": [1.5, null, true]}') == {
        "a": "// no comment",
        "b": [1.5, None, True],
    }


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), values, max_size=4), st.text(), st.text(alphabet='abc {}[]"\\\n'))
def test_any_arguments_survive_among_any_text(arguments: dict[str, JSON], before: str, after: str) -> None:
    if "TOOL_CALL" in before + str(arguments):
        return
    text = f"{before} TOOL_CALL {json.dumps({'tool_name': 't', 'parameters': arguments})}{after}"
    call = PARSER.parse(text)
    assert call is not None
    assert dict(call.arguments) == arguments


@given(st.text(alphabet='{}[]",:\\TOOL_CALL ab1\n`', max_size=80))
def test_no_text_makes_the_parser_fail(text: str) -> None:
    for call in PARSER.parse_all(text, ["a"]):
        assert isinstance(call.arguments, dict)


@pytest.mark.parametrize("text", ['{"a":' * 20_000, '{"a": ' + "[" * 20_000 + "]" * 20_000 + "}"])
def test_json_nested_too_deeply_is_not_a_call(text: str) -> None:
    assert PARSER.parse_all(f"TOOL_CALL {text}", ["a"]) == []
    assert parse_arguments("a", text).malformed == text


def test_extract_balanced_returns_the_rest_of_an_open_object() -> None:
    assert extract_balanced('x {"a": [1}', 2) == '{"a": [1}'
    assert extract_balanced('{"a": "}"} rest', 0) == '{"a": "}"}'
