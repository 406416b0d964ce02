"""Validation against JSON Schema: the messages, invalid schemas, and the limits of time and references."""

import http.server
import threading
import time
from pathlib import Path
from typing import cast

import pytest

from ragkit.agent.agent import Agent
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.loop.structured_output import to_json_schema
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.agent.tools import schema_validator
from ragkit.agent.tools.base import Tool
from ragkit.agent.tools.schema_complexity import MAX_VALUE_DEPTH
from ragkit.agent.tools.schema_validator import check_schema, find_violations
from ragkit.errors import InvalidOption, InvalidToolArguments
from ragkit.records import JSON


@pytest.mark.parametrize(
    ("value", "schema", "violation"),
    [
        ("x", {"type": "integer"}, "'v' must be of type integer (got 'x')"),
        (True, {"type": "integer"}, "'v' must be of type integer (got True)"),
        (1.5, {"type": "integer"}, "'v' must be of type integer (got 1.5)"),
        ("x", {"type": ["integer", "null"]}, "'v' must be of type null or integer (got 'x')"),
        ("grren", {"enum": ["green", "red"]}, "'v' must be one of 'green', 'red' (got 'grren', did you mean 'green'?)"),
        (2, {"const": 1}, "'v' must be 1 (got 2)"),
        (-1, {"minimum": 0}, "'v' must be >= 0 (got -1)"),
        (9, {"maximum": 5}, "'v' must be <= 5 (got 9)"),
        (0, {"exclusiveMinimum": 0}, "'v' must be > 0 (got 0)"),
        (5, {"exclusiveMaximum": 5}, "'v' must be < 5 (got 5)"),
        (3, {"multipleOf": 2}, "'v' must be a multiple of 2 (got 3)"),
        ("abc", {"maxLength": 2}, "'v' must have at most 2 characters (got 3)"),
        ("", {"minLength": 1}, "'v' must have at least 1 characters (got 0)"),
        ("abc", {"pattern": "^x"}, "'v' must match '^x' (got 'abc')"),
        ("soon", {"format": "date"}, "'v' must be of format date (got 'soon')"),
        ([1], {"minItems": 2}, "'v' must have at least 2 items (got 1)"),
        ([1, 1], {"uniqueItems": True}, "'v' must have no item twice (got [1, 1])"),
        ([1], {"contains": {"type": "null"}}, "'v' must have an item that matches 'contains' (got [1])"),
        ([1], {"contains": {"type": "integer"}, "minContains": 2}, "'v' must satisfy 'minContains' (got [1])"),
        ([1, "x"], {"items": {"type": "integer"}}, "'v[1]' must be of type integer (got 'x')"),
        ([1, 2], {"prefixItems": [{}], "items": False}, "'v[1]' is not allowed"),
        ({"a": 0}, {"properties": {"a": {"minimum": 1}}}, "'v.a' must be >= 1 (got 0)"),
        ({"b": 1}, {"additionalProperties": False}, "'v' has a property, but none is allowed"),
        (
            {"colour": 1},
            {"properties": {"color": {}}, "additionalProperties": False},
            "'v' has an unknown property 'colour' (did you mean 'color'?)",
        ),
        ({"b": 1}, {"unevaluatedProperties": False}, "'v' has an unknown property 'b'"),
        ({"b": "x"}, {"additionalProperties": {"type": "integer"}}, "'v.b' must be of type integer (got 'x')"),
        ({"ab": 1}, {"patternProperties": {"^a": {"type": "null"}}}, "'v.ab' must be of type null (got 1)"),
        (
            {"ab": 1},
            {"propertyNames": {"maxLength": 1}},
            "'v' has an invalid property name: 'ab' must have at most 1 characters",
        ),
        ({}, {"required": ["c"]}, "'v' has no 'c'"),
        ({"a": 1}, {"dependentRequired": {"a": ["b"]}}, "'v' has no 'b'"),
        (
            "x",
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "'v' must be of type integer or be of type null (got 'x')",
        ),
        (
            {"a": 1},
            {"anyOf": [{"properties": {"a": {"type": "null"}}}, {"required": ["b", "c"]}]},
            "'v' matches none of 2 alternatives: 'v.a' must be of type null (got 1)",
        ),
        (
            1,
            {"oneOf": [{"type": "integer"}, {"minimum": 0}]},
            "'v' must match exactly one of 2 alternatives, not 2 (got 1)",
        ),
        (1, {"allOf": [{"minimum": 0}, {"maximum": 0}]}, "'v' must be <= 0 (got 1)"),
        (1, {"not": {"type": "integer"}}, '\'v\' must not match {"type": "integer"} (got 1)'),
        (1, {"if": {"type": "integer"}, "then": {"minimum": 3}}, "'v' must be >= 3 (got 1)"),
        (1, False, "'v' is not allowed"),
        (
            ["x"],
            {"$ref": "#/$defs/L", "$defs": {"L": {"items": {"type": "null"}}}},
            "'v[0]' must be of type null (got 'x')",
        ),
        ([[1]], {"type": "array", "items": {"$ref": "#"}}, "'v[0][0]' must be of type array (got 1)"),
        (1, {"$ref": "#n", "$defs": {"N": {"$anchor": "n", "type": "null"}}}, "'v' must be of type null (got 1)"),
        ({1}, {}, "'v' must be JSON (got {1})"),
    ],
)
def test_a_violation_names_the_path_the_rule_and_the_value(value: JSON, schema: JSON, violation: str) -> None:
    assert find_violations(value, schema, "v") == [violation]


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (1.0, {"type": "integer"}),
        (None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ({"a": [1, 2]}, {"properties": {"a": {"type": "array", "items": {"type": "number"}}}}),
        ((1, 2), {"type": "array"}),
        ("\ud800", {"type": "string"}),
        ({"$id": "x", "$ref": 1}, {"properties": {"$id": {"type": "string"}, "$ref": {"type": "integer"}}}),
        ("anything", {}),
        ("anything", True),
    ],
)
def test_a_valid_value_has_no_violations(value: JSON, schema: JSON) -> None:
    assert find_violations(value, schema) == []


