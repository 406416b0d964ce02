"""The metadata of the store `chroma`, and filters as Chroma's `where`. Does not import Chroma.

Chroma's metadata are flat. For every field that a filter can name, `t:FIELD` is the kind of the value (`many` for a
list), and `v:FIELD` the value: a number, or a string that starts with its kind. Each element of a list has a key
`e:HASH`, because Chroma 1.5 does not remove list values when a document is deleted.

Chroma has no ranges of strings: a filter with one matches every string of the field here, and the reference evaluator
decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias

from ragkit.records import Metadata
from ragkit.store.filters.pushdown import (
    NEGATED_RANGE_OPERATORS,
    AllOf,
    AnyOf,
    Condition,
    FieldMatches,
    FieldMatchesNone,
    FieldPresent,
    FieldValue,
    Predicate,
    count_leaves,
    extract_field_values,
)

ChromaWhere: TypeAlias = Mapping[str, object]
"""A condition in the syntax of Chroma."""

ChromaValue: TypeAlias = str | float | bool

MAX_LEAVES = 250
"""A larger condition is not pushed down: Chroma's SQLite allows expression trees of at most 1,000 levels."""

_NO_METADATA_KEY = "ragkit"
"""Key of documents without metadata: negations skip documents that have no key at all. Other documents lack it, because
reading a key of a result takes a hundredth of a search."""
_PRESENT = 1
"""A number, because Chroma indexes numbers but not booleans."""
_VALUE_KINDS = ["null", "bool", "number", "string", "empty", "wild", "many"]


def to_chroma_metadata(metadata: Metadata) -> dict[str, ChromaValue]:
    """The flat metadata that Chroma stores with a document."""
    by_field: dict[str, list[FieldValue]] = {}
    for value in extract_field_values(metadata):
        by_field.setdefault(value.field, []).append(value)
    flat: dict[str, ChromaValue] = {}
    for field, values in by_field.items():
        if len(values) == 1:
            flat[f"t:{field}"], flat[f"v:{field}"] = values[0].kind, _encode_value(values[0])
        else:
            flat[f"t:{field}"] = "many"
            flat.update((_element_key(value), _PRESENT) for value in values)
    return flat or {_NO_METADATA_KEY: _PRESENT}


def to_chroma_where(condition: Condition) -> ChromaWhere | None:
    """The condition in the syntax of Chroma; None if it is too large or matches everything."""
    if isinstance(condition, bool) or count_leaves(condition, with_predicates=True) > MAX_LEAVES:
        return None
    return _render(condition)


def _render(condition: Condition) -> ChromaWhere:
    match condition:
        case FieldMatches(field, predicates):
            return _any_of(_render_matches(field, predicates))
        case FieldMatchesNone(field, predicates):
            return _all_of(_render_matches_none(field, predicates))
        case FieldPresent(field, expected):
            return {f"t:{field}": {"$in" if expected else "$nin": _VALUE_KINDS}}
        case AllOf(parts):
            return _all_of([_render(part) for part in parts])
        case AnyOf(parts):
            return _any_of([_render(part) for part in parts])
        case _:
            return {_NO_METADATA_KEY: {"$ne": -_PRESENT}}  # matches everything


def _render_matches(field: str, predicates: Sequence[Predicate]) -> list[ChromaWhere]:
    has_ranges = any(predicate.op not in {"eq", "any"} for predicate in predicates)
    clauses: list[ChromaWhere] = [{f"t:{field}": {"$in": ["wild", "many"] if has_ranges else ["wild"]}}]
    clauses.append({_element_key(FieldValue(field, "wild")): {"$eq": _PRESENT}})
    for predicate in predicates:
        if predicate.op == "eq":
            value = FieldValue(field, predicate.kind, predicate.value)
            clauses += [{f"v:{field}": {"$eq": _encode_value(value)}}, {_element_key(value): {"$eq": _PRESENT}}]
        elif predicate.kind == "number":
            clauses.append({f"v:{field}": {f"${predicate.op}": predicate.value}})
        else:  # null, or a range of strings
            clauses.append({f"t:{field}": {"$in": [predicate.kind, "many"]}})
    return clauses


def _render_matches_none(field: str, predicates: Sequence[Predicate]) -> list[ChromaWhere]:
    clauses: list[ChromaWhere] = []
    for predicate in predicates:
        if predicate.op == "eq":
            value = FieldValue(field, predicate.kind, predicate.value)
            clauses += [{f"v:{field}": {"$ne": _encode_value(value)}}, {_element_key(value): {"$ne": _PRESENT}}]
        elif predicate.kind == "number":
            outside = {f"v:{field}": {f"${NEGATED_RANGE_OPERATORS[predicate.op]}": predicate.value}}
            clauses.append({"$or": [{f"t:{field}": {"$ne": "number"}}, outside]})
        elif predicate.kind == "null":
            clauses.append({f"t:{field}": {"$ne": "null"}})
    return clauses


def _any_of(parts: Sequence[ChromaWhere]) -> ChromaWhere:
    return parts[0] if len(parts) == 1 else {"$or": list(parts)}


def _all_of(parts: Sequence[ChromaWhere]) -> ChromaWhere:
    if not parts:
        return _render(True)
    return parts[0] if len(parts) == 1 else {"$and": list(parts)}


def _encode_value(value: FieldValue) -> str | float:
    if value.kind == "number" and isinstance(value.value, float | int):
        return float(value.value)
    return _tag_value(value)


def _element_key(value: FieldValue) -> str:
    """The key of an element of a list."""
    return f"e:{blake2b(repr((value.field, _tag_value(value))).encode(), digest_size=16).hexdigest()}"


def _tag_value(value: FieldValue) -> str:
    return f"{value.kind}:{'' if value.value is None else value.value}"
