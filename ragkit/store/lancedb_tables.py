"""What the store `lancedb` keeps in its table, and conditions on it as SQL. Nothing here knows LanceDB itself.

Facts (`ragkit.store.pushdown`) are kept as hashes in a list, and numbers and strings that ranges are asked of in a
JSON object beside it. No character of a field or of a value comes into the SQL, so that none needs to be quoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import blake2b

from ragkit.records import Metadata
from ragkit.store.pushdown import All, Condition, Fact, FactValue, Holds, Lacks, Present, Some, Test, facts_of, joined

_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_HEX = re.compile(r"[0-9a-f]*")
_READERS = {"number": "json_get_float", "string": "json_get_string"}


def key_of(name: str) -> str:
    """An id as it is kept: hex digits, in the order of the ids, and never in need of quotes."""
    return name.encode("utf-8", "surrogatepass").hex()


def id_of(key: str) -> str:
    """The id that `key_of` wrote."""
    return bytes.fromhex(key).decode("utf-8", "surrogatepass")


def keys_in(keys: Sequence[str]) -> str:
    """The condition that picks out some keys."""
    return f"key IN ({', '.join(map(_quoted, keys))})"


def tokens_and_scalars(metadata: Metadata) -> tuple[list[str], str]:
    """The columns `tokens` and `scalars` of a document."""
    tokens: dict[str, None] = {}
    scalars: dict[str, FactValue] = {}
    by_field: dict[str, list[Fact]] = {}
    for fact in facts_of(metadata):
        by_field.setdefault(fact.field, []).append(fact)
        tokens[_token(fact.field)] = tokens[_token(fact.field, fact.kind)] = None
        if fact.value is not None:
            tokens[_token(fact.field, fact.kind, fact.value)] = None
    for field, facts in by_field.items():
        if len(facts) > 1:
            tokens[_token(field, "many")] = None
        elif facts[0].kind in _READERS:
            scalars[_token(field, facts[0].kind)] = _comparable(facts[0].value)
    return list(tokens), json.dumps(scalars)


def sql_of(condition: Condition) -> str:
    """The condition in DataFusion's SQL; it is true or false of every row, never null."""
    match condition:
        case Holds(field, tests):
            # a range over the elements of a list is left to the reference evaluator
            open_kinds = ["wild", "many"] if any(test.op in _SIGNS for test in tests) else ["wild"]
            return joined([_has([_token(field, kind) for kind in open_kinds]), *_tests(field, tests)], "OR")
        case Lacks(field, tests):
            return f"NOT {joined(_tests(field, tests), 'OR')}"
        case Present(field, wanted):
            return f"{'' if wanted else 'NOT '}{_has([_token(field)])}"
        case All(parts) | Some(parts):
            return joined([sql_of(part) for part in parts], "AND" if isinstance(condition, All) else "OR")
        case _:
            return "true" if condition else "false"


def _tests(field: str, tests: Sequence[Test]) -> list[str]:
    tokens = [
        _token(field, test.kind, *([] if test.op == "any" else [test.value])) for test in tests if test.op not in _SIGNS
    ]
    ranges = [_range(field, test) for test in tests if test.op in _SIGNS]
    return [_has(tokens), *ranges] if tokens else ranges


def _range(field: str, test: Test) -> str:
    value = _comparable(test.value)
    literal = _quoted(value) if isinstance(value, str) else repr(value)
    held = f"{_READERS[test.kind]}(scalars, {_quoted(_token(field, test.kind))})"
    return f"coalesce({held} {_SIGNS[test.op]} {literal}, false)"


def _has(tokens: Sequence[str]) -> str:
    if len(tokens) == 1:
        return f"array_has(tokens, {_quoted(tokens[0])})"
    return f"array_has_any(tokens, make_array({', '.join(map(_quoted, tokens))}))"


def _comparable(value: FactValue) -> FactValue:
    """A number as it is; a string as hex digits, which have the same order."""
    return value.encode().hex() if isinstance(value, str) else value


def _token(field: str, *rest: FactValue) -> str:
    """A hash of a field, a kind and a value; of a field and a kind; or of a field alone."""
    return blake2b(repr((field, *rest)).encode(), digest_size=16).hexdigest()


def _quoted(text: str) -> str:
    """A string literal. Only hex digits come here."""
    if not _HEX.fullmatch(text):
        raise ValueError(f"{text!r} is not made of hex digits")
    return f"'{text}'"
