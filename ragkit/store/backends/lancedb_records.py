"""What the store `lancedb` keeps in its table, and conditions on it as SQL. Nothing here knows LanceDB itself.

Facts (`ragkit.store.filters.pushdown`) are kept as hashes in a list, and numbers and strings that ranges are asked of in a
JSON object beside it. No character of a field or of a value comes into the SQL, so that none needs to be quoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import blake2b

from ragkit.records import Metadata
from ragkit.store.filters.pushdown import (
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

_SQL_OPERATORS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_HEX = re.compile(r"[0-9a-f]*")
_JSON_GETTERS = {"number": "json_get_float", "string": "json_get_string"}


def id_to_hex(name: str) -> str:
    """An id as it is kept: hex digits, in the order of the ids, and never in need of quotes."""
    return name.encode("utf-8", "surrogatepass").hex()


def hex_to_id(key: str) -> str:
    """The id that `key_of` wrote."""
    return bytes.fromhex(key).decode("utf-8", "surrogatepass")


def keys_condition(keys: Sequence[str]) -> str:
    """The condition that picks out some keys."""
    return f"key IN ({', '.join(map(_quote, keys))})"


def encode_metadata(metadata: Metadata) -> tuple[list[str], str]:
    """The columns `tokens` and `scalars` of a document."""
    tokens: dict[str, None] = {}
    scalars: dict[str, StoredScalar] = {}
    by_field: dict[str, list[FieldValue]] = {}
    for fact in extract_field_values(metadata):
        by_field.setdefault(fact.field, []).append(fact)
        tokens[_hash_token(fact.field)] = tokens[_hash_token(fact.field, fact.kind)] = None
        if fact.value is not None:
            tokens[_hash_token(fact.field, fact.kind, fact.value)] = None
    for field, facts in by_field.items():
        if len(facts) > 1:
            tokens[_hash_token(field, "many")] = None
        elif facts[0].kind in _JSON_GETTERS:
            scalars[_hash_token(field, facts[0].kind)] = _sortable_value(facts[0].value)
    return list(tokens), json.dumps(scalars)


def to_datafusion_sql(condition: Condition) -> str:
    """The condition in DataFusion's SQL; it is true or false of every row, never null."""
    match condition:
        case FieldMatches(field, tests):
            # a range over the elements of a list is left to the reference evaluator
            open_kinds = ["wild", "many"] if any(test.op in _SQL_OPERATORS for test in tests) else ["wild"]
            return join_sql(
                [
                    _render_contains([_hash_token(field, kind) for kind in open_kinds]),
                    *_render_predicates(field, tests),
                ],
                "OR",
            )
        case FieldMatchesNone(field, tests):
            return f"NOT {join_sql(_render_predicates(field, tests), 'OR')}"
        case FieldPresent(field, wanted):
            return f"{'' if wanted else 'NOT '}{_render_contains([_hash_token(field)])}"
        case AllOf(parts) | AnyOf(parts):
            return join_sql(
                [to_datafusion_sql(part) for part in parts], "AND" if isinstance(condition, AllOf) else "OR"
            )
        case _:
            return "true" if condition else "false"


def _render_predicates(field: str, tests: Sequence[Predicate]) -> list[str]:
    tokens = [
        _hash_token(field, test.kind, *([] if test.op == "any" else [test.value]))
        for test in tests
        if test.op not in _SQL_OPERATORS
    ]
    ranges = [_render_range(field, test) for test in tests if test.op in _SQL_OPERATORS]
    return [_render_contains(tokens), *ranges] if tokens else ranges


def _render_range(field: str, test: Predicate) -> str:
    value = _sortable_value(test.value)
    literal = _quote(value) if isinstance(value, str) else repr(value)
    held = f"{_JSON_GETTERS[test.kind]}(scalars, {_quote(_hash_token(field, test.kind))})"
    return f"coalesce({held} {_SQL_OPERATORS[test.op]} {literal}, false)"


def _render_contains(tokens: Sequence[str]) -> str:
    if len(tokens) == 1:
        return f"array_has(tokens, {_quote(tokens[0])})"
    return f"array_has_any(tokens, make_array({', '.join(map(_quote, tokens))}))"


def _sortable_value(value: StoredScalar) -> StoredScalar:
    """A number as it is; a string as hex digits, which have the same order."""
    return value.encode().hex() if isinstance(value, str) else value


def _hash_token(field: str, *rest: StoredScalar) -> str:
    """A hash of a field, a kind and a value; of a field and a kind; or of a field alone."""
    return blake2b(repr((field, *rest)).encode(), digest_size=16).hexdigest()


def _quote(text: str) -> str:
    """A string literal. Only hex digits come here."""
    if not _HEX.fullmatch(text):
        raise ValueError(f"{text!r} is not made of hex digits")
    return f"'{text}'"
