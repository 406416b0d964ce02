"""The command line's filter expressions."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.errors import InvalidFilter
from ragkit.records import JSON
from ragkit.store.base import Filter
from ragkit.store.filters.language import evaluate, parse_filter
from ragkit.store.filters.where_syntax import MAX_DEPTH, parse_where


def test_the_readme_expression_is_read() -> None:
    assert parse_where('lang == "en" and year >= 2020 and (tag in ("a","b") or not has(tag))') == {
        "$and": [
            {"lang": {"$eq": "en"}},
            {"year": {"$gte": 2020}},
            {"$or": [{"tag": {"$in": ["a", "b"]}}, {"$not": {"tag": {"$exists": True}}}]},
        ]
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a==1", {"a": {"$eq": 1}}),
        ("a != -2.5", {"a": {"$ne": -2.5}}),
        ("a < 1e3", {"a": {"$lt": 1000.0}}),
        ("a <= .5", {"a": {"$lte": 0.5}}),
        ("a > 'b'", {"a": {"$gt": "b"}}),
        ("a >= 2", {"a": {"$gte": 2}}),
        ("a == true", {"a": {"$eq": True}}),
        ("a == False", {"a": {"$eq": False}}),
        ("a != null", {"a": {"$ne": None}}),
        ("a in ()", {"a": {"$in": []}}),
        ("a in (1,)", {"a": {"$in": [1]}}),
        ("a in (1, 'x', null)", {"a": {"$in": [1, "x", None]}}),
        ("a not in (1, 2)", {"a": {"$nin": [1, 2]}}),
        ("has(a.b)", {"a.b": {"$exists": True}}),
        ("`it's odd` == 1", {"it's odd": {"$eq": 1}}),
        ("`in` == 1", {"in": {"$eq": 1}}),
        ("my-key == 1", {"my-key": {"$eq": 1}}),
        ("ключ == 'значение'", {"ключ": {"$eq": "значение"}}),
        (r"""a == "say \"hi\"\n\\" """, {"a": {"$eq": 'say "hi"\n\\'}}),
        ("a == 'it\\'s'", {"a": {"$eq": "it's"}}),
        ("android == 1", {"android": {"$eq": 1}}),
        ("  ( ( a == 1 ) )  ", {"a": {"$eq": 1}}),
        ("not not a == 1", {"$not": {"$not": {"a": {"$eq": 1}}}}),
    ],
)
def test_each_form_is_read(text: str, expected: Filter) -> None:
    assert parse_where(text) == expected


def test_and_binds_closer_than_or_and_not_closest() -> None:
    assert parse_where("a == 1 or not b == 2 and c == 3") == {
        "$or": [{"a": {"$eq": 1}}, {"$and": [{"$not": {"b": {"$eq": 2}}}, {"c": {"$eq": 3}}]}]
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"^column 1: expected a field name, got the end: \^$"),
        ("a = 1", r"^column 3: expected one of == != < <= > >= in, got '=' \(did you mean '=='\?\): a \^= 1$"),
        ("a <> 1", r"column 3: .* got '<>'.*did you mean '!='"),
        ("a == 1 && b == 2", r"column 8: expected 'and', 'or' or the end, got '&&' \(did you mean 'and'\?\)"),
        ("a == 1 AND b == 2", r"column 8: .* got 'AND'.*did you mean 'and'"),
        ("a == 1 b == 2", r"column 8: expected 'and', 'or' or the end, got 'b'"),
        ("a ==", r"column 5: expected a value .*, got the end"),
        ("a == b", r"column 6: expected a value \(a number, true, false, null or a quoted string\), got 'b'"),
        ('a == "b', r"column 6: expected a value .*, got '\"'"),
        ("(a == 1", r"column 8: expected 'and', 'or' or '\)', got the end"),
        ("a == 1)", r"column 7: expected 'and', 'or' or the end, got '\)'"),
        ("a in 1", r"column 6: expected '\(' and a list of values, got '1'"),
        ("a in (1 2)", r"column 9: expected ',' or '\)', got '2'"),
        ("a in (,)", r"column 7: expected a value .*, got ','"),
        ("a not 1", r"column 7: expected 'in' after 'not', got '1'"),
        ("has a", r"column 5: expected '\(' and a field after 'has', got 'a'"),
        ("has(1)", r"column 5: expected a field name, got '1'"),
        ("1 == a", r"column 1: expected a field name, got '1'"),
        ("a > true", r"column 5: expected a number or a string, got 'true'"),
        ("a == 1e999", r"column 6: expected a finite number, got '1e999'"),
        ("a == 12abc", r"column 6: expected a value .*, got '1'"),
        ("`$or` == 1", r"column 1: expected a field name, got '`\$or`'"),
        ("a == 1 ; import os", r"column 8: expected 'and', 'or' or the end, got ';'"),
        ("a.__class__()", r"column 12: expected one of == .*, got '\('"),
        ("a == " + "9" * 500, r"expected a number of at most 400 digits"),
        ("x" * 100_001, r"the expression is too long: 100001 characters, at most 100000 are allowed"),
    ],
)
def test_a_syntax_error_names_the_column_and_marks_it(text: str, message: str) -> None:
    with pytest.raises(InvalidFilter, match=message) as caught:
        parse_where(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("opening", ["(", "not "])
def test_nesting_is_limited(opening: str) -> None:
    with pytest.raises(InvalidFilter, match=f"at most {MAX_DEPTH} levels of parentheses and 'not'"):
        parse_where(opening * 5000 + "a == 1")


def test_a_long_chain_is_flat_and_read_in_linear_time() -> None:
    start = time.process_time()
    parsed = parse_where(" or ".join(f"a == {n}" for n in range(7000)))
    assert time.process_time() - start < 2
    assert parsed == {"$or": [{"a": {"$eq": n}} for n in range(7000)]}
    with pytest.raises(InvalidFilter, match="expected a value"):
        parse_where("a == " + '"\\' * 30_000)


SCALARS: st.SearchStrategy[JSON] = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**6), 10**6), st.floats(allow_nan=False, allow_infinity=False), st.text()
)


def filter_text(value: JSON) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return json.dumps(value)


@given(SCALARS, SCALARS)
def test_every_value_can_be_written(operand: JSON, held: JSON) -> None:
    parsed = parse_filter(parse_where(f"`a key` == {filter_text(operand)}"))
    assert parsed == parse_filter({"a key": operand})
    assert evaluate(parsed, {"a key": held}) == evaluate(parse_filter({"a key": operand}), {"a key": held})


@given(st.text(alphabet="ab1.\"'`()=<>!,\\ not in has and or true", max_size=40))
def test_any_text_is_read_or_rejected(text: str) -> None:
    try:
        parsed = parse_where(text)
    except InvalidFilter as error:
        assert str(error).startswith("column ")
    else:
        parse_filter(parsed)


def test_a_reversed_membership_test_is_met_with_the_comparison_that_was_meant() -> None:
    with pytest.raises(InvalidFilter, match=r"""column 1: .* \(did you mean tags == "hr"\?\)"""):
        parse_where('"hr" in tags')
