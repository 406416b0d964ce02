"""The names and units of metrics, as people read them: `latency p50, filter 1 %`, `0.441 ms`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragkit.bench.tables import format_number, format_share


@dataclass(frozen=True)
class MetricName:
    """How a metric is called and what it is counted in."""

    name: str
    unit: str = ""
    """Follows the number; empty: none."""


METRIC_NAMES: Mapping[str, MetricName] = {
    "recall": MetricName("recall"),
    "p50_ms": MetricName("latency p50", "ms"),
    "p95_ms": MetricName("latency p95", "ms"),
    "p99_ms": MetricName("latency p99", "ms"),
    "cpu_ms": MetricName("CPU time", "ms"),
    "qps_1": MetricName("queries, 1 thread", "/s"),
    "qps_n": MetricName("queries, all threads", "/s"),
    "asked": MetricName("queries per round"),
    "build_rate": MetricName("build", "rows/s"),
    "build_s": MetricName("build time", "s"),
    "put_s": MetricName("build time without first query", "s"),
    "build_cpu_s": MetricName("build CPU time", "s"),
    "build_memory": MetricName("build memory / rows"),
    "query_memory": MetricName("query memory / rows"),
    "disk_bytes": MetricName("disk", "MB"),
    "raw_bytes": MetricName("size of the rows", "MB"),
    "import_s": MetricName("import time", "s"),
    "open_ms": MetricName("cold open without query", "ms"),
    "cold_ms": MetricName("cold open", "ms"),
    "add_ms": MetricName("add 1\u00a0%", "ms"),
    "add_rate": MetricName("add", "rows/s"),
    "delete_ms": MetricName("delete 1\u00a0%", "ms"),
    "delete_rate": MetricName("delete", "rows/s"),
    "p50_ms_after": MetricName("latency p50 after changes", "ms"),
    "recall_after": MetricName("recall after changes"),
    "p50_ms_quarter": MetricName("latency p50, a quarter of the rows", "ms"),
    "recall_quarter": MetricName("recall, a quarter of the rows"),
    "p50_ms_beside_quarter": MetricName("latency p50, all rows, beside it", "ms"),
    "read_ms": MetricName("reading all rows once", "ms"),
    "read_gb_s": MetricName("memory bandwidth", "GB/s"),
    "dollars": MetricName("price of a million queries", "$"),
}
"""The metrics in the order in which they are listed."""
REPEATED_METRICS = ("add_rate", "delete_rate", "build_s", "put_s", "open_ms", "p50_ms_beside_quarter")
"""Metrics that say the same as another one in another way."""
FILTER_METRICS = ("recall", "p50_ms")
"""The metrics of a filter that people are shown, as in the tables."""


def is_shown(metric: str) -> bool:
    """Whether people are shown a metric; the JSON has all of them."""
    condition, _, base = metric.rpartition(":")
    return base in FILTER_METRICS if condition else base not in REPEATED_METRICS


def metric_name(metric: str) -> str:
    """The name of a metric, with its filter: `latency p50, filter 1 %` for `f1:p50_ms`."""
    condition, _, base = metric.rpartition(":")
    name = METRIC_NAMES[base].name if base in METRIC_NAMES else base
    return f"{name}, filter {format_share(float(condition[1:]) / 100)}" if condition else name


def metric_unit(metric: str) -> str:
    """The unit of a metric as it is shown; empty if it has none."""
    base = metric.rpartition(":")[2]
    return METRIC_NAMES[base].unit if base in METRIC_NAMES else ""


def format_metric(metric: str, value: float) -> str:
    """A value with its unit: `0.441 ms`, `6,810 rows/s`, `$0.5`; recall with four digits."""
    if metric.rpartition(":")[2].startswith("recall"):
        return f"{value:.4f}"
    unit = metric_unit(metric)
    number = format_number(value / 1e6 if unit == "MB" else value)
    if unit == "$":
        return f"${number}"
    return f"{number}{unit}" if unit == "/s" else f"{number} {unit}".rstrip()


def metric_order(metric: str) -> tuple[int, float, int]:
    """A key that sorts metrics: queries first, then those with filters from wide to narrow, then the others."""
    condition, _, base = metric.rpartition(":")
    names = [*METRIC_NAMES]
    place = names.index(base) if base in METRIC_NAMES else len(names)
    is_query = place <= names.index("asked")
    return (0 if is_query else 1, -float(condition[1:]) if condition else -1000.0, place)
