"""Filters as PostgreSQL conditions over the column `search`: `{field: [scalars]}`, as `portable.flat` gives it.

Everything of the filter language can be said, so nothing is left for a second look. Fields and values are bound
as parameters; the SQL itself holds no character of the filter.
"""

from __future__ import annotations

import json
from typing import TypeAlias, cast

from ragkit.store.filters import Always, And, Compare, Exists, Never, Node, Not, Or, Scalar, push_not_down
from ragkit.store.portable import Flat, plain_number, storable

Condition: TypeAlias = tuple[str, list[object]]
"""SQL with %s for each of the values."""

_ORDER = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def search_json(fields: Flat) -> str:
    """The value of the column `search`."""
    return json.dumps({storable(name): [_value(each) for each in values] for name, values in fields.items()})


def condition(node: Node) -> Condition:
    """What PostgreSQL says of a row exactly where `filters.evaluate` says it of the document."""
    return _condition(push_not_down(node))


def _condition(node: Node) -> Condition:
    match node:
        case Compare(field, op, value):
            return _comparison(field, op, value)
        case Exists(field, wanted):
            # the function, as its operator is the placeholder of other drivers
            return f"{'' if wanted else 'NOT '}jsonb_exists(search, %s)", [storable(field)]
        case And(parts) | Or(parts):
            inner = [_condition(part) for part in parts]
            joined = (" AND " if isinstance(node, And) else " OR ").join(f"({sql})" for sql, _ in inner)
            return joined, [value for _, values in inner for value in values]
        case Not(part):
            sql, values = _condition(part)
            return f"NOT ({sql})", values
        case Always() | Never():
            return ("TRUE" if isinstance(node, Always) else "FALSE"), []


def _comparison(field: str, op: str, value: Scalar | tuple[Scalar, ...]) -> Condition:
    if op in _ORDER:
        # two-valued: a field that is missing or holds something else is out of order
        path = f"$[*] ? (@ {_ORDER[op]} $v)"
        vars_ = json.dumps({"v": _value(cast("Scalar", value))})
        return "coalesce(jsonb_path_exists(search -> %s, %s::jsonpath, %s::jsonb), FALSE)", [
            storable(field),
            path,
            vars_,
        ]
    wanted = value if isinstance(value, tuple) else (value,)
    # containment is typed and any-match, takes numbers by value, and is false where the field is missing
    sql = " OR ".join(["search @> %s::jsonb"] * len(wanted))
    values: list[object] = [json.dumps({storable(field): [_value(each)]}) for each in wanted]
    return (f"NOT ({sql})" if op in {"ne", "nin"} else sql), values


def _value(value: Scalar) -> Scalar:
    if isinstance(value, str):
        return storable(value)
    return plain_number(value) if isinstance(value, float) else value
