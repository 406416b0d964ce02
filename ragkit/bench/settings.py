"""What a benchmark is asked to do: the settings file, read and checked.

    data: {rows: 10000, dimension: 384}
    rounds: 3
    stores:
      - {name: sqlite}
      - {name: faiss, label: faiss hnsw, options: {method: hnsw}, sweep: {ef_search: [16, 64, 256]}}

An option may name a variable of the environment, `${PGVECTOR_DSN}`. Whether a store exists and takes its options is
seen when its turn comes: one that does not is a row of the result, with its reason.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from io import StringIO
from itertools import product
from pathlib import Path
from typing import cast

from ragkit.errors import InvalidOption, did_you_mean
from ragkit.records import JSON

SweepPoint = Mapping[str, JSON]
"""Options that differ from those of the entry: one point of a curve. Empty: the entry as it stands."""

_HERE = Path(__file__).resolve().parent


def _require_at_least(option: str, met: float, least: float) -> None:
    if not met >= least:
        raise InvalidOption(option, met, f">= {least:g}")


@dataclass(frozen=True)
class BenchEntry:
    """One line of the benchmark: a store with its options."""

    name: str
    """As the registry of stores knows it, or `numpy` for the floor."""
    label: str = ""
    """What it is called in tables and plots; empty takes the name. No two are the same."""
    options: Mapping[str, JSON] = field(default_factory=dict)
    """Of the store. `path` is filled in, and so are `collection`, `table` and `namespace`."""
    sweep: Mapping[str, tuple[JSON, ...]] = field(default_factory=dict)
    """Options that a search can change, and the values to try: each combination is a point of the curve."""
    dollars_per_hour: float | None = None
    """What the machine behind it costs, in US dollars; None: not known."""
    dollars_per_million_queries: float | None = None
    """For a service that is paid by the query; None: not known."""

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.name)

    def sweep_points(self) -> Iterator[SweepPoint]:
        """The entry as it stands, then every combination of the sweep."""
        yield {}
        if self.sweep:
            for values in product(*self.sweep.values()):
                yield dict(zip(self.sweep, values, strict=True))


@dataclass(frozen=True)
class GeneratedData:
    """The rows that are made when no others are given."""

    rows: int = 10_000
    """How many, at least 100."""
    dimension: int = 384
    """Columns of a row, at least 2."""

    def __post_init__(self) -> None:
        _require_at_least("data.rows", self.rows, 100)
        _require_at_least("data.dimension", self.dimension, 2)


@dataclass(frozen=True)
class BenchSettings:
    """All of a settings file."""

    stores: tuple[BenchEntry, ...]
    """The lines of the benchmark, in the order of its tables."""
    data: GeneratedData = GeneratedData()
    """The rows that are made when no others are given."""
    top_k: int = 10
    """How many hits a search asks for."""
    queries: int = 200
    """How many questions a round asks, at most."""
    filtered_queries: int = 50
    """The same, for each of the filters."""
    rounds: int = 3
    """How often every store is asked. A figure is the median of its rounds."""
    round_seconds: float = 2.0
    """A round ends after this long even if questions are left over; 20 are always asked."""
    warm_up: int = 10
    """Questions asked before each measurement, and not measured."""
    shares: tuple[float, ...] = (0.5, 0.1, 0.01, 0.001)
    """Of the rows that the filters let through."""
    threads: int = 0
    """How many threads ask at once, beside the figures for one; 0 takes the number of cores."""
    batch: int = 1000
    """Rows of one call that puts rows in."""
    seed: int = 1
    """Of everything that is drawn by lot."""
    store_seconds: float = 300.0
    """How long a store may take in all; what was measured by then is kept."""

    def __post_init__(self) -> None:
        if not self.stores:
            raise InvalidOption("stores", [], "at least one store")
        labels = [entry.label for entry in self.stores]
        for label in labels:
            if labels.count(label) > 1:
                raise InvalidOption("label", label, "a label that no other store has")
        for option in ("top_k", "queries", "filtered_queries", "rounds", "warm_up", "batch"):
            _require_at_least(option, getattr(self, option), 1)
        _require_at_least("threads", self.threads, 0)
        for option in ("round_seconds", "store_seconds"):
            _require_at_least(option, getattr(self, option), 0.001)
        for share in self.shares:
            if not 0 < share < 1:
                raise InvalidOption("shares", share, "a share of the rows, between 0 and 1,")

    @property
    def thread_count(self) -> int:
        """How many threads ask at once, once 0 is resolved."""
        return self.threads or len(available_cores())


def available_cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def find_shipped_settings(name: str) -> Path | None:
    """The settings file that is shipped under this name (`quick`, `full`), or None."""
    packaged = _HERE / "settings_files"
    folder = packaged if packaged.is_dir() else _HERE.parent.parent / "configs"
    path = folder / f"bench-{name}.yaml"
    return path if path.is_file() else None


def read_settings(file: str | Path) -> BenchSettings:
    """A settings file, or one of those that are shipped by its name. Raises InvalidOption with file and key."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - a benchmark without a file does not pay for it
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415 - as above

    path = find_shipped_settings(str(file)) or Path(file)
    try:
        tree = YAML(typ="safe", pure=True).load(StringIO(path.read_text("utf-8")))
    except FileNotFoundError as error:
        raise InvalidOption("--settings", str(file), "`quick`, `full` or a file that is there") from error
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise InvalidOption(f"the settings {path}", " ".join(str(error).split()), "a YAML file") from error
    try:
        return parse_settings(tree)
    except InvalidOption as error:
        raise InvalidOption(f"{path}: {error.option}", error.value, error.expected) from error


