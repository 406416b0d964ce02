"""The settings of a benchmark: the stores with their options, the amount of data, queries and rounds.

`settings_file` reads them from YAML. Store names and their options are not validated here: a store that cannot be
opened is reported in the result, with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from ragkit.config.yaml_parser import resolve_scalar
from ragkit.errors import InvalidOption
from ragkit.records import JSON

SweepPoint = Mapping[str, JSON]
"""Options that override those of the entry: one point of a curve. Empty: the entry without a sweep."""

SERVER_ADDRESS_OPTIONS = ("host", "uri", "url", "dsn")
"""Options that name a server; with one of them a store needs no `path`."""


def _require_at_least(option: str, value: float, minimum: float) -> None:
    if not value >= minimum:
        raise InvalidOption(option, value, f">= {minimum:g}")


@dataclass(frozen=True)
class BenchEntry:
    """One store of the benchmark with its options."""

    name: str
    """The registered name of a store, or `numpy` for the reference."""
    label: str = ""
    """The unique name in tables and plots; empty: the name."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the store. `path`, `collection`, `table` and `namespace` have defaults."""
    sweep: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Options to vary and their values; each combination is one point of the curve."""
    dollars_per_hour: float | None = None
    """Cost of the server, in US dollars; None: unknown."""
    dollars_per_million_queries: float | None = None
    """Cost of a service with a price per query, in US dollars; None: unknown."""

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.name)

    def sweep_points(self) -> Iterator[SweepPoint]:
        """The empty point, then every combination of the sweep."""
        yield {}
        if self.sweep:
            for values in product(*self.sweep.values()):
                yield dict(zip(self.sweep, values, strict=True))


@dataclass(frozen=True)
class GeneratedData:
    """The size of a generated dataset."""

    rows: int = 10_000
    """At least 100."""
    dimension: int = 384
    """At least 2."""

    def __post_init__(self) -> None:
        _require_at_least("data.rows", self.rows, 100)
        _require_at_least("data.dimension", self.dimension, 2)


@dataclass(frozen=True)
class BenchSettings:
    """The content of a settings file."""

    stores: tuple[BenchEntry, ...]
    data: GeneratedData = GeneratedData()
    """The generated dataset, if no other data is given."""
    top_k: int = 10
    """Hits per query."""
    queries: int = 200
    """Queries per round, at most."""
    filtered_queries: int = 50
    """Queries per round and filter, at most."""
    rounds: int = 3
    """Number of rounds. A metric is the median of its rounds."""
    round_seconds: float = 2.0
    """Time limit of a round, in seconds; at least 20 queries run."""
    warm_up: int = 10
    """Queries before each measurement that are not measured."""
    shares: tuple[float, ...] = (0.5, 0.1, 0.01, 0.001)
    """Shares of the rows that the filters select, between 0 and 1."""
    threads: int = 0
    """Threads of the concurrent measurement; 0: the number of cores."""
    batch: int = 1000
    """Rows per add call."""
    seed: int = 1
    """Seed of all random choices."""
    store_seconds: float = 300.0
    """Time limit of one store, in seconds; measurements before the limit are kept."""

    def __post_init__(self) -> None:
        if not self.stores:
            raise InvalidOption("stores", [], "at least one store")
        labels = [entry.label for entry in self.stores]
        for label in labels:
            if labels.count(label) > 1:
                raise InvalidOption("label", label, "unique")
        for option in ("top_k", "queries", "filtered_queries", "rounds", "warm_up", "batch"):
            _require_at_least(option, getattr(self, option), 1)
        _require_at_least("threads", self.threads, 0)
        for option in ("round_seconds", "store_seconds"):
            _require_at_least(option, getattr(self, option), 0.001)
        for share in self.shares:
            if not 0 < share < 1:
                raise InvalidOption("shares", share, "between 0 and 1 (exclusive)")

    @property
    def thread_count(self) -> int:
        """The number of threads, with 0 resolved to the number of cores."""
        return self.threads or len(available_cores())


def available_cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def expand_variables(options: Mapping[str, JSON], types: Mapping[str, object] | None = None) -> dict[str, JSON]:
    """Replace `${NAME}` by the value of the environment variable, as a number if `types` has one for the option.

    Raises InvalidOption if the variable is not set.
    """
    hints = types or {}
    return {option: _expand_variable(option, value, hints.get(option)) for option, value in options.items()}


def _expand_variable(option: str, value: JSON, hint: object) -> JSON:
    if not (isinstance(value, str) and value.startswith("${") and value.endswith("}")):
        return value
    name, _, fallback = value[2:-1].partition(":-")
    expanded = os.environ.get(name) or fallback
    if not expanded:
        raise InvalidOption(option, value, "an environment variable that is set")
    return resolve_scalar(expanded) if hint in (bool, int, float) else expanded
