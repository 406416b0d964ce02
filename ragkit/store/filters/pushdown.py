"""Filters as conditions on flat field values, for databases without nested JSON.

A condition matches every document that the filter matches, and sometimes a few more: the database pre-filters with
the condition, and `language.evaluate` decides on its results (`adapter_utils.collect_top_k`).

Independent of any database. Each adapter renders the conditions in the syntax of its engine.
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
"""The kind of a field value. `empty`: nothing to compare with, as in a mapping or a list without scalars.
`wild`: a number or a string that is not stored exactly; it may satisfy any predicate."""

StoredScalar: TypeAlias = str | float | None

MAX_STRING_CHARACTERS = 1_000
"""Longer strings are stored as `wild`, as are strings that some databases reject."""
MAX_FIELD_NAME_CHARACTERS = 200
"""Longer field names are stored as a hash."""

SQL_OPERATORS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
NEGATED_RANGE_OPERATORS = {"gt": "lte", "gte": "lt", "lt": "gte", "lte": "gt"}


@dataclass(frozen=True, slots=True)
class FieldValue:
    """The value of a field, or one element of its list."""

    field: str
    """The result of `stored_field_name`."""
    kind: ValueKind
    value: StoredScalar = None
    """The number (of a bool: 1.0 or 0.0) or the string; None for the other kinds."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A comparison with the field values of one kind."""

    kind: ValueKind
    op: Literal["any", "eq", "gt", "gte", "lt", "lte"]
    value: StoredScalar = None


@dataclass(frozen=True, slots=True)
class FieldMatches:
    """A value of the field satisfies one of the predicates, or is wild."""

    field: str
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class FieldMatchesNone:
    """No value of the field satisfies any of the predicates; wild values do not count."""

    field: str
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class FieldPresent:
    """Whether the field has a value."""

    field: str
    expected: bool


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part matches; there are at least two."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part matches; there are at least two."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = FieldMatches | FieldMatchesNone | FieldPresent | AllOf | AnyOf | bool
"""True matches everything, False nothing; both occur only as the whole condition."""


def stored_field_name(field: str) -> str:
    """A field name that every database accepts: the field, or its hash if it is empty, long or not clean text.

    Two fields share a name with a probability of 2**-128.
    """
    if 0 < len(field) <= MAX_FIELD_NAME_CHARACTERS and not field.startswith("#") and _is_clean(field):
        return field
    return f"#{hash_name(field)}"


def hash_name(name: str) -> str:
    """A hash of any text: 32 hex digits."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def extract_field_values(metadata: Metadata) -> list[FieldValue]:
    """The distinct values of every field that a filter can name."""
    field_values: dict[FieldValue, None] = {}
    for field, values in flatten_metadata(metadata).items():
        name = stored_field_name(field)
        field_values.update((_to_field_value(name, value), None) for value in values)
        if not values:
            field_values[FieldValue(name, "empty")] = None
    return list(field_values)


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
    """A condition that matches every document that the filter matches."""
    return _convert(normalize_negations(node))


def _convert(node: FilterNode) -> Condition:
    match node:
        case Compare(field, op, value):
            if op in {"ne", "nin"}:
                return _matches_none(field, "eq", value if isinstance(value, tuple) else (value,))
            same = "eq" if op == "in" else op
            predicates = (_loose_predicate(same, item) for item in (value if isinstance(value, tuple) else (value,)))
            return FieldMatches(stored_field_name(field), tuple(predicate for predicate in predicates if predicate))
        case Not(Compare(field, op, value)):
            return _matches_none(field, op, value if isinstance(value, tuple) else (value,))
        case Exists(field, expected):
            return FieldPresent(stored_field_name(field), expected)
        case And(parts) | Or(parts):
            return _combine([_convert(part) for part in parts], is_all=isinstance(node, And))
        case _:
            return not isinstance(node, Never)


def _matches_none(field: str, op: Operator, values: tuple[Scalar, ...]) -> Condition:
    predicates = tuple(predicate for value in values if (predicate := _strict_predicate(op, value)))
    return FieldMatchesNone(stored_field_name(field), predicates) if predicates else True


def _combine(parts: list[Condition], *, is_all: bool) -> Condition:
    """`AllOf` or `AnyOf` of the parts, none of which is False after `normalize_negations`."""
    kept = tuple(part for part in parts if part is not True)
    if not kept or (not is_all and len(kept) < len(parts)):
        return True
    if len(kept) == 1:
        return kept[0]
    return AllOf(kept) if is_all else AnyOf(kept)


def count_leaves(condition: Condition, *, with_predicates: bool = False) -> int:
    """The number of leaves of a condition; with `with_predicates`, each predicate of a leaf counts too."""
    match condition:
        case FieldMatches(_, predicates) | FieldMatchesNone(_, predicates):
            return 1 + len(predicates) * with_predicates
        case AllOf(parts) | AnyOf(parts):
            return sum(count_leaves(part, with_predicates=with_predicates) for part in parts)
        case _:
            return 1


def _loose_predicate(op: Operator, operand: Scalar) -> Predicate | None:
    """A predicate that holds for every value that the comparison holds for; None if only wild values can match."""
    if operand is None:
        return Predicate("null", "any")
    if isinstance(operand, bool):
        return Predicate("bool", "eq", float(operand))
    if isinstance(operand, int | float):
        number, exact = _to_float(operand)
        if exact:
            return Predicate("number", _narrow_op(op), number)
        # rounding keeps the order, but may make different numbers equal
        return None if op == "eq" else Predicate("number", "gte" if op in {"gt", "gte"} else "lte", number)
    if _is_storable(operand):
        return Predicate("string", _narrow_op(op), operand)
    return None if op == "eq" else Predicate("string", "any")


def _strict_predicate(op: Operator, operand: Scalar) -> Predicate | None:
    """A predicate that holds only for values that the comparison holds for; None if there is none."""
    if isinstance(operand, int | float) and not isinstance(operand, bool):
        number, exact = _to_float(operand)
        if not exact:
            return None if op == "eq" else Predicate("number", "gt" if op in {"gt", "gte"} else "lt", number)
    if isinstance(operand, str) and not _is_storable(operand):
        return None
    return _loose_predicate(op, operand)


def _narrow_op(op: Operator) -> Literal["eq", "gt", "gte", "lt", "lte"]:
    return cast('Literal["eq", "gt", "gte", "lt", "lte"]', op)


def _to_float(value: float) -> tuple[float, bool]:
    """The nearest float, and whether it equals the number."""
    try:
        number = float(value) + 0.0  # turns -0.0 into 0.0
    except OverflowError:
        return (sys.float_info.max if value > 0 else -sys.float_info.max), False
    return number, number == value


def _is_storable(text: str) -> bool:
    return len(text) <= MAX_STRING_CHARACTERS and _is_clean(text)


def _is_clean(text: str) -> bool:
    """Whether every database accepts the text: no NUL, no lone surrogates."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def join_sql(parts: Sequence[str], operator: str) -> str:
    """SQL conditions joined by AND or OR as a balanced tree, because engines limit the nesting of expressions.

    A chain of 1,000 is too deep for DuckDB, and a chain of a few thousand overflows DataFusion's stack.
    """
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return f"({join_sql(parts[:half], operator)} {operator} {join_sql(parts[half:], operator)})"