def parse_settings(tree: object) -> BenchSettings:
    """Parsed YAML as settings. Raises InvalidOption with the key."""
    table = _require_mapping("the settings", tree)
    values = _check_keys(BenchSettings, table, "")
    listed = table.get("stores")
    if not isinstance(listed, list):
        raise InvalidOption("stores", listed, "a list of stores")
    values["stores"] = tuple(_parse_entry(one, f"stores[{number}]") for number, one in enumerate(listed))
    if "data" in table:
        values["data"] = GeneratedData(
            **_parse_numbers(GeneratedData, _require_mapping("data", table["data"]), "data.")
        )
    if "shares" in table:
        if not isinstance(table["shares"], list):
            raise InvalidOption("shares", table["shares"], "a list of shares")
        values["shares"] = tuple(_parse_number("shares", one, float) for one in table["shares"])
    for option, value in values.items():
        if option not in {"stores", "data", "shares"}:
            values[option] = _parse_number(option, value, float if option.endswith("seconds") else int)
    return BenchSettings(**values)  # type: ignore[arg-type]  # each was checked by its field above


def expand_variables(options: Mapping[str, JSON]) -> dict[str, JSON]:
    """The options with `${NAME}` filled in from the environment. Raises InvalidOption where it is not set."""
    return {option: _expand_variable(option, value) for option, value in options.items()}


def _expand_variable(option: str, value: JSON) -> JSON:
    if not (isinstance(value, str) and value.startswith("${") and value.endswith("}")):
        return value
    name, _, fallback = value[2:-1].partition(":-")
    found = os.environ.get(name) or fallback
    if not found:
        raise InvalidOption(option, value, f"the environment variable {name}, which is not set,")
    return found


def _parse_entry(tree: object, where: str) -> BenchEntry:
    values = _check_keys(BenchEntry, _require_mapping(where, tree), f"{where}.")
    if not isinstance(values.get("name"), str):
        raise InvalidOption(f"{where}.name", values.get("name"), "the name of a store")
    if not isinstance(values.get("label", ""), str):
        raise InvalidOption(f"{where}.label", values["label"], "a word or two")
    values["options"] = _require_mapping(f"{where}.options", values.get("options") or {})
    sweep = _require_mapping(f"{where}.sweep", values.get("sweep") or {})
    for option, tried in sweep.items():
        if not isinstance(tried, list) or not tried:
            raise InvalidOption(f"{where}.sweep.{option}", tried, "a list of values")
    values["sweep"] = {option: tuple(cast("list[JSON]", tried)) for option, tried in sweep.items()}
    for price in ("dollars_per_hour", "dollars_per_million_queries"):
        if values.get(price) is not None:
            values[price] = _parse_number(f"{where}.{price}", values[price], float)
    return BenchEntry(**values)  # type: ignore[arg-type]  # each was checked by its field above


def _check_keys(
    kind: type[BenchSettings | BenchEntry | GeneratedData], table: Mapping[str, object], where: str
) -> dict[str, object]:
    known = [one.name for one in fields(kind)]
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known)
            raise InvalidOption(f"{where}{key}", table[key], f"another key{hint}: one of {', '.join(known)}")
    missing = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    for key in missing:
        if key not in table:
            raise InvalidOption(f"{where}{key}", None, "a value for it")
    return dict(table)


def _parse_numbers(kind: type[GeneratedData], table: Mapping[str, object], where: str) -> dict[str, int]:
    return {key: int(_parse_number(where + key, value, int)) for key, value in _check_keys(kind, table, where).items()}


def _parse_number(option: str, met: object, kind: type[int] | type[float]) -> float:
    whole = kind is int
    if isinstance(met, bool) or not isinstance(met, int if whole else int | float) or not math.isfinite(met):
        raise InvalidOption(option, met, "a whole number" if whole else "a number")
    return met


def _require_mapping(where: str, tree: object) -> dict[str, object]:
    if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
        raise InvalidOption(where, tree, "a mapping")
    return tree
