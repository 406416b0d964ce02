"""The one filter language: its syntax tree, and the reference evaluator that says what each filter means.

Nothing here knows a store. A backend that translates filters must agree with `evaluate` on every document.

    {"lang": "en", "year": {"$gte": 2020, "$lt": 2025},
     "$or": [{"tag": {"$in": ["a", "b"]}}, {"tag": {"$exists": False}}]}

The truth table. Every filter is true or false of a document, never unknown; `$not` is the complement.

==================  ===========  =========================  ==========================  =============
the field           `$exists`    `$eq`, `$in`               `$ne`, `$nin`               `$gt` .. `$lte`
==================  ===========  =========================  ==========================  =============
is missing          false        false                      true                        false
is None             true         with None only             with all but None           false
is a bool           true         with that bool only        with all but that bool      false
is a number         true         with that number, by       with all but that number    with numbers
                                 value: 2 equals 2.0
is a string         true         with that string           with all but that string    with strings,
                                                                                        by code point
is a list           true         if one element equals      if no element equals        if one element
                                                                                        is in order
is a mapping        true         never                      always                      false
==================  ===========  =========================  ==========================  =============

`True` and `1` differ, and so do `1` and `"1"`. Elements of a list that are lists or mappings equal nothing.
A field "a.b" is the key "a.b" where the document has it, and else the key "b" of the mapping under "a".
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
"""How deep filters may be nested."""

_NEGATED_OPERATORS: Mapping[Operator, Operator] = {"eq": "ne", "ne": "eq", "in": "nin", "nin": "in"}
_COMPARISONS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin")
_FIELD_OPERATORS = (*_COMPARISONS, "$exists", "$not")
_FILTER_OPERATORS = ("$and", "$or", "$not")


@dataclass(frozen=True, slots=True)
class Compare:
    """A field compared with a value."""

    field: str
    op: Operator
    value: Scalar | tuple[Scalar, ...]
    """A tuple for `in` and `nin`; a string or a number for `gt`, `gte`, `lt` and `lte`."""


@dataclass(frozen=True, slots=True)
class Exists:
    """A field is there (whatever it holds), or is not."""

    field: str
    expected: bool = True


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold; without parts always true."""

    parts: tuple[FilterNode, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One part holds; without parts never true."""

    parts: tuple[FilterNode, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: FilterNode


@dataclass(frozen=True, slots=True)
class Always:
    """Lets every document through."""


@dataclass(frozen=True, slots=True)
class Never:
    """Lets no document through."""


FilterNode: TypeAlias = Compare | Exists | And | Or | Not | Always | Never
"""A filter's syntax tree."""


def parse_filter(filter: Mapping[str, JSON] | None) -> FilterNode:
    """The syntax tree of a filter; None and an empty one let everything through.

    Raises:
        InvalidFilter: an unknown operator, a value of the wrong type, or more than MAX_DEPTH levels.
    """
    return Always() if filter is None else _parse_mapping(filter, 0)


def _parse_mapping(filter: object, depth: int) -> FilterNode:
    if depth > MAX_DEPTH:
        raise InvalidFilter(f"a filter is nested more than {MAX_DEPTH} levels deep: flatten it")
    if not isinstance(filter, Mapping):
        raise InvalidFilter(f"a filter is a mapping of fields to values, not {_describe_value(filter)}")
    parts = [_parse_entry(key, value, depth) for key, value in filter.items()]
    return _join_and(parts)


def _join_and(parts: list[FilterNode]) -> FilterNode:
    if not parts:
        return Always()
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _parse_entry(key: object, value: object, depth: int) -> FilterNode:
    if not isinstance(key, str):
        raise InvalidFilter(f"a filter's keys are names of fields, not {_describe_value(key)}")
    if not key.startswith("$"):
        return _parse_field(key, value, depth)
    if key == "$not":
        return Not(_parse_mapping(value, depth + 1))
    if key not in _FILTER_OPERATORS:
        raise InvalidFilter(_unknown_operator(key, _FILTER_OPERATORS, "at the place of a field"))
    if not isinstance(value, list | tuple):
        raise InvalidFilter(f"{key} takes a list of filters, not {_describe_value(value)}")
    parts = tuple(_parse_mapping(part, depth + 1) for part in value)
    return And(parts) if key == "$and" else Or(parts)


def _parse_field(field: str, condition: object, depth: int) -> FilterNode:
    if not isinstance(condition, Mapping):
        if isinstance(condition, list | tuple):
            raise InvalidFilter(f'field {field!r} is compared with a list: write {{"$in": [...]}} or {{"$nin": [...]}}')
        return Compare(field, "eq", _parse_scalar(field, "$eq", condition))
    if depth > MAX_DEPTH:
        raise InvalidFilter(f"a filter is nested more than {MAX_DEPTH} levels deep: flatten it")
    if not condition:
        raise InvalidFilter(f'field {field!r} has an empty condition: write {{"$exists": true}} or a comparison')
    return _join_and([_parse_operator(field, op, value, depth) for op, value in condition.items()])


def _parse_operator(field: str, op: object, value: object, depth: int) -> FilterNode:
    if op == "$exists":
        if not isinstance(value, bool):
            raise InvalidFilter(f"$exists on field {field!r} takes true or false, not {_describe_value(value)}")
        return Exists(field, value)
    if op == "$not":
        if not isinstance(value, Mapping):
            raise InvalidFilter(
                f'$not on field {field!r} takes a condition such as {{"$gt": 5}}, not {_describe_value(value)}'
            )
        return Not(_parse_field(field, value, depth + 1))
    if not isinstance(op, str) or op not in _COMPARISONS:
        raise InvalidFilter(_unknown_operator(op, _FIELD_OPERATORS, f"on field {field!r}"))
    name = cast("Operator", op.removeprefix("$"))
    if name in {"in", "nin"}:
        if not isinstance(value, list | tuple):
            raise InvalidFilter(f"{op} on field {field!r} takes a list of values, not {_describe_value(value)}")
        return Compare(field, name, tuple(_parse_scalar(field, op, each) for each in value))
    scalar = _parse_scalar(field, op, value)
    if name not in {"eq", "ne"} and (scalar is None or isinstance(scalar, bool)):
        raise InvalidFilter(f"{op} on field {field!r} takes a number or a string, not {_describe_value(value)}")
    return Compare(field, name, scalar)


def _parse_scalar(field: str, op: str, value: object) -> Scalar:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidFilter(f"{op} on field {field!r} takes finite numbers, not {value}")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidFilter(
        f"{op} on field {field!r} takes a string, a number, true, false or null, not {_describe_value(value)}"
    )


def _describe_value(value: object) -> str:
    if value is None:
        return "null"
    word = {"dict": "mapping", "str": "string", "tuple": "list"}.get(type(value).__name__, type(value).__name__)
    shown = repr(value)
    return f"the {word} {shown}" if len(shown) <= 40 else f"a {word}"


def _unknown_operator(met: object, known: tuple[str, ...], where: str) -> str:
    hint = did_you_mean(f"${met}".replace("$$", "$"), known, cutoff=0.5)
    return f"{met!r} is not an operator {where}{hint}; known: {', '.join(known)}"


MISSING = object()
"""What `get_field` answers when a document lacks a field; nothing equals it."""


def get_field(metadata: Metadata, field: str) -> object:
    """What a document holds under a field: the key itself, else the dotted path; MISSING where there is neither."""
    if field in metadata:
        return metadata[field]
    value: object = metadata
    for part in field.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value


def evaluate(node: FilterNode, metadata: Metadata) -> bool:
    """Whether the filter lets a document with this metadata through. What it says is the meaning of the filter."""
    match node:
        case Compare(field, op, value):
            return matches_value(op, value, get_field(metadata, field))
        case Exists(field, wanted):
            return (get_field(metadata, field) is not MISSING) == wanted
        case And(parts):
            return all(evaluate(part, metadata) for part in parts)
        case Or(parts):
            return any(evaluate(part, metadata) for part in parts)
        case Not(part):
            return not evaluate(part, metadata)
        case Always() | Never():
            return isinstance(node, Always)


def matches_value(op: Operator, wanted: Scalar | tuple[Scalar, ...], met: object) -> bool:
    """Whether a comparison is true of what a field holds (MISSING where it is not there)."""
    if op in {"ne", "nin"}:
        return not matches_value(_NEGATED_OPERATORS[op], wanted, met)
    if op == "in":
        return any(matches_value("eq", each, met) for each in cast("tuple[Scalar, ...]", wanted))
    if isinstance(met, list | tuple):
        return any(_matches_one(op, wanted, element) for element in met)
    return _matches_one(op, wanted, met)


def _matches_one(op: Operator, wanted: object, met: object) -> bool:
    if op == "eq":
        return _type_name(met) == _type_name(wanted) != "other" and met == wanted
    if _type_name(met) == _type_name(wanted) == "number":
        return _is_ordered(op, cast("float", met), cast("float", wanted))
    if isinstance(met, str) and isinstance(wanted, str):
        return _is_ordered(op, met, wanted)
    return False


def _is_ordered(op: Operator, met: float | str, wanted: float | str) -> bool:
    # both are strings or both are numbers: the callers see to it
    left, right = cast("float", met), cast("float", wanted)
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
    """An equal filter in which `Not` stands only right above `gt`, `gte`, `lt` and `lte`.

    Those have no opposite: `not year < 2020` also holds where there is no year. Empty `in` and `nin`, `Always`
    and `Never` are folded away too, so that no backend meets them except as the whole filter.
    """
    return _normalize(node, False)


def _normalize(node: FilterNode, negated: bool) -> FilterNode:
    match node:
        case Not(part):
            return _normalize(part, not negated)
        case Exists(field, wanted):
            return Exists(field, wanted != negated)
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
    """`And` or `Or` of parts that are folded already, without neutral parts and without nesting of one kind."""
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


def filter_fields(node: FilterNode) -> frozenset[str]:
    """The fields that a filter looks at."""
    match node:
        case Compare(field=field) | Exists(field=field):
            return frozenset({field})
        case And(parts) | Or(parts):
            return frozenset[str]().union(*(filter_fields(part) for part in parts))
        case Not(part):
            return filter_fields(part)
        case Always() | Never():
            return frozenset()
