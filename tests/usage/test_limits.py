"""Limits: errors, warnings and validation."""

import pytest

from ragkit.errors import BudgetExceeded, InvalidOption, format_amount
from ragkit.usage.limits import Limits
from ragkit.usage.meter import Meter
from ragkit.usage.tokens import Tokens


def meter_with(tokens: int, dollars: float) -> Meter:
    meter = Meter()
    meter.record_chat("local", "m", Tokens(tokens, 0, cost_usd=dollars))
    return meter


def test_without_limits_no_usage_is_rejected() -> None:
    Limits().check(meter_with(10**9, 1e6), 1e9)
    assert Limits().warnings(meter_with(10**9, 1e6), 1e9) == []


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(max_tokens=100), "budget of 100 tokens exceeded .100 spent."),
        (Limits(max_cost_usd=0.5), "budget of 0.5 USD exceeded .0.5 spent."),
        (Limits(max_seconds=3), "budget of 3 seconds exceeded .3 spent."),
    ],
)
def test_reaching_a_limit_is_an_error(limits: Limits, message: str) -> None:
    with pytest.raises(BudgetExceeded, match=message):
        limits.check(meter_with(100, 0.5), 3)


def test_usage_below_the_limits_is_allowed() -> None:
    Limits(max_tokens=101, max_cost_usd=0.51, max_seconds=3.1).check(meter_with(100, 0.5), 3)


def test_a_budget_of_zero_is_exceeded_at_once() -> None:
    with pytest.raises(BudgetExceeded, match="budget of 0 USD exceeded"):
        Limits(max_cost_usd=0).check(Meter(), 0)


def test_warnings_start_at_the_warning_threshold() -> None:
    limits = Limits(max_tokens=100, max_cost_usd=1.0, warn_at=0.8)
    assert limits.warnings(meter_with(79, 0.0), 0) == []
    assert limits.warnings(meter_with(80, 0.9), 0) == [("tokens", 80.0, 100.0), ("USD", 0.9, 1.0)]


def test_a_threshold_warns_without_a_limit() -> None:
    limits = Limits(warn_tokens=100, warn_cost_usd=0.5)
    assert limits.warnings(meter_with(99, 0.4), 0) == []
    assert limits.warnings(meter_with(100, 0.5), 0) == [("tokens", 100.0, 100.0), ("USD", 0.5, 0.5)]
    limits.check(meter_with(10**9, 1e6), 1e9)
    assert limits.is_set


def test_limits_out_of_range_are_rejected() -> None:
    with pytest.raises(InvalidOption, match=r"max_tokens must be >= 0 \(got -1\)"):
        Limits(max_tokens=-1)
    with pytest.raises(InvalidOption, match="warn_at must be > 0 and <= 1"):
        Limits(warn_at=0)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0"), (1e-5, "0.00001"), (5.23e-5, "0.000052"), (0.001, "0.001"), (1.25, "1.25"), (1e7, "10000000")],
)
def test_amounts_are_written_without_an_exponent(amount: float, text: str) -> None:
    assert format_amount(amount) == text
