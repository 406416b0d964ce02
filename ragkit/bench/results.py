"""What a benchmark has found: figures as they came, their medians, and the JSON that holds them."""

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
"""Of the JSON file."""

METRIC_DESCRIPTIONS: Mapping[str, str] = {
    "recall": "share of the nearest rows that were found",
    "p50_ms": "time of a query that half of them stay under, one thread",
    "p95_ms": "the same for 95 of 100",
    "p99_ms": "the same for 99 of 100",
    "qps_1": "queries a second, one thread",
    "qps_n": "queries a second, several threads",
    "cpu_ms": "time of all cores for a query; of a server, the client's part",
    "asked": "queries of a round",
    "build_s": "putting all rows in, up to the first answer",
    "put_s": "the same without the first answer",
    "build_cpu_s": "the same as build_s, in time of all cores",
    "build_rate": "rows a second, up to the first answer",
    "import_s": "importing the packages",
    "open_ms": "opening in a new process, files not in memory",
    "cold_ms": "the same, and a first answer",
    "disk_bytes": "files on the disk",
    "raw_bytes": "the rows themselves, as float32",
    "build_memory": "peak memory while building, over the bytes of the rows; packages not counted",
    "query_memory": "the same while answering",
    "add_ms": "adding 1 %, up to an answer",
    "add_rate": "the same in rows a second",
    "delete_ms": "deleting 1 %, up to an answer",
    "delete_rate": "the same in rows a second",
    "p50_ms_after": "as p50_ms, after both",
    "recall_after": "as recall, after both",
    "read_ms": "reading all rows once, one thread",
    "read_gb_s": "the same as a bandwidth",
    "dollars": "US dollars for a million queries, one thread",
}
"""What each figure is. Under a filter its name is preceded by the filter's: `f1:p50_ms`."""
SEARCH_METRICS = ("recall", "p50_ms", "p95_ms", "p99_ms", "qps_1", "cpu_ms", "asked")
"""The figures of a round: those that a point of a curve has."""


@dataclass(frozen=True)
class Measurement:
    """One number as it was measured."""

    sweep_point: SweepPoint
    """The point of the curve; empty: the entry as it stands."""
    name: str
    value: float
    round: int = 0
    """Counted from 0; figures that are taken once have 0."""


@dataclass(frozen=True)
class QueryLatencies:
    """Each query of a round, in milliseconds, in the order of the queries."""

    sweep_point: SweepPoint
    condition: str
    round: int
    ms: tuple[float, ...]


@dataclass
class StoreResult:
    """All that is known of one entry. It grows while the benchmark runs."""

    entry: BenchEntry
    status: StoreStatus = "ok"
    reason: str = ""
    """Why it is not ok."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of the packages that it needs beyond the core."""
    measurements: list[Measurement] = field(default_factory=list)
    latencies: list[QueryLatencies] = field(default_factory=list)

    def medians(self, setting: SweepPoint | None = None) -> dict[str, float]:
        """Of each figure the median of its rounds, at one point of the curve; None: the entry as it stands."""
        taken: dict[str, list[float]] = {}
        for figure in self.measurements:
            if dict(figure.sweep_point) == dict(setting or {}):
                taken.setdefault(figure.name, []).append(figure.value)
        return {name: median(values) for name, values in taken.items()}

    def curve_points(self) -> Iterator[tuple[SweepPoint, dict[str, float]]]:
        """Each point that was measured, with its medians."""
        for point in self.entry.sweep_points():
            figures = self.medians(point)
            if "recall" in figures:
                yield point, figures


@dataclass(frozen=True)
class BenchResult:
    """A benchmark's whole result."""

    run_id: str
    """Its name: the time at which it began, and something drawn by lot."""
    machine: Mapping[str, JSON]
    data: Mapping[str, JSON]
    settings: Mapping[str, JSON]
    stores: tuple[StoreResult, ...]

    def to_json(self) -> dict[str, JSON]:
        """The shape of the JSON file and of `bench --json`."""
        return {
            "format": FORMAT_VERSION,
            "run": self.run_id,
            "machine": self.machine,
            "data": self.data,
            "settings": self.settings,
            "stores": [_store_json(line) for line in self.stores],
        }


def _store_json(line: StoreResult) -> dict[str, JSON]:
    curve: list[JSON] = [
        {"setting": dict(setting), **_round_values({name: figures[name] for name in SEARCH_METRICS if name in figures})}
        for setting, figures in line.curve_points()
    ]
    return {
        "label": line.entry.label,
        "store": line.entry.name,
        "status": line.status,
        "reason": line.reason,
        "versions": dict(line.versions),
        "options": _public_options(line.entry.options),
        "figures": _round_values(line.medians()),
        "curve": curve if line.entry.sweep else [],
    }


def _public_options(options: Mapping[str, JSON]) -> dict[str, JSON]:
    """The options as they may be passed on: without keys, and without passwords in addresses."""
    return {
        name: mask_passwords(value) if isinstance(value, str) else value
        for name, value in options.items()
        if not is_secret(name)
    }


def _round_values(figures: Mapping[str, float]) -> dict[str, JSON]:
    return {name: float(f"{value:.6g}") for name, value in figures.items()}


@dataclass(frozen=True)
class SavedStoreResult:
    """One entry of a result that was read back."""

    label: str
    status: str
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class BenchBaseline:
    """A result that was read back, as far as others are held against it."""

    run_id: str
    cpu: str
    data_fingerprint: str
    """Fingerprint of the rows and queries."""
    top_k: int
    threads: int
    stores: tuple[SavedStoreResult, ...]


def read_baseline(path: Path) -> BenchBaseline:
    """A JSON file that a benchmark wrote. Raises InvalidOption."""
    try:
        tree = json.loads(path.read_text("utf-8"))
        if tree["format"] != FORMAT_VERSION:
            raise InvalidOption(
                "--check", str(path), f"a result of format {FORMAT_VERSION}, this one is of {tree['format']},"
            )
        lines = tuple(SavedStoreResult(one["label"], one["status"], one["figures"]) for one in tree["stores"])
        return BenchBaseline(
            run_id=tree["run"],
            cpu=tree["machine"]["cpu"],
            data_fingerprint=tree["data"]["fingerprint"],
            top_k=tree["settings"]["top_k"],
            threads=tree["settings"]["threads"],
            stores=lines,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidOption("--check", str(path), f"a result of `ragkit bench` ({error})") from error


def to_saved_results(outcome: BenchResult) -> tuple[SavedStoreResult, ...]:
    """The lines of a result, as they are when they are read back."""
    return tuple(
        SavedStoreResult(line.entry.label, line.status, cast("dict[str, float]", _round_values(line.medians())))
        for line in outcome.stores
    )
