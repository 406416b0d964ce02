"""Counts, sums and extremes of a metadata field over documents."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeGuard

from ragkit.records import JSON, Metadata


@dataclass(frozen=True)
class FieldAggregate:
    """What the numbers in one field add up to. Texts, booleans and lists are not counted as numbers."""

    field: str
    """The field; '' when only documents are counted."""
    documents: int
    """Documents that the filter selects."""
    numbers: int
    """Documents whose field is a number."""
    sum: int | float
    """Exact for integers, correctly rounded for others; 0 without a number."""
    min: int | float | None
    """None without a number."""
    max: int | float | None
    """None without a number."""
    known_fields: tuple[str, ...] = ()
    """If no document has a number in this field: some fields that have."""

    @property
    def mean(self) -> float | None:
        """The sum divided by the number of numbers; None without one."""
        return self.sum / self.numbers if self.numbers else None

    def to_json(self) -> dict[str, JSON]:
        """The output of `search --json`."""
        return {
            "field": self.field,
            "documents": self.documents,
            "numbers": self.numbers,
            "sum": self.sum,
            "min": self.min,
            "max": self.max,
            "mean": self.mean,
        }


MAX_KNOWN_FIELDS = 20
MAX_NUMBER = 1e300
"""Numbers beyond it, and NaN, are not counted: their sums could not be represented."""


def aggregate_field(rows: Iterable[Metadata], field: str) -> FieldAggregate:
    """Read the field of each row once; memory grows with the number of numbers that are not integers."""
    documents = numbers = integers = 0
    fractions: list[float] = []
    known: dict[str, None] = {}
    smallest: int | float | None = None
    largest: int | float | None = None
    for row in rows:
        documents += 1
        value = row.get(field)
        if not _is_number(value):
            if not numbers and len(known) < MAX_KNOWN_FIELDS:
                known.update(dict.fromkeys(name for name, other in row.items() if _is_number(other)))
            continue
        numbers += 1
        smallest = value if smallest is None or value < smallest else smallest
        largest = value if largest is None or value > largest else largest
        if isinstance(value, int):
            integers += value
        else:
            fractions.append(value)
    total = math.fsum([*fractions, integers]) if fractions else integers
    names = () if numbers else tuple(sorted(known)[:MAX_KNOWN_FIELDS])
    return FieldAggregate(field, documents, numbers, total, smallest, largest, names)


def _is_number(value: JSON) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and -MAX_NUMBER <= value <= MAX_NUMBER
