"""The filter language: its syntax tree, and the reference evaluator that defines what each filter means.

Independent of any store. A store that translates filters must agree with `evaluate` on every document.

    {"lang": "en", "year": {"$gte": 2020, "$lt": 2025},
     "$or": [{"tag": {"$in": ["a", "b"]}}, {"tag": {"$exists": False}}]}

The truth table. Every filter is true or false for a document, never unknown; `$not` is the complement.

==================  ===========  =========================  ==========================  =============
the field           `$exists`    `$eq`, `$in`               `$ne`, `$nin`               `$gt` .. `$lte`
==================  ===========  =========================  ==========================  =============
is missing          false        false                      true                        false
is None             true         with None only             with all except None        false
is a bool           true         with that bool only        with all except that bool   false
is a number         true         with that number, by       with all except that        with numbers
                                 value: 2 equals 2.0        number
is a string         true         with that string           with all except that        with strings,
                                                            string                      by code point
is a list           true         if one element equals      if no element equals        if one element
                                                                                        matches
is a mapping        true         never                      always                      false
==================  ===========  =========================  ==========================  =============

`True` and `1` differ, and so do `1` and `"1"`. Elements of a list that are lists or mappings equal nothing.
A field "a.b" is the key "a.b" if the document has it, otherwise the key "b" of the mapping under "a".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from ragkit.errors import InvalidFilter, did_you_mean
from ragkit.records import JSON, Metadata

Scalar: TypeAlias = bool | int | float | str | None
"""A value that a field can be compared with; floats are finite."""

Operator: TypeAlias = Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]

MAX_DEPTH = 64
"""Maximum nesting depth of a filter."""

_NEGATED_OPERATORS: Mapping[Operator, Operator] = {"eq": "ne", "ne": "eq", "in": "nin", "nin": "in"}
_COMPARISONS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin")
_FIELD_OPERATORS = (*_COMPARISONS, "$exists", "$not")
_FILTER_OPERATORS = ("$and", "$or", "$not")


@dataclass(frozen=True, slots=True)
class Compare:
    """Compares a field with a value."""

    field: str
    op: Operator
    value: Scalar | tuple[Scalar, ...]
    """A tuple for `in` and `nin`; a string or a number for `gt`, `gte`, `lt` and `lte`."""


@dataclass(frozen=True, slots=True)
class Exists:
    """Whether a field exists, whatever its value."""

    field: str
    expected: bool = True


@dataclass(frozen=True, slots=True)
class And:
    """All parts match; without parts always true."""

    parts: tuple[FilterNode, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part matches; without parts never true."""

    parts: tuple[FilterNode, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not match."""

    part: FilterNode


@dataclass(frozen=True, slots=True)
class Always:
    """Matches every document."""


@dataclass(frozen=True, slots=True)
class Never:
    """Matches no document."""


FilterNode: TypeAlias = Compare | Exists | And | Or | Not | Always | Never
"""The syntax tree of a filter."""


def parse_filter(filter: Mapping[str, JSON] | None) -> FilterNode:
    """The syntax tree of a filter; None and an empty mapping match everything.

    Raises:
        InvalidFilter: an unknown operator, a value of the wrong type, or more than MAX_DEPTH levels.
    """
    return Always() if filter is None else _parse_mapping(filter, 0)


def _parse_mapping(filter: object, depth: int) -> FilterNode:
    if depth > MAX_DEPTH:
        raise InvalidFilter(f"filters may be nested up to {MAX_DEPTH} levels deep: flatten the filter")
    if not isinstance(filter, Mapping):
        raise InvalidFilter(f"a filter must be a mapping of fields to values (got {_describe_value(filter)})")
    parts = [_parse_entry(key, value, depth) for key, value in filter.items()]
    return _join_and(parts)


def _join_and(parts: list[FilterNode]) -> FilterNode:
    if not parts:
        return Always()
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _parse_entry(key: object, value: object, depth: int) -> FilterNode:
    if not isinstance(key, str):
        raise InvalidFilter(f"the keys of a filter must be field names (got {_describe_value(key)})")
    if not key.startswith("$"):
        return _parse_field(key, value, depth)
    if key == "$not":
        return Not(_parse_mapping(value, depth + 1))
    if key not in _FILTER_OPERATORS:
        raise InvalidFilter(_unknown_operator(key, _FILTER_OPERATORS, "in place of a field"))
    if not isinstance(value, list | tuple):
        raise InvalidFilter(f"{key} requires a list of filters (got {_describe_value(value)})")
    parts = tuple(_parse_mapping(part, depth + 1) for part in value)
    return And(parts) if key == "$and" else Or(parts)


def _parse_field(field: str, condition: object, depth: int) -> FilterNode:
    if not isinstance(condition, Mapping):
        if isinstance(condition, list | tuple):
            hint = 'use {"$in": [...]} or {"$nin": [...]}'
            raise InvalidFilter(f"field {field!r} cannot be compared with a list: {hint}")
        return Compare(field, "eq", _parse_scalar(field, "$eq", condition))
    if depth > MAX_DEPTH:
        raise InvalidFilter(f"filters may be nested up to {MAX_DEPTH} levels deep: flatten the filter")
    if not condition:
        raise InvalidFilter(f'field {field!r} has an empty condition: use {{"$exists": true}} or a comparison')
    return _join_and([_parse_operator(field, op, value, depth) for op, value in condition.items()])


def _parse_operator(field: str, op: object, value: object, depth: int) -> FilterNode:
    if op == "$exists":
        if not isinstance(value, bool):
            raise InvalidFilter(f"$exists on field {field!r} requires true or false (got {_describe_value(value)})")
        return Exists(field, value)
    if op == "$not":
        if not isinstance(value, Mapping):
            got = _describe_value(value)
            raise InvalidFilter(f'$not on field {field!r} requires a condition such as {{"$gt": 5}} (got {got})')
        return Not(_parse_field(field, value, depth + 1))
    if not isinstance(op, str) or op not in _COMPARISONS:
        raise InvalidFilter(_unknown_operator(op, _FIELD_OPERATORS, f"on field {field!r}"))
    name = cast("Operator", op.removeprefix("$"))
    if name in {"in", "nin"}:
        if not isinstance(value, list | tuple):
            raise InvalidFilter(f"{op} on field {field!r} requires a list of values (got {_describe_value(value)})")
        return Compare(field, name, tuple(_parse_scalar(field, op, item) for item in value))
    scalar = _parse_scalar(field, op, value)
    if name not in {"eq", "ne"} and (scalar is None or isinstance(scalar, bool)):
        raise InvalidFilter(f"{op} on field {field!r} requires a number or a string (got {_describe_value(value)})")
    return Compare(field, name, scalar)


def _parse_scalar(field: str, op: str, value: object) -> Scalar:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidFilter(f"{op} on field {field!r} requires finite numbers (got {value})")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    expected = "a string, a number, true, false or null"
    raise InvalidFilter(f"{op} on field {field!r} requires {expected} (got {_describe_value(value)})")


def _describe_value(value: object) -> str:
    if value is None:
        return "null"
    kind = {"dict": "mapping", "str": "string", "tuple": "list"}.get(type(value).__name__, type(value).__name__)
    text = repr(value)
    return f"the {kind} {text}" if len(text) <= 40 else f"a {kind}"


def _unknown_operator(operator: object, known: tuple[str, ...], where: str) -> str:
    hint = did_you_mean(f"${operator}".replace("$$", "$"), known, cutoff=0.5)
    return f"unknown operator {operator!r} {where}{hint}; available: {', '.join(known)}"


MISSING = object()
"""Result of `get_field` for a missing field; equals nothing."""


def get_field(metadata: Metadata, field: str) -> object:
    """The value of a field: of the literal key, otherwise of the dotted path; MISSING if there is neither."""
    if field in metadata:
        return metadata[field]
    value: object = metadata
    for part in field.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value


def evaluate(node: FilterNode, metadata: Metadata) -> bool:
    """Whether a document with this metadata matches the filter. The reference that all stores agree with."""
    match node:
        case Compare(field, op, value):
            return matches_value(op, value, get_field(metadata, field))
        case Exists(field, expected):
            return (get_field(metadata, field) is not MISSING) == expected
        case And(parts):
            return all(evaluate(part, metadata) for part in parts)
        case Or(parts):
            return any(evaluate(part, metadata) for part in parts)
        case Not(part):
            return not evaluate(part, metadata)
        case Always() | Never():
            return isinstance(node, Always)


def matches_value(op: Operator, operand: Scalar | tuple[Scalar, ...], value: object) -> bool:
    """Whether the value of a field (or MISSING) satisfies a comparison."""
    if op in {"ne", "nin"}:
        return not matches_value(_NEGATED_OPERATORS[op], operand, value)
    if op == "in":
        return any(matches_value("eq", item, value) for item in cast("tuple[Scalar, ...]", operand))
    if isinstance(value, list | tuple):
        return any(_matches_scalar(op, operand, element) for element in value)
    return _matches_scalar(op, operand, value)


def _matches_scalar(op: Operator, operand: object, value: object) -> bool:
    if op == "eq":
        return _type_name(value) == _type_name(operand) != "other" and value == operand
    if _type_name(value) == _type_name(operand) == "number":
        return _is_ordered(op, cast("float", value), cast("float", operand))
    if isinstance(value, str) and isinstance(operand, str):
        return _is_ordered(op, value, operand)
    return False


def _is_ordered(op: Operator, value: float | str, operand: float | str) -> bool:
    # both are strings or both are numbers
    left, right = cast("float", value), cast("float", operand)
    if op == "gt":
        return left > right
    if op == "gte":
        return left >= right
    return left < right if op == "lt" else left <= right


def _type_name(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "other"


def normalize_negations(node: FilterNode) -> FilterNode:
    """An equivalent filter in which `Not` is applied only to `gt`, `gte`, `lt` and `lte`.

    Those have no opposite: `not year < 2020` also matches documents without a year. Empty `in` and `nin`, `Always`
    and `Never` are folded away; `Always` and `Never` remain only as the whole filter.
    """
    return _normalize(node, False)


def _normalize(node: FilterNode, negated: bool) -> FilterNode:
    match node:
        case Not(part):
            return _normalize(part, not negated)
        case Exists(field, expected):
            return Exists(field, expected != negated)
        case Compare(field, op, value):
            return _normalize_compare(field, op, value, negated)
        case And(parts) | Or(parts):
            is_and = isinstance(node, And) != negated
            return _fold([_normalize(part, negated) for part in parts], is_and)
        case Always() | Never():
            return Always() if isinstance(node, Always) != negated else Never()


def _normalize_compare(field: str, op: Operator, value: Scalar | tuple[Scalar, ...], negated: bool) -> FilterNode:
    if op not in _NEGATED_OPERATORS:
        return Not(Compare(field, op, value)) if negated else Compare(field, op, value)
    if negated:
        op = _NEGATED_OPERATORS[op]
    if value == () and op in {"in", "nin"}:
        return Never() if op == "in" else Always()
    return Compare(field, op, value)


def _fold(parts: list[FilterNode], is_and: bool) -> FilterNode:
    """`And` or `Or` of normalized parts, without neutral parts and without `And` in `And` or `Or` in `Or`."""
    neutral, absorbing = (Always, Never) if is_and else (Never, Always)
    flat: list[FilterNode] = []
    for part in parts:
        if isinstance(part, absorbing):
            return part
        if isinstance(part, And if is_and else Or):
            flat.extend(part.parts)
        elif not isinstance(part, neutral):
            flat.append(part)
    if not flat:
        return neutral()
    if len(flat) == 1:
        return flat[0]
    return And(tuple(flat)) if is_and else Or(tuple(flat))
