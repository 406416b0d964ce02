"""Metadata as flat facts, and filters as conditions on facts: what databases that know no nested JSON can answer.

A condition lets through every document that the filter lets through, and at times a few more: a database takes it as
a first sieve, and `filters.evaluate` has the last word on what comes out of it (`portable.complete`).

Nothing here knows a database. Each renders the same few conditions in its own words.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, TypeAlias, cast

from ragkit.records import Metadata
from ragkit.store.filters.flatten import flatten_metadata
from ragkit.store.filters.language import (
    And,
    Compare,
    Exists,
    FilterNode,
    Never,
    Not,
    Operator,
    Or,
    Scalar,
    normalize_negations,
)

ValueKind: TypeAlias = Literal["null", "bool", "number", "string", "empty", "wild"]
"""What a fact speaks of. `empty`: there is nothing to compare with, as in a mapping or a list without scalars.
`wild`: a number or a string that is not kept exactly; it may pass any test."""

StoredScalar: TypeAlias = str | float | None

MAX_STRING_CHARACTERS = 1_000
"""Longer strings are not kept as facts, nor are those that databases choke on."""
MAX_FIELD_NAME_CHARACTERS = 200
"""Longer names of fields are kept as a hash."""


@dataclass(frozen=True, slots=True)
class FieldValue:
    """One thing that is so of a document: a field holds this value, or an element of its list does."""

    field: str
    """As `stored_field_name` writes it."""
    kind: ValueKind
    value: StoredScalar = None
    """The number (of a bool: 1.0 or 0.0) or the string; None for the other kinds."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """What a fact of this kind can be held against."""

    __test__ = False  # no test of pytest's

    kind: ValueKind
    op: Literal["any", "eq", "gt", "gte", "lt", "lte"]
    value: StoredScalar = None


@dataclass(frozen=True, slots=True)
class FieldMatches:
    """A fact of the field passes one of the tests, or is wild."""

    field: str
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class FieldMatchesNone:
    """No fact of the field passes any of the tests; wild ones do not count."""

    field: str
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class FieldPresent:
    """The field has a fact, or has none."""

    field: str
    expected: bool


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part is so; there are at least two."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One part is so; there are at least two."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = FieldMatches | FieldMatchesNone | FieldPresent | AllOf | AnyOf | bool
"""True lets everything through, False nothing; both stand for the whole condition only."""


def stored_field_name(field: str) -> str:
    """The field as databases take it: itself, or a hash where it is empty, long, or holds odd characters.

    No two fields share a name, but for a chance of 2**-128.
    """
    if 0 < len(field) <= MAX_FIELD_NAME_CHARACTERS and not field.startswith("#") and _is_clean(field):
        return field
    return "#" + blake2b(field.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def extract_field_values(metadata: Metadata) -> list[FieldValue]:
    """All that is so of a document, for every field that a filter can name. No fact is given twice."""
    facts: dict[FieldValue, None] = {}
    for field, values in flatten_metadata(metadata).items():
        name = stored_field_name(field)
        facts.update((_to_field_value(name, value), None) for value in values)
        if not values:
            facts[FieldValue(name, "empty")] = None
    return list(facts)


def _to_field_value(name: str, value: Scalar) -> FieldValue:
    if value is None:
        return FieldValue(name, "null")
    if isinstance(value, bool):
        return FieldValue(name, "bool", float(value))
    if isinstance(value, int | float):
        number, exact = _to_float(value)
        return FieldValue(name, "number", number) if exact else FieldValue(name, "wild")
    return FieldValue(name, "string", value) if _is_storable(value) else FieldValue(name, "wild")


def to_condition(node: FilterNode) -> Condition:
    """A condition that holds wherever the filter does."""
    return _convert(normalize_negations(node))


def _convert(node: FilterNode) -> Condition:
    match node:
        case Compare(field, op, value):
            if op in {"ne", "nin"}:
                return _matches_none(field, "eq", value if isinstance(value, tuple) else (value,))
            same = "eq" if op == "in" else op
            tests = (_loose_predicate(same, each) for each in (value if isinstance(value, tuple) else (value,)))
            return FieldMatches(stored_field_name(field), tuple(test for test in tests if test))
        case Not(Compare(field, op, value)):
            return _matches_none(field, op, value if isinstance(value, tuple) else (value,))
        case Exists(field, wanted):
            return FieldPresent(stored_field_name(field), wanted)
        case And(parts) | Or(parts):
            return _combine([_convert(part) for part in parts], is_all=isinstance(node, And))
        case _:
            return not isinstance(node, Never)


def _matches_none(field: str, op: Operator, values: tuple[Scalar, ...]) -> Condition:
    tests = tuple(test for test in (_strict_predicate(op, each) for each in values) if test)
    return FieldMatchesNone(stored_field_name(field), tests) if tests else True


def _combine(parts: list[Condition], *, is_all: bool) -> Condition:
    """`AllOf` or `AnyOf` of the parts, none of which is False: `normalize_negations` has seen to that."""
    kept = tuple(part for part in parts if part is not True)
    if not kept or (not is_all and len(kept) < len(parts)):
        return True
    if len(kept) == 1:
        return kept[0]
    return AllOf(kept) if is_all else AnyOf(kept)


def count_leaves(condition: Condition, *, with_tests: bool = False) -> int:
    """How many looks at the facts of a field a condition takes; `with_tests` counts each test as one more."""
    match condition:
        case FieldMatches(_, tests) | FieldMatchesNone(_, tests):
            return 1 + len(tests) * with_tests
        case AllOf(parts) | AnyOf(parts):
            return sum(count_leaves(part, with_tests=with_tests) for part in parts)
        case _:
            return 1


def _loose_predicate(op: Operator, wanted: Scalar) -> Predicate | None:
    """A test that every fact passes of which the comparison is true; None where no exact fact can be."""
    if wanted is None:
        return Predicate("null", "any")
    if isinstance(wanted, bool):
        return Predicate("bool", "eq", float(wanted))
    if isinstance(wanted, int | float):
        number, exact = _to_float(wanted)
        if exact:
            return Predicate("number", _narrow_op(op), number)
        # rounding keeps the order, but may make numbers equal that are not
        return None if op == "eq" else Predicate("number", "gte" if op in {"gt", "gte"} else "lte", number)
    if _is_storable(wanted):
        return Predicate("string", _narrow_op(op), wanted)
    return None if op == "eq" else Predicate("string", "any")


def _strict_predicate(op: Operator, wanted: Scalar) -> Predicate | None:
    """A test that no fact passes of which the comparison is false; None where there is no such test."""
    if isinstance(wanted, int | float) and not isinstance(wanted, bool):
        number, exact = _to_float(wanted)
        if not exact:
            return None if op == "eq" else Predicate("number", "gt" if op in {"gt", "gte"} else "lt", number)
    if isinstance(wanted, str) and not _is_storable(wanted):
        return None
    return _loose_predicate(op, wanted)


def _narrow_op(op: Operator) -> Literal["eq", "gt", "gte", "lt", "lte"]:
    return cast('Literal["eq", "gt", "gte", "lt", "lte"]', op)


def _to_float(value: float) -> tuple[float, bool]:
    """The nearest float, and whether it is the number itself."""
    try:
        number = float(value) + 0.0  # -0.0 becomes 0.0, which it equals
    except OverflowError:
        return (sys.float_info.max if value > 0 else -sys.float_info.max), False
    return number, number == value


def _is_storable(text: str) -> bool:
    return len(text) <= MAX_STRING_CHARACTERS and _is_clean(text)


def _is_clean(text: str) -> bool:
    """Whether every database takes it: no NUL, no lone surrogates."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def join_sql(parts: Sequence[str], word: str) -> str:
    """Conditions of SQL under AND or OR, as a balanced tree: engines count how deep expressions are nested.

    A chain of 1,000 is too deep for DuckDB, and a chain of some thousands overflows DataFusion's stack.
    """
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return f"({join_sql(parts[:half], word)} {word} {join_sql(parts[half:], word)})"
