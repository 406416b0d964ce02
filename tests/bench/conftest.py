"""A small real benchmark: a few hundred rows, two built-in stores and the NumPy reference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragkit.bench.datasets import Dataset, generate_dataset
from ragkit.bench.results import BenchResult, Measurement, QueryLatencies, StoreResult
from ragkit.bench.run import BenchRun
from ragkit.bench.settings import BenchEntry, BenchSettings
from ragkit.bench.settings_file import parse_settings
from ragkit.records import JSON

SMALL: dict[str, object] = {
    "stores": [{"name": "sqlite"}, {"name": "memory"}, {"name": "numpy", "label": "floor"}],
    "queries": 20, "filtered_queries": 20, "rounds": 2, "round_seconds": 0.2, "warm_up": 2, "shares": [0.5, 0.01],
    "threads": 2,
}  # fmt: skip


def settings_of(tree: dict[str, object]) -> BenchSettings:
    """The settings of a file with this content: JSON is YAML too."""
    return parse_settings(json.dumps(tree))


@pytest.fixture(scope="session")
def small_settings() -> BenchSettings:
    return settings_of(SMALL)


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory, small_settings: BenchSettings) -> tuple[BenchResult, list[object]]:
    """The result of the small benchmark, and its events."""
    events: list[object] = []
    data = generate_dataset(tmp_path_factory.mktemp("bench") / "data", 600, 16, queries=20)
    return BenchRun(small_settings, data, events.append).run(), events


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    """500 rows of 8 columns, 10 queries."""
    return generate_dataset(tmp_path / "data", 500, 8, queries=10, seed=3)


def outcome_of(*lines: StoreResult) -> BenchResult:
    """A benchmark result with these stores."""
    machine: dict[str, JSON] = {
        "cpu": "a processor", "cores": 2, "memory_gb": 4.0, "system": "an OS", "python": "3.11.7", "versions": {},
        "load_before": 0.0,
    }  # fmt: skip
    stated: dict[str, JSON] = {"top_k": 10, "rounds": 2, "threads": 2, "shares": [0.5, 0.01]}
    data: dict[str, JSON] = {"name": "some rows", "rows": 100, "dimension": 8, "queries": 20, "fingerprint": "f00"}
    return BenchResult("20260101T000000-0000", machine, data, stated, lines)


def line_of(label: str, p50: float = 1.0, recall: float = 1.0, **more: float) -> StoreResult:
    """A store with these metrics; the others have arbitrary values."""
    line = StoreResult(BenchEntry("memory", label))
    figures = {
        "recall": recall, "p50_ms": p50, "p95_ms": 2 * p50, "p99_ms": 3 * p50, "qps_1": 1e3 / p50, "qps_n": 2e3 / p50,
        "cpu_ms": p50, "build_rate": 100.0, "raw_bytes": 1000.0, "disk_bytes": 2000.0, "f50:p50_ms": p50,
        "f50:recall": 1.0, "f1:p50_ms": p50, "f1:recall": 0.9, **more,
    }  # fmt: skip
    line.measurements = [Measurement({}, name, value) for name, value in figures.items()]
    line.latencies = [QueryLatencies({}, "all", 0, (p50, p50))]
    return line
