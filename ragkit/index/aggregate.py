"""Counts, sums and extremes of a metadata field over documents."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

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


def aggregate_field(rows: Iterable[Metadata], field: str) -> FieldAggregate:
    """Read the field of each row once; memory grows with the number of numbers that are not integers."""
    documents = numbers = integers = 0
    fractions: list[float] = []
    smallest: int | float | None = None
    largest: int | float | None = None
    for row in rows:
        documents += 1
        value = row.get(field)
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            continue
        numbers += 1
        smallest = value if smallest is None or value < smallest else smallest
        largest = value if largest is None or value > largest else largest
        if isinstance(value, int):
            integers += value
        else:
            fractions.append(value)
    total = math.fsum([*fractions, integers]) if fractions else integers
    return FieldAggregate(field, documents, numbers, total, smallest, largest)
