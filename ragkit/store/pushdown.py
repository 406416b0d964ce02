"""Metadata as flat facts, and filters as conditions on facts: what databases that know no nested JSON can answer.

A condition lets through every document that the filter lets through, and at times a few more: a database takes it as
a first sieve, and `filters.evaluate` has the last word on what comes out of it (`portable.complete`).

Nothing here knows a database. Each renders the same few conditions in its own words.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, TypeAlias, cast

from ragkit.records import Metadata
from ragkit.store.filters import And, Compare, Exists, Never, Node, Not, Operator, Or, Scalar, push_not_down
from ragkit.store.portable import flat

Kind: TypeAlias = Literal["null", "bool", "number", "string", "empty", "wild"]
"""What a fact speaks of. `empty`: there is nothing to compare with, as in a mapping or a list without scalars.
`wild`: a number or a string that is not kept exactly; it may pass any test."""

FactValue: TypeAlias = str | float | None

MAX_STRING = 1_000
"""Longer strings are not kept as facts, nor are those that databases choke on."""
MAX_NAME = 200
"""Longer names of fields are kept as a hash."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is so of a document: a field holds this value, or an element of its list does."""

    field: str
    """As `field_name` writes it."""
    kind: Kind
    value: FactValue = None
    """The number (of a bool: 1.0 or 0.0) or the string; None for the other kinds."""


@dataclass(frozen=True, slots=True)
class Test:
    """What a fact of this kind can be held against."""

    __test__ = False  # no test of pytest's

    kind: Kind
    op: Literal["any", "eq", "gt", "gte", "lt", "lte"]
    value: FactValue = None


@dataclass(frozen=True, slots=True)
class Holds:
    """A fact of the field passes one of the tests, or is wild."""

    field: str
    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class Lacks:
    """No fact of the field passes any of the tests; wild ones do not count."""

    field: str
    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class Present:
    """The field has a fact, or has none."""

    field: str
    wanted: bool


@dataclass(frozen=True, slots=True)
class All:
    """Every part is so; there are at least two."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """One part is so; there are at least two."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Holds | Lacks | Present | All | Some | bool
"""True lets everything through, False nothing; both stand for the whole condition only."""


def field_name(field: str) -> str:
    """The field as databases take it: itself, or a hash where it is empty, long, or holds odd characters.

    No two fields share a name, but for a chance of 2**-128.
    """
    if 0 < len(field) <= MAX_NAME and not field.startswith("#") and _is_clean(field):
        return field
    return "#" + blake2b(field.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def facts_of(metadata: Metadata) -> list[Fact]:
    """All that is so of a document, for every field that a filter can name. No fact is given twice."""
    facts: dict[Fact, None] = {}
    for field, values in flat(metadata).items():
        name = field_name(field)
        facts.update((_fact(name, value), None) for value in values)
        if not values:
            facts[Fact(name, "empty")] = None
    return list(facts)


def _fact(name: str, value: Scalar) -> Fact:
    if value is None:
        return Fact(name, "null")
    if isinstance(value, bool):
        return Fact(name, "bool", float(value))
    if isinstance(value, int | float):
        number, exact = _double(value)
        return Fact(name, "number", number) if exact else Fact(name, "wild")
    return Fact(name, "string", value) if _is_kept(value) else Fact(name, "wild")


def condition_of(node: Node) -> Condition:
    """A condition that holds wherever the filter does."""
    return _condition(push_not_down(node))


def _condition(node: Node) -> Condition:
    match node:
        case Compare(field, op, value):
            if op in {"ne", "nin"}:
                return _lacks(field, "eq", value if isinstance(value, tuple) else (value,))
            same = "eq" if op == "in" else op
            tests = (_loose(same, each) for each in (value if isinstance(value, tuple) else (value,)))
            return Holds(field_name(field), tuple(test for test in tests if test))
        case Not(Compare(field, op, value)):
            return _lacks(field, op, value if isinstance(value, tuple) else (value,))
        case Exists(field, wanted):
            return Present(field_name(field), wanted)
        case And(parts) | Or(parts):
            return _joined([_condition(part) for part in parts], is_all=isinstance(node, And))
        case _:
            return not isinstance(node, Never)


def _lacks(field: str, op: Operator, values: tuple[Scalar, ...]) -> Condition:
    tests = tuple(test for test in (_strict(op, each) for each in values) if test)
    return Lacks(field_name(field), tests) if tests else True


def _joined(parts: list[Condition], *, is_all: bool) -> Condition:
    """`All` or `Some` of the parts, none of which is False: `push_not_down` has seen to that."""
    kept = tuple(part for part in parts if part is not True)
    if not kept or (not is_all and len(kept) < len(parts)):
        return True
    if len(kept) == 1:
        return kept[0]
    return All(kept) if is_all else Some(kept)


def leaves(condition: Condition, *, with_tests: bool = False) -> int:
    """How many looks at the facts of a field a condition takes; `with_tests` counts each test as one more."""
    match condition:
        case Holds(_, tests) | Lacks(_, tests):
            return 1 + len(tests) * with_tests
        case All(parts) | Some(parts):
            return sum(leaves(part, with_tests=with_tests) for part in parts)
        case _:
            return 1


def _loose(op: Operator, wanted: Scalar) -> Test | None:
    """A test that every fact passes of which the comparison is true; None where no exact fact can be."""
    if wanted is None:
        return Test("null", "any")
    if isinstance(wanted, bool):
        return Test("bool", "eq", float(wanted))
    if isinstance(wanted, int | float):
        number, exact = _double(wanted)
        if exact:
            return Test("number", _plain(op), number)
        # rounding keeps the order, but may make numbers equal that are not
        return None if op == "eq" else Test("number", "gte" if op in {"gt", "gte"} else "lte", number)
    if _is_kept(wanted):
        return Test("string", _plain(op), wanted)
    return None if op == "eq" else Test("string", "any")


def _strict(op: Operator, wanted: Scalar) -> Test | None:
    """A test that no fact passes of which the comparison is false; None where there is no such test."""
    if isinstance(wanted, int | float) and not isinstance(wanted, bool):
        number, exact = _double(wanted)
        if not exact:
            return None if op == "eq" else Test("number", "gt" if op in {"gt", "gte"} else "lt", number)
    if isinstance(wanted, str) and not _is_kept(wanted):
        return None
    return _loose(op, wanted)


def _plain(op: Operator) -> Literal["eq", "gt", "gte", "lt", "lte"]:
    return cast('Literal["eq", "gt", "gte", "lt", "lte"]', op)


def _double(value: float) -> tuple[float, bool]:
    """The nearest float, and whether it is the number itself."""
    try:
        number = float(value) + 0.0  # -0.0 becomes 0.0, which it equals
    except OverflowError:
        return (sys.float_info.max if value > 0 else -sys.float_info.max), False
    return number, number == value


def _is_kept(text: str) -> bool:
    return len(text) <= MAX_STRING and _is_clean(text)


def _is_clean(text: str) -> bool:
    """Whether every database takes it: no NUL, no lone surrogates."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def joined(parts: Sequence[str], word: str) -> str:
    """Conditions of SQL under AND or OR, as a balanced tree: engines count how deep expressions are nested.

    A chain of 1,000 is too deep for DuckDB, and a chain of some thousands overflows DataFusion's stack.
    """
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return f"({joined(parts[:half], word)} {word} {joined(parts[half:], word)})"
