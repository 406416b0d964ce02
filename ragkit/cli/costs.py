"""The --max-cost option, and the format of costs."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, TypeVar

import click

from ragkit.errors import format_amount

Command = TypeVar("Command", bound=Callable[..., Any])


def _check_finite(_: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not isfinite(value):
        raise click.BadParameter(f"must be a finite amount of US dollars (got {value})", param=parameter)
    return value


def max_cost_option(help_text: str) -> Callable[[Command], Command]:
    """`--max-cost USD`, or RAGKIT_MAX_COST."""
    return click.option(
        "--max-cost",
        type=click.FloatRange(min=0),
        metavar="USD",
        envvar="RAGKIT_MAX_COST",
        callback=_check_finite,
        help=f"{help_text} (also RAGKIT_MAX_COST).",
    )


def format_usd(cost: float | None) -> str:
    """`$0.0012`, `no cost` or `price unknown`; small amounts have two significant digits."""
    if cost is None:
        return "price unknown"
    if cost == 0:
        return "no cost"
    if cost < 0.0001:
        return f"${format_amount(cost)}"
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}"
