"""What the store `chroma` keeps as metadata, and filters on it as Chroma's `where`. Nothing here knows Chroma itself.

Chroma's metadata are flat. Of every field that a filter can name they hold, under `t:FIELD`, what kind of value is
there (`many` for a list), and under `v:FIELD` the value: a number as it is, anything else as a string that begins with
its kind. Each element of a list has a key of its own, `e:HASH`: Chroma knows values that are lists, but version 1.5
leaves them behind when a document is deleted, and finds them again in the next one.

Chroma knows no ranges of strings: a filter with one lets every string of that field through here, and the reference
evaluator sorts them out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias

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
    count_leaves,
    extract_field_values,
)

ChromaWhere: TypeAlias = Mapping[str, object]
"""A condition in Chroma's form."""

ChromaValue: TypeAlias = str | float | bool

MAX_LEAVES = 250
"""A condition with more parts is not sent: SQLite, which is inside of Chroma, takes trees of at most 1,000 levels."""

_NO_METADATA_KEY = "ragkit"
"""Under this key a document without metadata has _YES: negations pass over those that have none at all. Others have no
need of it, and Chroma reads every key of a hit, for a hundredth of a search each."""
_PRESENT = 1
"""A number, as Chroma has an index over numbers and none over booleans."""
_VALUE_KINDS = ["null", "bool", "number", "string", "empty", "wild", "many"]


def to_chroma_metadata(metadata: Metadata) -> dict[str, ChromaValue]:
    """What Chroma keeps beside a document."""
    by_field: dict[str, list[FieldValue]] = {}
    for fact in extract_field_values(metadata):
        by_field.setdefault(fact.field, []).append(fact)
    kept: dict[str, ChromaValue] = {}
    for field, facts in by_field.items():
        if len(facts) == 1:
            kept[f"t:{field}"], kept[f"v:{field}"] = facts[0].kind, _encode_value(facts[0])
        else:
            kept[f"t:{field}"] = "many"
            kept.update((_element_key(fact), _PRESENT) for fact in facts)
    return kept or {_NO_METADATA_KEY: _PRESENT}


def to_chroma_where(condition: Condition) -> ChromaWhere | None:
    """The condition in Chroma's form; None where it is not worth sending, or lets everything through anyway."""
    if isinstance(condition, bool) or count_leaves(condition, with_predicates=True) > MAX_LEAVES:
        return None
    return _render(condition)


def _render(condition: Condition) -> ChromaWhere:
    match condition:
        case FieldMatches(field, tests):
            return _any_of(_render_matches(field, tests))
        case FieldMatchesNone(field, tests):
            return _all_of(_render_matches_none(field, tests))
        case FieldPresent(field, wanted):
            return {f"t:{field}": {"$in" if wanted else "$nin": _VALUE_KINDS}}
        case AllOf(parts):
            return _all_of([_render(part) for part in parts])
        case AnyOf(parts):
            return _any_of([_render(part) for part in parts])
        case _:
            return {_NO_METADATA_KEY: {"$ne": -_PRESENT}}  # which none has


def _render_matches(field: str, tests: Sequence[Predicate]) -> list[ChromaWhere]:
    has_ranges = any(test.op not in {"eq", "any"} for test in tests)
    found: list[ChromaWhere] = [{f"t:{field}": {"$in": ["wild", "many"] if has_ranges else ["wild"]}}]
    found.append({_element_key(FieldValue(field, "wild")): {"$eq": _PRESENT}})
    for test in tests:
        if test.op == "eq":
            fact = FieldValue(field, test.kind, test.value)
            found += [{f"v:{field}": {"$eq": _encode_value(fact)}}, {_element_key(fact): {"$eq": _PRESENT}}]
        elif test.kind == "number":
            found.append({f"v:{field}": {f"${test.op}": test.value}})
        else:  # null, or a range of strings
            found.append({f"t:{field}": {"$in": [test.kind, "many"]}})
    return found


def _render_matches_none(field: str, tests: Sequence[Predicate]) -> list[ChromaWhere]:
    found: list[ChromaWhere] = []
    for test in tests:
        if test.op == "eq":
            fact = FieldValue(field, test.kind, test.value)
            found += [{f"v:{field}": {"$ne": _encode_value(fact)}}, {_element_key(fact): {"$ne": _PRESENT}}]
        elif test.kind == "number":
            opposite = {"gt": "$lte", "gte": "$lt", "lt": "$gte", "lte": "$gt"}[test.op]
            found.append({"$or": [{f"t:{field}": {"$ne": "number"}}, {f"v:{field}": {opposite: test.value}}]})
        elif test.kind == "null":
            found.append({f"t:{field}": {"$ne": "null"}})
    return found


def _any_of(parts: Sequence[ChromaWhere]) -> ChromaWhere:
    return parts[0] if len(parts) == 1 else {"$or": list(parts)}


def _all_of(parts: Sequence[ChromaWhere]) -> ChromaWhere:
    if not parts:
        return _render(True)
    return parts[0] if len(parts) == 1 else {"$and": list(parts)}


def _encode_value(fact: FieldValue) -> str | float:
    return float(fact.value) if fact.kind == "number" and isinstance(fact.value, float | int) else _tag_value(fact)


def _element_key(fact: FieldValue) -> str:
    """The key of an element of a list."""
    return f"e:{blake2b(repr((fact.field, _tag_value(fact))).encode(), digest_size=16).hexdigest()}"


def _tag_value(fact: FieldValue) -> str:
    return f"{fact.kind}:{'' if fact.value is None else fact.value}"
