"""The options of every store, importable without any store's own packages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ragkit.errors import InvalidOption


def validate_dimension(dimension: int | None) -> None:
    if dimension is not None and dimension < 1:
        raise InvalidOption("dimension", dimension, "a number of columns, 1 or more,")


@dataclass(frozen=True)
class MemoryOptions:
    """Options of the store `memory`."""

    dimension: int | None = None
    """Columns of a row; None takes the width of the first rows."""

    def __post_init__(self) -> None:
        validate_dimension(self.dimension)


@dataclass(frozen=True)
class SqliteOptions:
    """Options of the store `sqlite`."""

    path: str | Path
    """The directory that holds the store; made when it is not there."""
    dimension: int | None = None
    """Columns of a row; None takes the width of the first rows, or what the directory says."""
    busy_seconds: float = 30.0
    """How long a write waits for another process that is writing."""

    def __post_init__(self) -> None:
        validate_dimension(self.dimension)
        if not self.busy_seconds >= 0:
            raise InvalidOption("busy_seconds", self.busy_seconds, "0 or more seconds")
