"""One nasty file, and what must become of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Text:
    """It is indexed, and this is its whole text, white space at the ends apart."""

    text: str


@dataclass(frozen=True)
class Long:
    """It is indexed, with this much text, which begins and ends like this."""

    length: int
    begins: str
    ends: str


@dataclass(frozen=True)
class Failed:
    """It is reported as failed, for this reason; one that ends with `…` only begins so."""

    error: str


@dataclass(frozen=True)
class Skipped:
    """It is reported as skipped, for this reason."""

    reason: str


Outcome: TypeAlias = "Text | Long | Failed | Skipped"


@dataclass(frozen=True)
class Case:
    """A file by its name."""

    name: str
    make: Callable[[], bytes]
    outcome: Outcome


def case(name: str, data: bytes | Callable[[], bytes], outcome: Outcome | str) -> Case:
    """A case; data may be given as they are, and a text stands for a document with that text."""
    make = data if callable(data) else lambda: data
    return Case(name, make, Text(outcome) if isinstance(outcome, str) else outcome)
