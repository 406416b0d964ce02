"""YAML 1.2 becomes a tree with locations; malicious input is rejected quickly."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragkit.config.yaml_nodes import (
    ConfigProblem,
    MappingNode,
    Node,
    ScalarNode,
    ScalarValue,
    SequenceNode,
    format_problems,
)
from ragkit.config.yaml_parser import (
    MAX_CHARACTERS,
    MAX_NODES,
    ConfigReadError,
    create_source,
    parse_yaml,
    resolve_scalar,
)


def tree(text: str) -> Node | None:
    problems: list[ConfigProblem] = []
    parsed = parse_yaml(text, create_source("file.yaml", text), problems)
    assert problems == []
    return parsed


def value_of(text: str) -> ScalarValue:
    table = tree(f"key: {text}\n")
    assert isinstance(table, MappingNode)
    node = table.get("key")
    assert isinstance(node, ScalarNode)
    return node.value


def rejection(text: str) -> str:
    with pytest.raises(ConfigReadError) as caught:
        parse_yaml(text, create_source("file.yaml", text), [])
    return str(caught.value.problem)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("on", "on"),
        ("null", None),
        ("~", None),
        ("", None),
        ("'null'", "null"),
        ("7", 7),
        ("-7", -7),
        ("007", 7),
        ("0o17", 15),
        ("0xff", 255),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("'7'", "7"),
        ("12:30", "12:30"),
        ("2024-01-31", "2024-01-31"),
        ('"caf\\u00e9"', "café"),
    ],
)
def test_single_values_follow_the_core_schema_of_yaml_1_2(text: str, value: ScalarValue) -> None:
    result = value_of(text)
    assert (type(result), result) == (type(value), value)


def test_an_integer_of_a_million_digits_is_infinity() -> None:
    assert resolve_scalar("9" * 1_000_000) == math.inf


def test_every_key_and_value_has_its_line_and_column() -> None:
    table = tree("# a comment\nsplit:\n  name: recursive\nload: [a, {b: c}]\n")
    assert isinstance(table, MappingNode)
    split, load = table.get("split"), table.get("load")
    assert isinstance(split, MappingNode)
    assert isinstance(load, SequenceNode)
    locations = [str(table.pairs[0][0].location), str(split.pairs[0][0].location), str(split.pairs[0][1].location)]
    assert locations == ["file.yaml:2:1", "file.yaml:3:3", "file.yaml:3:9"]
    assert [str(entry.location) for entry in load.entries] == ["file.yaml:4:8", "file.yaml:4:11"]


def test_all_line_endings_are_counted_alike() -> None:
    for line_end in ("\n", "\r\n", "\r"):
        table = tree(f"a: 1{line_end}{line_end}b: 2{line_end}")
        assert isinstance(table, MappingNode)
        assert [key.location.line for key, _ in table.pairs] == [1, 3]


def test_an_alias_is_the_value_that_its_anchor_names() -> None:
    table = tree("a: &sizes {chunk_size: 3}\nb: *sizes\n")
    assert isinstance(table, MappingNode)
    assert table.get("a") == table.get("b")


def test_the_caret_is_aligned_after_wide_characters() -> None:
    text = 'name: "日本" : x\n'
    lines = rejection(text).splitlines()
    assert lines[1:] == ['  name: "日本" : x', "  " + " " * 13 + "^"]


def test_a_very_long_line_is_shortened_around_the_caret() -> None:
    head, shown, caret = rejection("a: " + "[" + "x, " * 200 + "*nothing]").splitlines()
    assert head.startswith("file.yaml:1:605: ")
    assert shown.strip().endswith("*nothing]")
    assert len(shown) <= 110
    assert shown[len(caret) - 1] == "*"


def test_a_surrogate_pair_is_one_character() -> None:
    assert value_of('"\\ud83d\\ude00"') == "\U0001f600"


def test_thousands_of_problems_are_formatted_within_seconds() -> None:
    text = "a: 1\n" * 4_000
    problems: list[ConfigProblem] = []
    started = time.perf_counter()
    parse_yaml(text, create_source("file.yaml", text), problems)
    assert len(format_problems(problems)) == 3_999
    assert time.perf_counter() - started < 10  # less than 1 s on an idle core


BOMBS = {
    "brackets": "[" * 900_000,
    "braces": "{" * 900_000,
    "dashes": "- " * 450_000,
    "question marks": "? " * 450_000,
    "indentation": "".join(" " * depth + "a:\n" for depth in range(1_300)),
    "keys": "".join(f"k{number}: v\n" for number in range(80_000)),
    "entries": "[" + "a," * 450_000,
    "blank lines": "\n" * 900_000,
    "colons": ":" * 900_000,
    "words": "x " * 450_000 + ": 1",
    "aliases": "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(
        f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ),
}


@pytest.mark.rotating
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_malicious_text_is_rejected_within_seconds(bomb: str) -> None:
    started = time.process_time()
    try:
        assert parse_yaml(BOMBS[bomb], create_source("file.yaml", BOMBS[bomb]), []) is None  # blank lines give no tree
    except ConfigReadError as error:
        assert len(str(error.problem)) < 400
    assert time.process_time() - started < 10  # each takes less than 1 s on an idle core


def test_a_text_over_the_limit_is_not_parsed_at_all() -> None:
    assert "at most 1,000,000 characters" in rejection("#" * (MAX_CHARACTERS + 1))


def test_more_values_than_the_limit_are_rejected() -> None:
    assert tree("[" + "a," * (MAX_NODES - 1) + "]") is not None
    assert "at most 10,000 values" in rejection("[" + "a," * MAX_NODES + "]")


@settings(max_examples=200)
@given(st.text(alphabet="ab:{}[]-?&*!|>'\"%@`#,$ \n\t\\\x00\x85é", max_size=40))
def test_any_text_gives_a_tree_or_a_read_error(text: str) -> None:
    problems: list[ConfigProblem] = []
    parse: Callable[[], object] = lambda: parse_yaml(text, create_source("file.yaml", text), problems)  # noqa: E731
    try:
        parse()
    except ConfigReadError as error:
        problems.append(error.problem)
    assert all(str(problem).startswith("file.yaml:") for problem in problems)
