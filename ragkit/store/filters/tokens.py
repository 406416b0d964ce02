"""Field values as tokens and numbers, for engines that can only filter on those.

Independent of any engine. What tokens and number ranges cannot express, such as ranges of strings, matches a few more
documents, as `pushdown` allows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ragkit.records import Metadata
from ragkit.store.filters.pushdown import (
    FieldMatches,
    FieldMatchesNone,
    FieldPresent,
    FieldValue,
    Predicate,
    extract_field_values,
    hash_name,
)

_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")
WILDCARD = "#wild"
"""The token of a value that may satisfy any predicate."""


@dataclass
class TokenColumn:
    """The values of a document's field."""

    tokens: list[str] = field(default_factory=list)
    """`#kind` for each kind of value, and one token for each value; never empty."""
    numbers: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Matches a number of the field that is greater or less than `value`."""

    op: str
    """gt, gte, lt or lte."""
    value: float


@dataclass(frozen=True, slots=True)
class ColumnFilter:
    """Matches a column that contains one of the tokens, or a number in one of the ranges."""

    name: str
    tokens: tuple[str, ...]
    ranges: tuple[NumberRange, ...]


def column_name(field_name: str) -> str:
    """A column name of letters, digits and `_`: `f_` and the field if it has that form, otherwise `h_` and its hash."""
    if _PLAIN_NAME.fullmatch(field_name):
        return f"f_{field_name}"
    return f"h_{hash_name(field_name)}"


def to_token_columns(metadata: Metadata) -> dict[str, TokenColumn]:
    """Column name -> column, for every field that a filter can name."""
    columns: dict[str, TokenColumn] = {}
    for value in extract_field_values(metadata):
        column = columns.setdefault(column_name(value.field), TokenColumn())
        tokens = [_kind_token(value)] if value.value is None else [_kind_token(value), _value_token(value)]
        column.tokens += [token for token in tokens if token not in column.tokens[:8]]
        if value.kind == "number":
            column.numbers.append(float(value.value or 0))
    return columns


def to_column_filter(condition: FieldMatches | FieldMatchesNone | FieldPresent) -> ColumnFilter:
    """The tokens and ranges of a condition; for `FieldMatchesNone`, none of them may match."""
    tokens: list[str] = []
    ranges: list[NumberRange] = []
    if isinstance(condition, FieldPresent):
        return ColumnFilter(column_name(condition.field), (), ())
    for predicate in condition.predicates:
        if predicate.op in {"any", "eq"}:
            tokens.append(_kind_token(predicate) if predicate.op == "any" else _value_token(predicate))
        elif predicate.kind == "number":
            ranges.append(NumberRange(predicate.op, float(predicate.value or 0)))
        elif isinstance(condition, FieldMatches):
            tokens.append(_kind_token(predicate))
    if isinstance(condition, FieldMatches):
        tokens.append(WILDCARD)
    return ColumnFilter(column_name(condition.field), tuple(tokens), tuple(ranges))


def _kind_token(source: FieldValue | Predicate) -> str:
    return f"#{source.kind}"


def _value_token(source: FieldValue | Predicate) -> str:
    if isinstance(source.value, str):
        return f"={source.value}"
    return f"{source.kind}:{source.value!r}"
