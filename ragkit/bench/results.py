"""The results of a benchmark: raw measurements, their medians, and the JSON file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal, TypeAlias, cast

from ragkit.bench.settings import BenchEntry, SweepPoint
from ragkit.errors import InvalidOption
from ragkit.masking import is_secret, mask_passwords
from ragkit.records import JSON

StoreStatus: TypeAlias = Literal["ok", "missing", "failed", "time limit", "interrupted"]
FORMAT_VERSION = 1
"""Version of the JSON file."""

SEARCH_METRICS = ("recall", "p50_ms", "p95_ms", "p99_ms", "qps_1", "cpu_ms", "asked")
"""The metrics of a round, which each sweep point has."""


@dataclass(frozen=True)
class Measurement:
    """One measured value."""

    sweep_point: SweepPoint
    name: str
    value: float
    round: int = 0
    """From 0; metrics that are measured once have round 0."""


@dataclass(frozen=True)
class QueryLatencies:
    """The latency of each query of a round in milliseconds, in the order of the queries."""

    sweep_point: SweepPoint
    condition: str
    round: int
    ms: tuple[float, ...]


@dataclass
class StoreResult:
    """All measurements of one entry. They are appended during the run."""

    entry: BenchEntry
    status: StoreStatus = "ok"
    reason: str = ""
    """Why the status is not ok, or what was skipped."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the packages in the store's optional dependency group."""
    measurements: list[Measurement] = field(default_factory=list)
    latencies: list[QueryLatencies] = field(default_factory=list)

    def medians(self, setting: SweepPoint | None = None) -> dict[str, float]:
        """The median over the rounds of each metric, at one sweep point; None: without a sweep."""
        values_by_name: dict[str, list[float]] = {}
        for measurement in self.measurements:
            if dict(measurement.sweep_point) == dict(setting or {}):
                values_by_name.setdefault(measurement.name, []).append(measurement.value)
        return {name: median(values) for name, values in values_by_name.items()}

    def curve_points(self) -> Iterator[tuple[SweepPoint, dict[str, float]]]:
        """Each measured sweep point with its medians."""
        for point in self.entry.sweep_points():
            medians = self.medians(point)
            if "recall" in medians:
                yield point, medians


@dataclass(frozen=True)
class BenchResult:
    """The complete result of a benchmark."""

    run_id: str
    """Start time and a random suffix."""
    machine: Mapping[str, JSON]
    data: Mapping[str, JSON]
    settings: Mapping[str, JSON]
    stores: tuple[StoreResult, ...]

    def to_json(self) -> dict[str, JSON]:
        """The content of the JSON file and the output of `bench --json`."""
        return {
            "format": FORMAT_VERSION,
            "run": self.run_id,
            "machine": self.machine,
            "data": self.data,
            "settings": self.settings,
            "stores": [_store_json(store) for store in self.stores],
        }


def _store_json(store: StoreResult) -> dict[str, JSON]:
    curve: list[JSON] = [
        {"setting": dict(setting), **_round_values({name: figures[name] for name in SEARCH_METRICS if name in figures})}
        for setting, figures in store.curve_points()
    ]
    return {
        "label": store.entry.label,
        "store": store.entry.name,
        "status": store.status,
        "reason": store.reason,
        "versions": dict(store.versions),
        "options": _public_options(store.entry.options),
        "figures": _round_values(store.medians()),
        "curve": curve if store.entry.sweep else [],
    }


def _public_options(options: Mapping[str, JSON]) -> dict[str, JSON]:
    """The options without secrets, and without passwords in URLs."""
    public = {name: value for name, value in options.items() if not is_secret(name)}
    return {name: mask_passwords(value) if isinstance(value, str) else value for name, value in public.items()}


def _round_values(figures: Mapping[str, float]) -> dict[str, JSON]:
    return {name: float(f"{value:.6g}") for name, value in figures.items()}


@dataclass(frozen=True)
class SavedStoreResult:
    """One store of a result that was read from a file."""

    label: str
    status: str
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class BenchBaseline:
    """A result that was read from a file, to compare other results with."""

    run_id: str
    cpu: str
    data_fingerprint: str
    """Fingerprint of the rows and queries."""
    top_k: int
    threads: int
    stores: tuple[SavedStoreResult, ...]


def read_baseline(path: Path) -> BenchBaseline:
    """Read a result file. Raises InvalidOption if it is not one."""
    try:
        tree = json.loads(path.read_text("utf-8"))
        if tree["format"] != FORMAT_VERSION:
            expected = f"a result of format {FORMAT_VERSION}; this one has format {tree['format']}"
            raise InvalidOption("--check", str(path), expected)
        stores = tuple(SavedStoreResult(store["label"], store["status"], store["figures"]) for store in tree["stores"])
        return BenchBaseline(
            run_id=tree["run"],
            cpu=tree["machine"]["cpu"],
            data_fingerprint=tree["data"]["fingerprint"],
            top_k=tree["settings"]["top_k"],
            threads=tree["settings"]["threads"],
            stores=stores,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidOption("--check", str(path), f"a result file of `ragkit bench`: {error}") from error


def to_saved_results(outcome: BenchResult) -> tuple[SavedStoreResult, ...]:
    """The stores of a result as `read_baseline` returns them."""
    return tuple(
        SavedStoreResult(store.entry.label, store.status, cast("dict[str, float]", _round_values(store.medians())))
        for store in outcome.stores
    )
