"""Filter pushdown: a condition must match every document that the filter matches."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given, settings

from ragkit.records import JSON
from ragkit.store.base import Filter
from ragkit.store.filters.language import Compare, evaluate, parse_filter
from ragkit.store.filters.pushdown import (
    AllOf,
    AnyOf,
    Condition,
    FieldMatches,
    FieldMatchesNone,
    FieldPresent,
    FieldValue,
    Predicate,
    extract_field_values,
    join_sql,
    stored_field_name,
    to_condition,
)
from ragkit.testing import filter_strategies as dirty
from tests.scheduling import sampled

_ORDER = {
    "eq": lambda value, operand: value == operand,
    "gt": lambda value, operand: value > operand,
    "gte": lambda value, operand: value >= operand,
    "lt": lambda value, operand: value < operand,
    "lte": lambda value, operand: value <= operand,
}


def fact_matches(test: Predicate, fact: FieldValue) -> bool:
    return test.kind == fact.kind and (test.op == "any" or bool(_ORDER[test.op](fact.value, test.value)))


def condition_matches(condition: Condition, facts: list[FieldValue]) -> bool:
    """Evaluate a condition as a database does."""
    match condition:
        case FieldMatches(field, tests):
            own = [fact for fact in facts if fact.field == field]
            return any(fact.kind == "wild" or any(fact_matches(test, fact) for test in tests) for fact in own)
        case FieldMatchesNone(field, tests):
            return not any(fact_matches(test, fact) for fact in facts if fact.field == field for test in tests)
        case FieldPresent(field, expected):
            return any(fact.field == field for fact in facts) == expected
        case AllOf(parts):
            return all(condition_matches(part, facts) for part in parts)
        case AnyOf(parts):
            return any(condition_matches(part, facts) for part in parts)
        case _:
            return bool(condition)


@pytest.mark.sampled
@settings(max_examples=sampled(3000))
@given(dirty.metadata(), dirty.filters())
def test_the_condition_matches_every_document_that_the_filter_matches(metadata: dict[str, JSON], where: Filter) -> None:
    node, facts = parse_filter(where), extract_field_values(metadata)
    if evaluate(node, metadata):
        assert condition_matches(to_condition(node), facts)


@pytest.mark.sampled
@settings(max_examples=sampled(3000))
@given(dirty.metadata(), dirty.filters())
def test_for_ordinary_values_the_condition_equals_the_filter(metadata: dict[str, JSON], where: Filter) -> None:
    node, facts = parse_filter(where), extract_field_values(metadata)
    odd = str(2**53 + 1) in repr(where) or "\\x00" in repr(where)
    if not odd and not any(fact.kind == "wild" for fact in facts):
        assert condition_matches(to_condition(node), facts) == evaluate(node, metadata)


def test_every_filterable_field_has_facts() -> None:
    metadata: dict[str, JSON] = {"a": {"b": {"c": 1}, "x.y": 2}, "a.b": "literal", "n": None, "on": True, "e": []}
    assert set(extract_field_values(metadata)) == {
        FieldValue("a", "empty"),
        FieldValue("a.b", "string", "literal"),
        FieldValue("a.b.c", "number", 1.0),
        FieldValue("n", "null"),
        FieldValue("on", "bool", 1.0),
        FieldValue("e", "empty"),
    }


def test_each_distinct_list_element_is_one_fact() -> None:
    assert extract_field_values({"tags": ["a", 1, "a", 1.0, None, ["b"], {"c": 1}]}) == [
        FieldValue("tags", "string", "a"),
        FieldValue("tags", "number", 1.0),
        FieldValue("tags", "null"),
    ]


@pytest.mark.parametrize("value", [2**53 + 1, 10**400, "x" * 1001, "a\0b", "\ud800"])
def test_values_that_cannot_be_stored_exactly_are_wild(value: JSON) -> None:
    assert extract_field_values({"f": value}) == [FieldValue("f", "wild")]
    assert condition_matches(to_condition(Compare("f", "eq", cast("str", value))), [FieldValue("f", "wild")])
    assert condition_matches(to_condition(Compare("f", "ne", cast("str", value))), [FieldValue("f", "wild")])


def test_an_integer_beyond_float_is_above_every_number() -> None:
    above = to_condition(parse_filter({"n": {"$lt": 10**400}}))
    assert above == FieldMatches("n", (Predicate("number", "lte", 1.7976931348623157e308),))


@pytest.mark.parametrize("field", ["", "x" * 201, "#hash", "a\0b", "\udfff"])
def test_unusual_field_names_become_hashes(field: str) -> None:
    assert stored_field_name(field).startswith("#") and len(stored_field_name(field)) == 33


def test_plain_field_names_are_unchanged() -> None:
    assert stored_field_name("it's “odd”; --") == "it's “odd”; --"


def test_a_filter_that_matches_all_or_nothing_is_a_constant() -> None:
    assert to_condition(parse_filter({"a": {"$nin": []}})) is True
    assert to_condition(parse_filter({"a": {"$in": []}})) is False
    assert to_condition(parse_filter({"$or": [{"a": {"$ne": "x" * 2000}}, {"b": 1}]})) is True


def test_long_chains_are_joined_as_a_balanced_tree() -> None:
    assert join_sql(["a", "b", "c", "d"], "OR") == "((a OR b) OR (c OR d))"
    deep = join_sql(["x"] * 4096, "AND")
    assert len(deep) - len(deep.lstrip("(")) == 12
