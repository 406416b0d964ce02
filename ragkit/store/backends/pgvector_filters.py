"""Filters as PostgreSQL conditions on the column `search`: `{field: [scalars]}`, the result of `flatten_metadata`.

The conditions express the whole filter language. Fields and values are parameters, never part of the SQL.
"""

from __future__ import annotations

import json
from typing import TypeAlias, cast

from ragkit.store.backends.adapter_utils import escape_text, normalize_number
from ragkit.store.filters.flatten import FlatMetadata
from ragkit.store.filters.language import (
    Always,
    And,
    Compare,
    Exists,
    FilterNode,
    Never,
    Not,
    Or,
    Scalar,
    normalize_negations,
)
from ragkit.store.filters.pushdown import SQL_OPERATORS

SqlCondition: TypeAlias = tuple[str, list[object]]
"""SQL with %s for each value, and the values."""


def encode_search_column(fields: FlatMetadata) -> str:
    """The value of the column `search`."""
    return json.dumps({escape_text(name): [_encode_scalar(item) for item in values] for name, values in fields.items()})


def to_jsonb_sql(node: FilterNode) -> SqlCondition:
    """A condition that is true for a row exactly if `language.evaluate` is true for the document."""
    return _render(normalize_negations(node))


def _render(node: FilterNode) -> SqlCondition:
    match node:
        case Compare(field, op, value):
            return _render_compare(field, op, value)
        case Exists(field, expected):
            # the function behind the operator `?`, which is a placeholder in other drivers
            return f"{'' if expected else 'NOT '}jsonb_exists(search, %s)", [escape_text(field)]
        case And(parts) | Or(parts):
            inner = [_render(part) for part in parts]
            joined = (" AND " if isinstance(node, And) else " OR ").join(f"({sql})" for sql, _ in inner)
            return joined, [value for _, values in inner for value in values]
        case Not(part):
            sql, values = _render(part)
            return f"NOT ({sql})", values
        case Always() | Never():
            return ("TRUE" if isinstance(node, Always) else "FALSE"), []


def _render_compare(field: str, op: str, value: Scalar | tuple[Scalar, ...]) -> SqlCondition:
    if op in SQL_OPERATORS:
        # false, not null, if the field is missing or has another type
        path = f"$[*] ? (@ {SQL_OPERATORS[op]} $v)"
        variables = json.dumps({"v": _encode_scalar(cast("Scalar", value))})
        condition = "coalesce(jsonb_path_exists(search -> %s, %s::jsonpath, %s::jsonb), FALSE)"
        return condition, [escape_text(field), path, variables]
    operands = value if isinstance(value, tuple) else (value,)
    # containment distinguishes types, matches any element, compares numbers by value, and is false for a missing field
    sql = " OR ".join(["search @> %s::jsonb"] * len(operands))
    values: list[object] = [json.dumps({escape_text(field): [_encode_scalar(item)]}) for item in operands]
    return (f"NOT ({sql})" if op in {"ne", "nin"} else sql), values


def _encode_scalar(value: Scalar) -> Scalar:
    if isinstance(value, str):
        return escape_text(value)
    return normalize_number(value) if isinstance(value, float) else value
