"""What a benchmark has found: figures as they came, their medians, and the JSON that holds them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal, TypeAlias, cast

from ragkit.bench.settings import Entry, Setting
from ragkit.errors import InvalidOption
from ragkit.masking import is_secret, without_password
from ragkit.records import JSON

Status: TypeAlias = Literal["ok", "missing", "failed", "time limit", "interrupted"]
FORMAT = 1
"""Of the JSON file."""

FIGURES: Mapping[str, str] = {
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
SEARCHING = ("recall", "p50_ms", "p95_ms", "p99_ms", "qps_1", "cpu_ms", "asked")
"""The figures of a round: those that a point of a curve has."""


@dataclass(frozen=True)
class Figure:
    """One number as it was measured."""

    setting: Setting
    """The point of the curve; empty: the entry as it stands."""
    name: str
    value: float
    round: int = 0
    """Counted from 0; figures that are taken once have 0."""


@dataclass(frozen=True)
class Latencies:
    """Each query of a round, in milliseconds, in the order of the queries."""

    setting: Setting
    condition: str
    round: int
    ms: tuple[float, ...]


@dataclass
class Line:
    """All that is known of one entry. It grows while the benchmark runs."""

    entry: Entry
    status: Status = "ok"
    reason: str = ""
    """Why it is not ok."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of the packages that it needs beyond the core."""
    figures: list[Figure] = field(default_factory=list)
    latencies: list[Latencies] = field(default_factory=list)

    def medians(self, setting: Setting | None = None) -> dict[str, float]:
        """Of each figure the median of its rounds, at one point of the curve; None: the entry as it stands."""
        taken: dict[str, list[float]] = {}
        for figure in self.figures:
            if dict(figure.setting) == dict(setting or {}):
                taken.setdefault(figure.name, []).append(figure.value)
        return {name: median(values) for name, values in taken.items()}

    def curve(self) -> Iterator[tuple[Setting, dict[str, float]]]:
        """Each point that was measured, with its medians."""
        for point in self.entry.points():
            figures = self.medians(point)
            if "recall" in figures:
                yield point, figures


@dataclass(frozen=True)
class Outcome:
    """A benchmark's whole result."""

    run: str
    """Its name: the time at which it began, and something drawn by lot."""
    machine: Mapping[str, JSON]
    data: Mapping[str, JSON]
    settings: Mapping[str, JSON]
    lines: tuple[Line, ...]

    def to_json(self) -> dict[str, JSON]:
        """The shape of the JSON file and of `bench --json`."""
        return {
            "format": FORMAT,
            "run": self.run,
            "machine": self.machine,
            "data": self.data,
            "settings": self.settings,
            "stores": [_line_json(line) for line in self.lines],
        }


def _line_json(line: Line) -> dict[str, JSON]:
    curve: list[JSON] = [
        {"setting": dict(setting), **_round({name: figures[name] for name in SEARCHING if name in figures})}
        for setting, figures in line.curve()
    ]
    return {
        "label": line.entry.label,
        "store": line.entry.name,
        "status": line.status,
        "reason": line.reason,
        "versions": dict(line.versions),
        "options": _told(line.entry.options),
        "figures": _round(line.medians()),
        "curve": curve if line.entry.sweep else [],
    }


def _told(options: Mapping[str, JSON]) -> dict[str, JSON]:
    """The options as they may be passed on: without keys, and without passwords in addresses."""
    return {
        name: without_password(value) if isinstance(value, str) else value
        for name, value in options.items()
        if not is_secret(name)
    }


def _round(figures: Mapping[str, float]) -> dict[str, JSON]:
    return {name: float(f"{value:.6g}") for name, value in figures.items()}


@dataclass(frozen=True)
class Saved:
    """One entry of a result that was read back."""

    label: str
    status: str
    figures: Mapping[str, float]


@dataclass(frozen=True)
class Baseline:
    """A result that was read back, as far as others are held against it."""

    run: str
    cpu: str
    data: str
    """Fingerprint of the rows and queries."""
    top_k: int
    threads: int
    lines: tuple[Saved, ...]


def read_baseline(path: Path) -> Baseline:
    """A JSON file that a benchmark wrote. Raises InvalidOption."""
    try:
        tree = json.loads(path.read_text("utf-8"))
        if tree["format"] != FORMAT:
            raise InvalidOption("--check", str(path), f"a result of format {FORMAT}, this one is of {tree['format']},")
        lines = tuple(Saved(one["label"], one["status"], one["figures"]) for one in tree["stores"])
        return Baseline(
            run=tree["run"],
            cpu=tree["machine"]["cpu"],
            data=tree["data"]["fingerprint"],
            top_k=tree["settings"]["top_k"],
            threads=tree["settings"]["threads"],
            lines=lines,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidOption("--check", str(path), f"a result of `ragkit bench` ({error})") from error


def saved(outcome: Outcome) -> tuple[Saved, ...]:
    """The lines of a result, as they are when they are read back."""
    return tuple(
        Saved(line.entry.label, line.status, cast("dict[str, float]", _round(line.medians()))) for line in outcome.lines
    )
