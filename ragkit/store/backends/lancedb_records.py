"""The columns of the store `lancedb`, and conditions on them as SQL. Does not import LanceDB.

Field values (`ragkit.store.filters.pushdown`) are stored as hashes in a list, and numbers and strings, for ranges, in
a JSON object. The SQL contains only hashes and hex digits of fields and values, which need no quoting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import blake2b

from ragkit.records import Metadata
from ragkit.store.filters.pushdown import (
    SQL_OPERATORS,
    AllOf,
    AnyOf,
    Condition,
    FieldMatches,
    FieldMatchesNone,
    FieldPresent,
    FieldValue,
    Predicate,
    StoredScalar,
    extract_field_values,
    join_sql,
)

_HEX = re.compile(r"[0-9a-f]*")
_JSON_GETTERS = {"number": "json_get_float", "string": "json_get_string"}


def id_to_hex(name: str) -> str:
    """The stored form of an id: hex digits, in the order of the ids."""
    return name.encode("utf-8", "surrogatepass").hex()


def keys_condition(keys: Sequence[str]) -> str:
    """The SQL condition for a list of keys."""
    return f"key IN ({', '.join(map(_quote, keys))})"


def encode_metadata(metadata: Metadata) -> tuple[list[str], str]:
    """The columns `tokens` and `scalars` of a document."""
    tokens: dict[str, None] = {}
    scalars: dict[str, StoredScalar] = {}
    by_field: dict[str, list[FieldValue]] = {}
    for value in extract_field_values(metadata):
        by_field.setdefault(value.field, []).append(value)
        tokens[_hash_token(value.field)] = tokens[_hash_token(value.field, value.kind)] = None
        if value.value is not None:
            tokens[_hash_token(value.field, value.kind, value.value)] = None
    for field, values in by_field.items():
        if len(values) > 1:
            tokens[_hash_token(field, "many")] = None
        elif values[0].kind in _JSON_GETTERS:
            scalars[_hash_token(field, values[0].kind)] = _sortable_value(values[0].value)
    return list(tokens), json.dumps(scalars)


def to_datafusion_sql(condition: Condition) -> str:
    """The condition in DataFusion's SQL; true or false for every row, never null."""
    match condition:
        case FieldMatches(field, predicates):
            # a range over the elements of a list is left to the reference evaluator
            has_ranges = any(predicate.op in SQL_OPERATORS for predicate in predicates)
            kinds = ["wild", "many"] if has_ranges else ["wild"]
            wild = _render_contains([_hash_token(field, kind) for kind in kinds])
            return join_sql([wild, *_render_predicates(field, predicates)], "OR")
        case FieldMatchesNone(field, predicates):
            return f"NOT {join_sql(_render_predicates(field, predicates), 'OR')}"
        case FieldPresent(field, expected):
            return f"{'' if expected else 'NOT '}{_render_contains([_hash_token(field)])}"
        case AllOf(parts) | AnyOf(parts):
            operator = "AND" if isinstance(condition, AllOf) else "OR"
            return join_sql([to_datafusion_sql(part) for part in parts], operator)
        case _:
            return "true" if condition else "false"


def _render_predicates(field: str, predicates: Sequence[Predicate]) -> list[str]:
    tokens = [
        _hash_token(field, predicate.kind, *([] if predicate.op == "any" else [predicate.value]))
        for predicate in predicates
        if predicate.op not in SQL_OPERATORS
    ]
    ranges = [_render_range(field, predicate) for predicate in predicates if predicate.op in SQL_OPERATORS]
    return [_render_contains(tokens), *ranges] if tokens else ranges


def _render_range(field: str, predicate: Predicate) -> str:
    value = _sortable_value(predicate.value)
    literal = _quote(value) if isinstance(value, str) else repr(value)
    stored = f"{_JSON_GETTERS[predicate.kind]}(scalars, {_quote(_hash_token(field, predicate.kind))})"
    return f"coalesce({stored} {SQL_OPERATORS[predicate.op]} {literal}, false)"


def _render_contains(tokens: Sequence[str]) -> str:
    if len(tokens) == 1:
        return f"array_has(tokens, {_quote(tokens[0])})"
    return f"array_has_any(tokens, make_array({', '.join(map(_quote, tokens))}))"


def _sortable_value(value: StoredScalar) -> StoredScalar:
    """A number unchanged; a string as hex digits, which have the same order."""
    return value.encode().hex() if isinstance(value, str) else value


def _hash_token(field: str, *rest: StoredScalar) -> str:
    """A hash of a field, or of a field and a kind, or of a field, a kind and a value."""
    return blake2b(repr((field, *rest)).encode(), digest_size=16).hexdigest()


def _quote(text: str) -> str:
    """A string literal of hex digits."""
    if not _HEX.fullmatch(text):
        raise ValueError(f"expected hex digits (got {text!r})")
    return f"'{text}'"
