"""Facts as lists of short strings and of numbers, for engines whose filters know little else.

Nothing here knows an engine. What cannot be said with tokens and ranges of numbers lets a few documents more through,
as `pushdown` allows: strings have no order here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import blake2b

from ragkit.records import Metadata
from ragkit.store.filters.pushdown import (
    FieldMatches,
    FieldMatchesNone,
    FieldPresent,
    FieldValue,
    Predicate,
    extract_field_values,
)

_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")
WILDCARD_TOKEN = "#wild"  # noqa: S105 - a field of a filter, no password
"""The token of a fact that may pass any test."""


@dataclass
class TokenColumn:
    """What a document holds under one field."""

    tokens: list[str] = field(default_factory=list)
    """`#kind` for each kind of value there is, and one for each value; never empty."""
    numbers: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NumberRange:
    """A number of the field is greater or less than this one."""

    op: str
    """gt, gte, lt or lte."""
    value: float


@dataclass(frozen=True, slots=True)
class ColumnFilter:
    """What is asked of one column: one of the tokens is there, or a number is in one of the ranges."""

    name: str
    tokens: tuple[str, ...]
    ranges: tuple[NumberRange, ...]


def column_name(field_name: str) -> str:
    """A name of letters, digits and `_` for a field: itself where it is one, else a hash."""
    if _PLAIN_NAME.fullmatch(field_name):
        return f"f_{field_name}"
    return "h_" + blake2b(field_name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def to_token_columns(metadata: Metadata) -> dict[str, TokenColumn]:
    """Name of the column -> what stands in it, for every field that a filter can name."""
    columns: dict[str, TokenColumn] = {}
    for fact in extract_field_values(metadata):
        column = columns.setdefault(column_name(fact.field), TokenColumn())
        column.tokens += [token for token in _field_value_tokens(fact) if token not in column.tokens[:8]]
        if fact.kind == "number":
            column.numbers.append(float(fact.value or 0))
    return columns


def to_column_filter(condition: FieldMatches | FieldMatchesNone | FieldPresent) -> ColumnFilter:
    """The tokens and ranges that a condition asks for; `FieldMatchesNone` is to be read as none of them."""
    tokens: list[str] = []
    ranges: list[NumberRange] = []
    if isinstance(condition, FieldPresent):
        return ColumnFilter(column_name(condition.field), (), ())
    for test in condition.predicates:
        if test.op in {"any", "eq"}:
            tokens.append(_kind_token(test) if test.op == "any" else _value_token(test))
        elif test.kind == "number":
            ranges.append(NumberRange(test.op, float(test.value or 0)))
        elif isinstance(condition, FieldMatches):
            tokens.append(_kind_token(test))
    if isinstance(condition, FieldMatches):
        tokens.append(WILDCARD_TOKEN)
    return ColumnFilter(column_name(condition.field), tuple(tokens), tuple(ranges))


def _field_value_tokens(fact: FieldValue) -> tuple[str, ...]:
    return (_kind_token(fact),) if fact.value is None else (_kind_token(fact), _value_token(fact))


def _kind_token(of: FieldValue | Predicate) -> str:
    return f"#{of.kind}"


def _value_token(of: FieldValue | Predicate) -> str:
    if isinstance(of.value, str):
        return f"={of.value}"
    return f"{of.kind}:{of.value!r}"
