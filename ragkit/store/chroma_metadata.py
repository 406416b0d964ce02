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
from ragkit.store.pushdown import All, Condition, Fact, Holds, Lacks, Present, Some, Test, facts_of, leaves

Where: TypeAlias = Mapping[str, object]
"""A condition in Chroma's form."""

Value: TypeAlias = str | float | bool

MAX_LEAVES = 250
"""A condition with more parts is not sent: SQLite, which is inside of Chroma, takes trees of at most 1,000 levels."""

_ALWAYS = "ragkit"
"""Under this key a document without metadata has _YES: negations pass over those that have none at all. Others have no
need of it, and Chroma reads every key of a hit, for a hundredth of a search each."""
_YES = 1
"""A number, as Chroma has an index over numbers and none over booleans."""
_KINDS = ["null", "bool", "number", "string", "empty", "wild", "many"]


def chroma_metadata(metadata: Metadata) -> dict[str, Value]:
    """What Chroma keeps beside a document."""
    by_field: dict[str, list[Fact]] = {}
    for fact in facts_of(metadata):
        by_field.setdefault(fact.field, []).append(fact)
    kept: dict[str, Value] = {}
    for field, facts in by_field.items():
        if len(facts) == 1:
            kept[f"t:{field}"], kept[f"v:{field}"] = facts[0].kind, _value(facts[0])
        else:
            kept[f"t:{field}"] = "many"
            kept.update((_element(fact), _YES) for fact in facts)
    return kept or {_ALWAYS: _YES}


def where_of(condition: Condition) -> Where | None:
    """The condition in Chroma's form; None where it is not worth sending, or lets everything through anyway."""
    if isinstance(condition, bool) or leaves(condition, with_tests=True) > MAX_LEAVES:
        return None
    return _where(condition)


def _where(condition: Condition) -> Where:
    match condition:
        case Holds(field, tests):
            return _some(_holds(field, tests))
        case Lacks(field, tests):
            return _all(_lacks(field, tests))
        case Present(field, wanted):
            return {f"t:{field}": {"$in" if wanted else "$nin": _KINDS}}
        case All(parts):
            return _all([_where(part) for part in parts])
        case Some(parts):
            return _some([_where(part) for part in parts])
        case _:
            return {_ALWAYS: {"$ne": -_YES}}  # which none has


def _holds(field: str, tests: Sequence[Test]) -> list[Where]:
    has_ranges = any(test.op not in {"eq", "any"} for test in tests)
    found: list[Where] = [{f"t:{field}": {"$in": ["wild", "many"] if has_ranges else ["wild"]}}]
    found.append({_element(Fact(field, "wild")): {"$eq": _YES}})
    for test in tests:
        if test.op == "eq":
            fact = Fact(field, test.kind, test.value)
            found += [{f"v:{field}": {"$eq": _value(fact)}}, {_element(fact): {"$eq": _YES}}]
        elif test.kind == "number":
            found.append({f"v:{field}": {f"${test.op}": test.value}})
        else:  # null, or a range of strings
            found.append({f"t:{field}": {"$in": [test.kind, "many"]}})
    return found


def _lacks(field: str, tests: Sequence[Test]) -> list[Where]:
    found: list[Where] = []
    for test in tests:
        if test.op == "eq":
            fact = Fact(field, test.kind, test.value)
            found += [{f"v:{field}": {"$ne": _value(fact)}}, {_element(fact): {"$ne": _YES}}]
        elif test.kind == "number":
            opposite = {"gt": "$lte", "gte": "$lt", "lt": "$gte", "lte": "$gt"}[test.op]
            found.append({"$or": [{f"t:{field}": {"$ne": "number"}}, {f"v:{field}": {opposite: test.value}}]})
        elif test.kind == "null":
            found.append({f"t:{field}": {"$ne": "null"}})
    return found


def _some(parts: Sequence[Where]) -> Where:
    return parts[0] if len(parts) == 1 else {"$or": list(parts)}


def _all(parts: Sequence[Where]) -> Where:
    if not parts:
        return _where(True)
    return parts[0] if len(parts) == 1 else {"$and": list(parts)}


def _value(fact: Fact) -> str | float:
    return float(fact.value) if fact.kind == "number" and isinstance(fact.value, float | int) else _token(fact)


def _element(fact: Fact) -> str:
    """The key of an element of a list."""
    return f"e:{blake2b(repr((fact.field, _token(fact))).encode(), digest_size=16).hexdigest()}"


def _token(fact: Fact) -> str:
    return f"{fact.kind}:{'' if fact.value is None else fact.value}"
