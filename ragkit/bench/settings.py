"""Reads and validates the settings file of a benchmark.

    data: {rows: 10000, dimension: 384}
    rounds: 3
    stores:
      - {name: sqlite}
      - {name: faiss, label: faiss hnsw, options: {method: hnsw}, sweep: {ef_search: [16, 64, 256]}}

An option may refer to an environment variable, `${PGVECTOR_DSN}`. Store names and their options are not validated
here: a store that cannot be opened is reported in the result, with the reason.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any, cast

from ragkit.errors import InvalidOption, did_you_mean
from ragkit.records import JSON

SweepPoint = Mapping[str, JSON]
"""Options that override those of the entry: one point of a curve. Empty: the entry without a sweep."""

_HERE = Path(__file__).resolve().parent


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
    options: Mapping[str, JSON] = field(default_factory=dict)
    """Options of the store. `path`, `collection`, `table` and `namespace` have defaults."""
    sweep: Mapping[str, tuple[JSON, ...]] = field(default_factory=dict)
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


def find_shipped_settings(name: str) -> Path | None:
    """The packaged settings file of this name (`quick`, `full`), or None."""
    packaged = _HERE / "settings_files"
    folder = packaged if packaged.is_dir() else _HERE.parent.parent / "configs"
    path = folder / f"bench-{name}.yaml"
    return path if path.is_file() else None


def read_settings(file: str | Path) -> BenchSettings:
    """Read a settings file, or a packaged one by name. Raises InvalidOption with file and key."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - a benchmark without a file does not pay for it
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415 - as above

    path = find_shipped_settings(str(file)) or Path(file)
    try:
        tree = YAML(typ="safe", pure=True).load(StringIO(path.read_text("utf-8")))
    except FileNotFoundError as error:
        raise InvalidOption("--settings", str(file), "`quick`, `full` or an existing file") from error
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        reason = " ".join(str(error).split())
        raise InvalidOption("--settings", str(path), f"a valid YAML file: {reason}") from error
    try:
        return parse_settings(tree)
    except InvalidOption as error:
        raise InvalidOption(f"{path}: {error.option}", error.value, error.expected) from error


def parse_settings(tree: object) -> BenchSettings:
    """Validate parsed YAML. Raises InvalidOption with the key."""
    table = _require_mapping("settings", tree)
    values = _check_keys(BenchSettings, table, "")
    listed = table.get("stores")
    if not isinstance(listed, list):
        raise InvalidOption("stores", listed, "a list of stores")
    values["stores"] = tuple(_parse_entry(entry, f"stores[{number}]") for number, entry in enumerate(listed))
    if "data" in table:
        data = _check_keys(GeneratedData, _require_mapping("data", table["data"]), "data.")
        values["data"] = GeneratedData(**{key: int(_parse_number(f"data.{key}", n, int)) for key, n in data.items()})
    if "shares" in table:
        if not isinstance(table["shares"], list):
            raise InvalidOption("shares", table["shares"], "a list of shares")
        values["shares"] = tuple(_parse_number("shares", share, float) for share in table["shares"])
    for option, value in values.items():
        if option not in {"stores", "data", "shares"}:
            values[option] = _parse_number(option, value, float if option.endswith("seconds") else int)
    return BenchSettings(**values)


def expand_variables(options: Mapping[str, JSON]) -> dict[str, JSON]:
    """Replace `${NAME}` by the value of the environment variable. Raises InvalidOption if it is not set."""
    return {option: _expand_variable(option, value) for option, value in options.items()}


def _expand_variable(option: str, value: JSON) -> JSON:
    if not (isinstance(value, str) and value.startswith("${") and value.endswith("}")):
        return value
    name, _, fallback = value[2:-1].partition(":-")
    expanded = os.environ.get(name) or fallback
    if not expanded:
        raise InvalidOption(option, value, "an environment variable that is set")
    return expanded


def _parse_entry(tree: object, where: str) -> BenchEntry:
    values = _check_keys(BenchEntry, _require_mapping(where, tree), f"{where}.")
    if not isinstance(values.get("name"), str):
        raise InvalidOption(f"{where}.name", values.get("name"), "the name of a store")
    if not isinstance(values.get("label", ""), str):
        raise InvalidOption(f"{where}.label", values["label"], "a string")
    values["options"] = _require_mapping(f"{where}.options", values.get("options") or {})
    sweep = _require_mapping(f"{where}.sweep", values.get("sweep") or {})
    for option, choices in sweep.items():
        if not isinstance(choices, list) or not choices:
            raise InvalidOption(f"{where}.sweep.{option}", choices, "a list of values")
    values["sweep"] = {option: tuple(cast("list[JSON]", choices)) for option, choices in sweep.items()}
    for price in ("dollars_per_hour", "dollars_per_million_queries"):
        if values.get(price) is not None:
            values[price] = _parse_number(f"{where}.{price}", values[price], float)
    return BenchEntry(**values)


def _check_keys(
    kind: type[BenchSettings | BenchEntry | GeneratedData], table: Mapping[str, object], where: str
) -> dict[str, Any]:
    known = [field.name for field in fields(kind)]
    for key in table:
        if key not in known:
            expected = f"one of {', '.join(known)}{did_you_mean(key, known)}"
            raise InvalidOption(f"key of {where.rstrip('.') or 'settings'}", key, expected)
    missing = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    for key in missing:
        if key not in table:
            raise InvalidOption(f"{where}{key}", None, "set")
    return dict(table)


def _parse_number(option: str, value: object, kind: type[int] | type[float]) -> float:
    allowed = int if kind is int else int | float
    if isinstance(value, bool) or not isinstance(value, allowed) or not math.isfinite(value):
        raise InvalidOption(option, value, "an integer" if kind is int else "a number")
    return value


def _require_mapping(where: str, tree: object) -> dict[str, object]:
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise InvalidOption(where, tree, "a mapping")
    return tree
