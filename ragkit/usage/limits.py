"""Limits of a run: tokens, US dollars, seconds. Checked before each request."""

from __future__ import annotations

from dataclasses import dataclass

from ragkit.argument_types import check_types
from ragkit.errors import BudgetExceeded, InvalidOption
from ragkit.usage.meter import Meter


@check_types()
@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run. None: no limit."""

    max_tokens: int | None = None
    """Tokens sent, received and embedded."""
    max_cost_usd: float | None = None
    """US dollars. Calls with an unknown price count as 0."""
    max_seconds: float | None = None
    """Seconds from the start of the run, including waits for models and tools."""
    warn_at: float = 0.8
    """The share of a limit, in (0, 1], at which a run warns once."""
    warn_tokens: int | None = None
    """Tokens at which a run warns once and goes on."""
    warn_cost_usd: float | None = None
    """US dollars at which a run warns once and goes on."""

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_cost_usd", "max_seconds", "warn_tokens", "warn_cost_usd"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InvalidOption(name, value, ">= 0")
        if not 0 < self.warn_at <= 1:
            raise InvalidOption("warn_at", self.warn_at, "> 0 and <= 1")

    @property
    def is_set(self) -> bool:
        """Whether a limit or a threshold of a warning is set."""
        return (
            self.max_tokens is not None
            or self.max_cost_usd is not None
            or self.max_seconds is not None
            or self.warn_tokens is not None
            or self.warn_cost_usd is not None
        )

    def spent_by_unit(self, meter: Meter, seconds: float) -> list[tuple[str, float, float]]:
        """(unit, spent, limit) of each limit that is set."""
        rows = [
            ("tokens", float(meter.total_tokens), self.max_tokens),
            ("USD", meter.known_cost_usd, self.max_cost_usd),
            ("seconds", seconds, self.max_seconds),
        ]
        return [(unit, spent, float(limit)) for unit, spent, limit in rows if limit is not None]

    def check(self, meter: Meter, seconds: float) -> None:
        """Raises BudgetExceeded if a limit is reached, or the budget of the meter or an enclosing one."""
        meter.check_budget()
        for unit, spent, limit in self.spent_by_unit(meter, seconds):
            if spent >= limit:
                raise BudgetExceeded(unit, spent, limit)

    def warnings(self, meter: Meter, seconds: float) -> list[tuple[str, float, float]]:
        """(unit, spent, limit) of the limits that are used up to `warn_at` or more, and of the thresholds reached."""
        near = [row for row in self.spent_by_unit(meter, seconds) if row[1] >= row[2] * self.warn_at]
        thresholds = Limits(max_tokens=self.warn_tokens, max_cost_usd=self.warn_cost_usd)
        return near + [row for row in thresholds.spent_by_unit(meter, seconds) if row[1] >= row[2]]
