"""The filter language: valid filters, errors, and semantics."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given

from ragkit.errors import InvalidFilter
from ragkit.records import JSON
from ragkit.store.base import Filter
from ragkit.store.filters.language import (
    MAX_DEPTH,
    Always,
    And,
    Compare,
    Exists,
    FilterNode,
    Never,
    Not,
    Or,
    evaluate,
    normalize_negations,
    parse_filter,
)
from ragkit.testing import filter_strategies as dirty


def passes(where: Filter, metadata: Mapping[str, JSON]) -> bool:
    return evaluate(parse_filter(where), metadata)


def test_the_readme_filter_becomes_a_tree() -> None:
    where: Filter = {
        "lang": "en",
        "year": {"$gte": 2020, "$lt": 2025},
        "$or": [{"tag": {"$in": ["a", "b"]}}, {"tag": {"$exists": False}}],
    }
    assert parse_filter(where) == And(
        (
            Compare("lang", "eq", "en"),
            And((Compare("year", "gte", 2020), Compare("year", "lt", 2025))),
            Or((Compare("tag", "in", ("a", "b")), Exists("tag", False))),
        )
    )


@pytest.mark.parametrize("where", [None, {}])
def test_an_empty_filter_matches_everything(where: Filter | None) -> None:
    assert parse_filter(where) == Always()


def test_not_applies_to_filters_and_conditions() -> None:
    assert parse_filter({"$not": {"a": 1}}) == Not(Compare("a", "eq", 1))
    assert parse_filter({"a": {"$not": {"$gt": 1}}}) == Not(Compare("a", "gt", 1))


def test_a_tuple_is_treated_like_a_list() -> None:
    assert parse_filter({"a": {"$in": (1, 2)}}) == parse_filter({"a": {"$in": [1, 2]}})


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"a": {"$gtt": 1}}, r"unknown operator '\$gtt' on field 'a' \(did you mean '\$gt'\?\); available: \$eq, "),
        ({"a": {"gte": 1}}, r"unknown operator 'gte' on field 'a' \(did you mean '\$gte'\?\)"),
        ({"a": {"$regex": "x"}}, r"unknown operator '\$regex' on field 'a'"),
        ({"$nor": [{"a": 1}]}, r"unknown operator '\$nor' in place of a field \(did you mean '\$(not|or)'\?\)"),
        ({"$and": {"a": 1}}, r"\$and requires a list of filters \(got the mapping \{'a': 1\}\)"),
        ({"$or": [1]}, r"a filter must be a mapping of fields to values \(got the int 1\)"),
        ({"$not": [{"a": 1}]}, r"a filter must be a mapping"),
        ({"a": [1, 2]}, r'field \'a\' cannot be compared with a list: use \{"\$in": \[...\]\}'),
        ({"a": {}}, r"field 'a' has an empty condition"),
        (
            {"a": {"$eq": [1]}},
            r"\$eq on field 'a' requires a string, a number, true, false or null \(got the list \[1\]\)",
        ),
        ({"a": {"$in": "abc"}}, r"\$in on field 'a' requires a list of values \(got the string 'abc'\)"),
        ({"a": {"$in": [[1]]}}, r"\$in on field 'a' requires a string"),
        ({"a": {"$exists": 1}}, r"\$exists on field 'a' requires true or false \(got the int 1\)"),
        ({"a": {"$gt": None}}, r"\$gt on field 'a' requires a number or a string \(got null\)"),
        ({"a": {"$lte": True}}, r"\$lte on field 'a' requires a number or a string \(got the bool True\)"),
        ({"a": {"$not": 1}}, r"\$not on field 'a' requires a condition"),
        ({"a": float("nan")}, r"\$eq on field 'a' requires finite numbers \(got nan\)"),
        ({"a": {"$in": [float("inf")]}}, r"\$in on field 'a' requires finite numbers \(got inf\)"),
        ({"a": {"$eq": b"x"}}, r"got the bytes b'x'"),
        ({1: 2}, r"the keys of a filter must be field names \(got the int 1\)"),
        ("a == 1", r"a filter must be a mapping of fields to values \(got the string 'a == 1'\)"),
    ],
)
def test_an_invalid_filter_is_rejected_with_a_suggestion(where: Filter, message: str) -> None:
    with pytest.raises(InvalidFilter, match=message):
        parse_filter(where)


def test_a_long_value_is_not_repeated_in_the_message() -> None:
    with pytest.raises(InvalidFilter, match=r"\(got a list\)$"):
        parse_filter({"a": {"$eq": ["x" * 1000]}})


@pytest.mark.parametrize("levels", [10_000, MAX_DEPTH + 1])
def test_nesting_is_limited(levels: int) -> None:
    deep: dict[str, JSON] = {"a": 1}
    condition: dict[str, JSON] = {"$gt": 1}
    for _ in range(levels):
        deep, condition = {"$not": deep}, {"$not": condition}
    for where in (deep, {"a": condition}):
        with pytest.raises(InvalidFilter, match="nested up to 64 levels deep"):
            parse_filter(where)


# value of a field -> equal operands
TABLE: list[tuple[JSON, list[JSON]]] = [
    (None, [None]),
    (True, [True]),
    (False, [False]),
    (1, [1, 1.0]),
    (1.0, [1, 1.0]),
    (2**53 + 1, [2**53 + 1]),
    ("a", ["a"]),
    ("", [""]),
    ("1", ["1"]),
    (["a", 2], ["a", 2]),
    ([], []),
    ([[1], {"b": 1}], []),
    ({"b": 1}, []),
]
NUMBERS: list[JSON] = [0, 1, 1.0, 2, 2.5, 2**53, float(2**53), 2**53 + 1, 2**70]
STRINGS: list[JSON] = ["", "1", "a", "b", "é"]


@pytest.mark.parametrize(("value", "equal"), TABLE)
def test_equality_compares_type_and_value(value: JSON, equal: list[JSON]) -> None:
    for operand in [None, True, False, *NUMBERS, *STRINGS]:
        is_equal = any(type(operand) is type(each) and operand == each for each in equal)
        assert passes({"f": {"$eq": operand}}, {"f": value}) == is_equal, operand
        assert passes({"f": {"$ne": operand}}, {"f": value}) != is_equal, operand
        assert passes({"f": {"$in": [operand]}}, {"f": value}) == is_equal, operand
        assert passes({"f": {"$nin": [operand]}}, {"f": value}) != is_equal, operand


@pytest.mark.parametrize(("value", "greater"), [(1, NUMBERS[3:]), ("1", STRINGS[2:])])
def test_numbers_and_strings_are_ordered_separately(value: JSON, greater: list[JSON]) -> None:
    for operand in [*NUMBERS, *STRINGS]:
        assert passes({"f": {"$lt": operand}}, {"f": value}) == (operand in greater), operand


@pytest.mark.parametrize("value", [None, True, {"b": 1}, [], [None, True, [5]]])
def test_values_without_an_order_match_no_comparison(value: JSON) -> None:
    for operator, operand in product(["$lt", "$lte", "$gt", "$gte"], [*NUMBERS, *STRINGS]):
        assert not passes({"f": {operator: operand}}, {"f": value})
        assert passes({"f": {"$not": {operator: operand}}}, {"f": value})


def test_whole_numbers_beyond_float_are_compared_exactly() -> None:
    assert not passes({"f": float(2**53)}, {"f": 2**53 + 1})
    assert passes({"f": {"$gt": float(2**53)}}, {"f": 2**53 + 1})
    assert passes({"f": {"$lt": 10**400}}, {"f": 1.5e300})


def test_strings_are_ordered_by_code_point() -> None:
    assert passes({"f": {"$gt": "Z"}}, {"f": "a"})
    assert passes({"f": {"$gt": "\uffff"}}, {"f": "😀"})


def test_a_list_matches_by_any_of_its_elements() -> None:
    tags: Mapping[str, JSON] = {"tag": ["x", "y"]}
    assert passes({"tag": "x"}, tags)
    assert passes({"tag": {"$in": ["z", "y"]}}, tags)
    assert not passes({"tag": {"$ne": "x"}}, tags)
    assert not passes({"tag": {"$nin": ["y"]}}, tags)
    assert passes({"n": {"$gt": 5, "$lt": 2}}, {"n": [1, 9]})  # by different elements


def test_a_missing_field_is_unequal_to_everything() -> None:
    assert not passes({"f": None}, {})
    assert not passes({"f": {"$in": [None, 1]}}, {})
    assert passes({"f": {"$ne": None}}, {})
    assert passes({"f": {"$nin": [1]}}, {})
    assert passes({"f": {"$exists": False}}, {})
    assert not passes({"f": {"$lt": 1}}, {})
    assert passes({"$not": {"f": {"$lt": 1}}}, {})


def test_none_counts_as_present() -> None:
    assert passes({"f": {"$exists": True}}, {"f": None})
    assert passes({"f": None}, {"f": None})
    assert passes({"f": {"$ne": 1}}, {"f": None})


def test_a_dotted_field_is_a_path_unless_the_key_itself_exists() -> None:
    assert passes({"a.b": 1}, {"a": {"b": 1}})
    assert passes({"a.b.c": 1}, {"a": {"b": {"c": 1}}})
    assert passes({"a.b": 2}, {"a": {"b": 1}, "a.b": 2})
    assert not passes({"a.b": 1}, {"a": {"b": 1}, "a.b": None})
    assert not passes({"a.b.c": 1}, {"a": {"b.c": 1}})
    assert not passes({"a.b": {"$exists": True}}, {"a": [{"b": 1}]})


def test_empty_lists_are_folded() -> None:
    assert normalize_negations(parse_filter({"a": {"$in": []}})) == Never()
    assert normalize_negations(parse_filter({"a": {"$nin": []}})) == Always()
    assert normalize_negations(parse_filter({"a": 1, "b": {"$nin": []}})) == Compare("a", "eq", 1)
    assert normalize_negations(parse_filter({"$or": [{"a": 1}, {"$not": {"b": {"$in": []}}}]})) == Always()
    assert normalize_negations(parse_filter({"$and": []})) == Always()
    assert normalize_negations(parse_filter({"$or": []})) == Never()


def test_not_is_pushed_down_to_the_operators_that_have_an_opposite() -> None:
    where: Filter = {"$not": {"$or": [{"a": 1}, {"b": {"$in": [1]}}, {"c": {"$exists": True}}, {"d": {"$lt": 1}}]}}
    assert normalize_negations(parse_filter(where)) == And(
        (Compare("a", "ne", 1), Compare("b", "nin", (1,)), Exists("c", False), Not(Compare("d", "lt", 1)))
    )


def has_only_low_nots(node: FilterNode) -> bool:
    match node:
        case Not(Compare(op=op)):
            return op in {"lt", "lte", "gt", "gte"}
        case And(parts) | Or(parts):
            inner = all(has_only_low_nots(part) and type(part) is not type(node) for part in parts)
            return inner and len(parts) > 1 and not any(isinstance(part, Always | Never) for part in parts)
        case Not():
            return False
        case _:
            return True


@given(dirty.filters(), dirty.metadata())
def test_pushing_not_down_preserves_the_meaning(where: Filter, metadata: dict[str, JSON]) -> None:
    node = parse_filter(where)
    pushed = normalize_negations(node)
    assert evaluate(pushed, metadata) == evaluate(node, metadata)
    assert has_only_low_nots(pushed)


@given(dirty.filters(), dirty.metadata())
def test_not_is_the_complement(where: Filter, metadata: dict[str, JSON]) -> None:
    assert passes({"$not": where}, metadata) != passes(where, metadata)
