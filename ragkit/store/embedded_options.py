"""The options of the stores that live in this process, importable without any store's own packages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ragkit.errors import InvalidOption
from ragkit.store.options import _check_dimension


def _check_least(option: str, met: float, least: float) -> None:
    if not met >= least:
        raise InvalidOption(option, met, f"{least:g} or more")


@dataclass(frozen=True)
class DuckdbOptions:
    """Options of the store `duckdb`."""

    path: str | Path
    """The file that holds the store; it and its directory are made when they are not there."""
    dimension: int | None = None
    """Columns of a row; None takes the width of the first rows, or what the file says."""

    def __post_init__(self) -> None:
        _check_dimension(self.dimension)
