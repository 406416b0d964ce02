"""How the time of a query grows with the number of rows, from the times that were measured at two sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ragkit.bench.styles import SearchKind

MIN_EXPONENT = 0.1
"""A graph is never extrapolated with less growth: from 50,000 to 5,000,000 rows its depth grows by 1.4 times."""
MIN_DIFFERENCE = 1.1
"""An exact search must take this many times as long with four times the rows; else other costs hide its growth."""


@dataclass(frozen=True)
class Growth:
    """The time of a query for numbers of rows from `rows` on: a line, or a power of the number."""

    rows: int
    ms: float
    """The measured time at `rows`."""
    slope: float = 0.0
    """Milliseconds per further row; 0: a power."""
    exponent: float = 0.0

    def at(self, rows: float) -> float:
        """Milliseconds at a number of rows."""
        return (self.ms + self.slope * (rows - self.rows)) * math.pow(rows / self.rows, self.exponent)


def fit_growth(kind: SearchKind, measured: tuple[int, float], *, small_rows: int, ratio: float) -> Growth | None:
    """The growth of a store, or None if it cannot be told.

    An exact search reads all rows, so its time is a line. That of other searches is a power whose exponent is the
    measured one, from MIN_EXPONENT to 1.

    Args:
        measured: the number of rows, and the time in milliseconds.
        small_rows: the smaller number of rows.
        ratio: the time with the small number of rows, as a share of that with all, both measured in turn.
    """
    rows, ms = measured
    if not ratio > 0 or not 0 < small_rows < rows:
        return None
    if kind == "exact":
        if ratio * MIN_DIFFERENCE > 1:
            return None
        return Growth(rows, ms, slope=(ms - ratio * ms) / (rows - small_rows))
    exponent = -math.log(ratio) / math.log(rows / small_rows)
    return Growth(rows, ms, exponent=min(max(exponent, MIN_EXPONENT), 1.0))
