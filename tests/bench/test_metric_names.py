"""Names and units of metrics."""

from __future__ import annotations

import pytest

from ragkit.bench.metric_names import METRIC_NAMES, format_metric, is_shown, metric_name, metric_order, metric_unit


def test_every_metric_has_one_name_of_its_own() -> None:
    shown = [name.name + name.unit for metric, name in METRIC_NAMES.items() if is_shown(metric)]
    assert len({*shown}) == len(shown)


def test_a_metric_of_a_filter_is_named_with_it() -> None:
    assert metric_name("p50_ms") == "latency p50"
    assert metric_name("f0.1:p50_ms") == "latency p50, filter 0.1\u00a0%"
    assert (metric_unit("f50:p50_ms"), metric_unit("recall")) == ("ms", "")
    assert metric_name("of a later version") == "of a later version"


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("p50_ms", 0.4412, "0.441 ms"),
        ("qps_1", 6810.4, "6,810/s"),
        ("build_rate", 6810.4, "6,810 rows/s"),
        ("disk_bytes", 16_100_000.0, "16.1 MB"),
        ("f1:recall", 0.98, "0.9800"),
        ("recall_after", 1.0, "1.0000"),
        ("query_memory", 2.0, "2"),
        ("dollars", 0.5, "$0.5"),
    ],
)
def test_a_value_has_its_unit(metric: str, value: float, text: str) -> None:
    assert format_metric(metric, value) == text


def test_metrics_are_listed_as_in_the_tables() -> None:
    metrics = ["build_rate", "f1:recall", "recall_after", "f50:p50_ms", "p50_ms", "f50:recall", "recall"]
    assert sorted(metrics, key=metric_order) == [
        "recall", "p50_ms", "f50:recall", "f50:p50_ms", "f1:recall", "build_rate", "recall_after",
    ]  # fmt: skip


def test_people_are_shown_no_metric_twice() -> None:
    assert [is_shown(metric) for metric in ("p95_ms", "f1:p95_ms", "f1:p50_ms", "add_ms", "add_rate")] == [
        True, False, True, True, False,
    ]  # fmt: skip
