"""A test file and its expected outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Text:
    """Indexed, with this text (ignoring white space at both ends)."""

    text: str


@dataclass(frozen=True)
class Long:
    """Indexed, with a text of this length, start and end."""

    length: int
    begins: str
    ends: str


@dataclass(frozen=True)
class Failed:
    """Reported as failed with this reason; `…` at the end matches any text."""

    error: str


@dataclass(frozen=True)
class Skipped:
    """Reported as skipped with this reason."""

    reason: str


Outcome: TypeAlias = "Text | Long | Failed | Skipped"


@dataclass(frozen=True)
class Case:
    """A file with its content and outcome."""

    name: str
    make: Callable[[], bytes]
    outcome: Outcome


def case(name: str, data: bytes | Callable[[], bytes], outcome: Outcome | str) -> Case:
    """A case; `data` may be a function, and a string as `outcome` means `Text`."""
    make = data if callable(data) else lambda: data
    return Case(name, make, Text(outcome) if isinstance(outcome, str) else outcome)