def test_many_violations_are_counted() -> None:
    lines = find_violations(list(range(100)), {"items": {"type": "null"}}, "v")
    assert (len(lines), lines[-1]) == (21, "... and 80 more")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "intger"}, r"'type' of s must be one of array, .*did you mean 'integer'.*\(got 'intger'\)"),
        ({"properties": {"a": {"minimum": "1"}}}, r"'properties\.a\.minimum' of s must be of type number \(got '1'\)"),
        ({"required": "a"}, r"'required' of s must be of type array \(got 'a'\)"),
        ({"allOf": []}, "'allOf' of s must be valid: it must have at least 1 items"),
        ({"pattern": "("}, r"'pattern' of s must be a regular expression.*\(got '\('\)"),
        ({"pattern": "(?=a)b"}, "without look-around"),
        ({"$ref": "#/$defs/no"}, "must be a reference to a schema that exists"),
        ({"$dynamicRef": "#no"}, r"'\$dynamicRef' of s must be a reference to a schema that exists"),
        ({"$schema": "http://foo/x"}, r"'\$schema' of s must be one of"),
        ({"properties": {"a": {"$id": "b"}}}, r"'\$id' of s must be at the root only"),
        ({"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}, r"'\$anchor' of s must be unique"),
        ([], "s must be a JSON object or a boolean"),
        ({"default": {1}}, "s must be a JSON object or a boolean"),
    ],
)
def test_an_invalid_schema_is_rejected_with_its_keyword(schema: JSON, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        check_schema(schema, "s")


def test_tools_and_response_formats_with_an_invalid_schema_are_rejected() -> None:
    with pytest.raises(InvalidOption, match="'type' of the parameters of f must be"):
        Tool("f", "A function.", lambda: "", {"type": "objct"})
    with pytest.raises(InvalidOption, match="'type' of response_format must be"):
        Agent(ScriptedProvider([]), config=AgentConfig(response_format={"type": "objct"}))


def test_a_hand_written_tool_keeps_every_keyword() -> None:
    schema: dict[str, JSON] = {
        "properties": {"a": {"exclusiveMinimum": 0}},
        "patternProperties": {"^x-": {"type": "string"}},
        "dependentRequired": {"a": ["x-b"]},
    }
    tool = Tool("f", "A function.", lambda **_: "", schema)
    assert tool.validate({"a": 1, "x-b": "y"}) == {"a": 1, "x-b": "y"}
    with pytest.raises(InvalidToolArguments, match=r"the value has no 'x-b'; 'a' must be > 0 \(got 0\)"):
        tool.validate({"a": 0})


def test_a_reference_to_another_document_accesses_neither_network_nor_files(tmp_path: Path) -> None:
    requests: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_error(404)

    secret = tmp_path / "schema.json"
    secret.write_text('{"type": "null"}')
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        remote = f"http://127.0.0.1:{server.server_port}/schema.json"
        for uri in (remote, secret.as_uri(), str(secret), "schema.json"):
            for keyword in ("$ref", "$dynamicRef"):
                with pytest.raises(InvalidOption, match=r"must be a reference into the schema itself"):
                    find_violations(1, {"properties": {"a": {keyword: uri}}})
            with pytest.raises(InvalidOption, match=r"'\$schema' of the schema must be one of"):
                find_violations(1, {"$schema": uri})
        with pytest.raises(ValueError, match="is another document"):
            schema_validator._refuse_document(remote)
        server.shutdown()
    assert requests == []


def chain(keyword: str, levels: int) -> dict[str, JSON]:
    """Each level refers to the next one twice: 2**levels evaluations."""
    definitions: dict[str, JSON] = {
        f"a{level}": {keyword: [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#/$defs/a0", "$defs": {**definitions, f"a{levels}": {"type": "null"}}}


def nested_value(levels: int) -> JSON:
    value: JSON = 1
    for _ in range(levels):
        value = [value]
    return value


def nested_schema(levels: int, keyword: str) -> JSON:
    schema: JSON = {"type": "null"}
    for _ in range(levels):
        schema = {keyword: [schema], "unevaluatedProperties": False}
    return schema


CYCLE: dict[str, JSON] = {
    "$ref": "#/$defs/a0",
    "$defs": {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{k}"} for k in range(14)]} for i in range(14)},
}
EXPENSIVE: list[tuple[JSON, JSON, str]] = [
    ("a" * 50_000 + "b", {"pattern": "^(a+)+$"}, "must match"),
    ("x", {"pattern": "(a{1000}){1000}"}, "a regular expression"),
    *((1, chain(keyword, 40), "number of evaluations") for keyword in ("allOf", "anyOf", "oneOf")),
    (1, chain("allOf", 8), "must be of type null"),
    (1, chain("oneOf", 14), "does not match the schema"),
    (nested_value(40), {"allOf": [{"items": {"$ref": "#"}}] * 2}, "evaluations"),
    (1, nested_schema(40, "allOf"), "number of evaluations"),
    (1, {"$ref": "#"}, "recursive reference"),
    (1, {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, "recursive reference"),
    (1, {"$dynamicAnchor": "m", "$dynamicRef": "#m"}, "recursive reference"),
    (1, CYCLE, "recursive reference"),
    (1, nested_schema(100_000, "not"), "nested less than"),
    (1, chain("allOf", 1_000), "nesting of evaluations"),
    (1, chain("allOf", 6_000), "the size"),
    (nested_value(100_000), {"items": {"$ref": "#"}}, "nesting of the value"),
    (nested_value(100_000), {}, "nesting of the value"),
    (["x"] * 2_000, {"items": {"enum": [f"s{i}" for i in range(20_000)]}}, "evaluations"),
]


@pytest.mark.parametrize(("value", "schema", "message"), EXPENSIVE, ids=[str(i) for i in range(len(EXPENSIVE))])
def test_an_expensive_schema_or_value_ends_in_well_under_a_second(value: JSON, schema: JSON, message: str) -> None:
    started_at = time.process_time()
    try:
        lines = find_violations(value, schema, "v")
    except InvalidOption as error:
        lines = [str(error)]
    assert time.process_time() - started_at < 1
    assert message in lines[0]
    assert len(lines[0]) < 400


def test_large_and_deep_values_are_validated() -> None:
    tree: dict[str, JSON] = {
        "type": "object",
        "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}},
        "additionalProperties": False,
    }
    value: JSON = {}
    for _ in range(10):
        value = {"left": value, "right": value}
    assert find_violations(value, tree) == []
    assert find_violations(nested_value(MAX_VALUE_DEPTH - 1), {}) == []
    assert (
        find_violations([{"a": i} for i in range(50_000)], {"items": {"properties": {"a": {"type": "integer"}}}}) == []
    )


def test_references_with_too_many_expansions_are_not_inlined() -> None:
    definitions = {f"a{i}": {"properties": {key: {"$ref": f"#/$defs/a{i + 1}"} for key in "xy"}} for i in range(40)}
    schema = cast("dict[str, JSON]", {"$ref": "#/$defs/a0", "$defs": {**definitions, "a40": {"type": "null"}}})
    started_at = time.perf_counter()
    assert to_json_schema(schema) == schema
    assert time.perf_counter() - started_at < 1


def test_a_schema_is_compiled_once() -> None:
    before = schema_validator._compile_text.cache_info()
    for value in range(3):
        find_violations(value, {"title": "compiled once"})
    after = schema_validator._compile_text.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 2)
    assert after.maxsize is not None
