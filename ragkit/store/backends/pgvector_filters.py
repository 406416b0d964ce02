"""Filters as PostgreSQL conditions over the column `search`: `{field: [scalars]}`, as `portable.flat` gives it.

Everything of the filter language can be said, so nothing is left for a second look. Fields and values are bound
as parameters; the SQL itself holds no character of the filter.
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

SqlCondition: TypeAlias = tuple[str, list[object]]
"""SQL with %s for each of the values."""

_SQL_OPERATORS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def encode_search_column(fields: FlatMetadata) -> str:
    """The value of the column `search`."""
    return json.dumps({escape_text(name): [_encode_scalar(each) for each in values] for name, values in fields.items()})


def to_jsonb_sql(node: FilterNode) -> SqlCondition:
    """What PostgreSQL says of a row exactly where `filters.evaluate` says it of the document."""
    return _render(normalize_negations(node))


def _render(node: FilterNode) -> SqlCondition:
    match node:
        case Compare(field, op, value):
            return _render_compare(field, op, value)
        case Exists(field, wanted):
            # the function, as its operator is the placeholder of other drivers
            return f"{'' if wanted else 'NOT '}jsonb_exists(search, %s)", [escape_text(field)]
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
    if op in _SQL_OPERATORS:
        # two-valued: a field that is missing or holds something else is out of order
        path = f"$[*] ? (@ {_SQL_OPERATORS[op]} $v)"
        vars_ = json.dumps({"v": _encode_scalar(cast("Scalar", value))})
        return "coalesce(jsonb_path_exists(search -> %s, %s::jsonpath, %s::jsonb), FALSE)", [
            escape_text(field),
            path,
            vars_,
        ]
    wanted = value if isinstance(value, tuple) else (value,)
    # containment is typed and any-match, takes numbers by value, and is false where the field is missing
    sql = " OR ".join(["search @> %s::jsonb"] * len(wanted))
    values: list[object] = [json.dumps({escape_text(field): [_encode_scalar(each)]}) for each in wanted]
    return (f"NOT ({sql})" if op in {"ne", "nin"} else sql), values


def _encode_scalar(value: Scalar) -> Scalar:
    if isinstance(value, str):
        return escape_text(value)
    return normalize_number(value) if isinstance(value, float) else value
