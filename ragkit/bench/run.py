"""Runs a benchmark: each store in its own process, asked in turn, so that what disturbs one disturbs all.

First every store is built, one after the other. Then come the rounds: in each of them every store is asked, from
another one on each time. At last rows are added and deleted. All but the figure for several threads runs on one core,
with libraries held to one thread; a server that a store speaks to is not held to anything.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from ragkit.bench import ground_truth
from ragkit.bench.datasets import Dataset
from ragkit.bench.machine import describe_machine, package_versions
from ragkit.bench.measure import BenchJob
from ragkit.bench.numpy_reference import REFERENCE_NAME
from ragkit.bench.results import BenchResult, Measurement, QueryLatencies, StoreResult, StoreStatus
from ragkit.bench.settings import BenchEntry, BenchSettings, SweepPoint, available_cores, expand_variables
from ragkit.bench.store_process import StoreProcess, StoreProcessFailed, StoreTimeout, drop_page_cache, folder_bytes
from ragkit.errors import InvalidOption, UnknownName
from ragkit.records import JSON
from ragkit.store import STORES

SERVER_NAME_OPTIONS = ("collection", "table", "namespace")
"""Options that name a place on a server: a benchmark takes one of its own."""


@dataclass(frozen=True)
class BenchStep:
    """What is done next: for whoever shows progress."""

    number: int
    """Counted from 1."""
    total: int
    """In all; fewer are done when a store drops out."""
    label: str
    action: str


@dataclass(frozen=True)
class StoreDropped:
    """A store takes no further part."""

    label: str
    reason: str


BenchEvent = BenchStep | StoreDropped


class BenchRun:
    """One benchmark. `outcome` holds what there is at any time, also after an interrupt."""

    def __init__(self, settings: BenchSettings, data: Dataset, tell: Callable[[BenchEvent], None]) -> None:
        self._settings, self._data, self._notify = settings, data, tell
        self._run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
        self._machine = describe_machine()
        self._store_runs = [_StoreRun(StoreResult(entry), settings.store_seconds) for entry in settings.stores]
        each = 4 + settings.rounds * (2 + len(settings.shares))
        self._step_count = sum(each + settings.rounds * (len([*entry.sweep_points()]) - 1) for entry in settings.stores)
        self._steps_done = 0

    @property
    def result(self) -> BenchResult:
        """What has been found so far."""
        data: dict[str, JSON] = {
            "name": self._data.name,
            "rows": self._data.base_count,
            "dimension": self._data.rows.shape[1],
            "queries": len(self._data.queries),
            "fingerprint": self._data.fingerprint(),
        }
        return BenchResult(
            self._run_id, self._machine, data, self._settings_json(), tuple(p.result for p in self._store_runs)
        )

    def run(self) -> BenchResult:
        """Measure everything. After an interrupt all processes have ended, and `outcome` holds what there is."""
        try:
            ground_truth.save_ground_truth(
                self._data.folder,
                ground_truth.compute_ground_truth(self._data, self._settings.shares, self._settings.top_k),
            )
            for player in self._store_runs:
                self._build_store(player)
            for number in range(self._settings.rounds):
                self._run_round(number)
            for player in self._store_runs:
                self._finish_store(player)
        except KeyboardInterrupt:
            for player in self._store_runs:
                if player.result.status == "ok" and not player.finished:
                    player.result.status, player.result.reason = "interrupted", "was not finished"
            raise
        finally:
            for player in self._store_runs:
                player.terminate()
        return self.result

    def _build_store(self, player: _StoreRun) -> None:
        line, entry = player.result, player.result.entry
        line.versions = package_versions(entry.name)
        try:
            job = self._make_job(entry)
        except (InvalidOption, UnknownName) as error:
            self._drop_store(player, StoreProcessFailed(str(error), missing=True))
            return
        folder = self._work_dir(entry)
        player.start(job, folder)
        if not self._run_step(player, "starting", "hello"):
            return
        assert player.process is not None  # noqa: S101 - it was started above
        bare = player.process.memory.reset_peak()
        if not self._run_step(player, "building", "build"):
            return
        self._record_memory(player, "build_memory", bare)
        if not player.persistent:
            return
        self._run_step(player, "", "close")
        files = self._store_dir(entry)
        if files.exists():
            player.add_measurements({"disk_bytes": folder_bytes(files)})
            drop_page_cache(files)
        player.terminate()
        player.start(job, folder)
        if self._run_step(player, "", "hello"):
            player.memory_before_build = player.process.memory.reset_peak()
            self._run_step(player, "opening", "open", setting={})

    def _run_round(self, number: int) -> None:
        turn = number % len(self._store_runs)
        for player in self._store_runs[turn:] + self._store_runs[:turn]:
            self._run_step(player, "asking", "round", number, setting={})
            if player.result.entry.name == REFERENCE_NAME:
                self._run_step(player, "", "read", number)
            for share in self._settings.shares:
                self._run_step(player, f"asking with a filter of {share:.1%}", "filtered", number, share=share)
            self._run_step(player, "asking with several threads", "threads", number)
            if number == 0 and player.persistent:
                self._record_memory(player, "query_memory", player.memory_before_build)
            for point in [*player.result.entry.sweep_points()][1:]:
                if player.process is not None and not player.persistent:  # opened again it would be empty
                    player.result.reason = "its sweep was left out: it keeps nothing when it is closed"
                    break
                self._run_step(player, f"asking with {format_sweep_point(point)}", "round", number, setting=point)

    def _finish_store(self, player: _StoreRun) -> None:
        self._run_step(player, "adding and deleting", "write")
        entry = player.result.entry
        figures = player.result.medians()
        dollars = entry.dollars_per_million_queries
        if dollars is None and entry.dollars_per_hour is not None and "qps_1" in figures:
            dollars = entry.dollars_per_hour / 3600 / figures["qps_1"] * 1e6
        if dollars is not None:
            player.add_measurements({"dollars": dollars})
        self._run_step(player, "", "close", clear=not self._store_dir(entry).exists())
        player.finished = True
        player.terminate()

    def _run_step(self, player: _StoreRun, shown: str, what: str, number: int = 0, **arguments: JSON) -> bool:
        """Have a store do something, unless it has dropped out; returns whether it has done it."""
        if shown:
            self._steps_done += 1
        if player.process is None:
            return False
        if shown:
            self._notify(BenchStep(self._steps_done, self._step_count, player.result.entry.label, shown))
        try:
            figures = player.request(what, arguments)
        except StoreProcessFailed as error:
            self._drop_store(player, error)
            return False
        player.persistent = bool(figures.pop("persistent", player.persistent))
        share, setting = arguments.get("share"), arguments.get("setting") or {}
        condition = ground_truth.condition_name(cast("float", share)) if share else "all"
        latencies = cast("list[float]", figures.pop("latencies_ms", []))
        if latencies:
            kept = QueryLatencies(cast("SweepPoint", setting), condition, number, tuple(latencies))
            player.result.latencies.append(kept)
        prefix = f"{condition}:" if share else ""
        player.add_measurements(
            {prefix + name: cast("float", value) for name, value in figures.items()}, setting, number
        )
        return True

    def _drop_store(self, player: _StoreRun, error: StoreProcessFailed) -> None:
        status: StoreStatus = (
            "time limit" if isinstance(error, StoreTimeout) else "missing" if error.is_missing else "failed"
        )
        reason = f"took more than {self._settings.store_seconds:g} s" if status == "time limit" else str(error)
        player.result.status, player.result.reason = status, reason
        player.terminate()
        self._notify(StoreDropped(player.result.entry.label, reason))

    def _record_memory(self, player: _StoreRun, name: str, bare: int) -> None:
        on_server = player.persistent and not self._store_dir(player.result.entry).exists()  # whose memory nobody sees
        if player.process is not None and bare and not on_server:
            raw = self._data.base_count * self._data.rows.shape[1] * 4
            player.add_measurements({name: max(0, player.process.memory.peak_bytes - bare) / raw, "raw_bytes": raw})

    def _work_dir(self, entry: BenchEntry) -> Path:
        number = [one.label for one in self._settings.stores].index(entry.label)
        return self._data.folder / f"{number:02}-{entry.name}"

    def _store_dir(self, entry: BenchEntry) -> Path:
        """Where a store's own files lie; it is there for those that have a `path`."""
        return self._work_dir(entry) / "files"

    def _make_job(self, entry: BenchEntry) -> BenchJob:
        settings = self._settings
        options = expand_variables(entry.options)
        kind = None if entry.name == REFERENCE_NAME else STORES.options_class(entry.name)
        known = {one.name for one in fields(kind)} if kind else set()
        on_server = any(options.get(option) for option in ("host", "uri", "url", "dsn"))
        if "path" in known and "path" not in options and not on_server:
            self._store_dir(entry).mkdir(parents=True, exist_ok=True)
            options["path"] = str(self._store_dir(entry) / "store")
        for option in SERVER_NAME_OPTIONS:
            if option in known and option not in options:
                options[option] = f"ragkit_bench_{secrets.token_hex(4)}"
        allowed = available_cores()
        return BenchJob(
            store_name=entry.name,
            options=options,
            folder=str(self._data.folder),
            dataset_name=self._data.name,
            base_count=self._data.base_count,
            seed=self._data.seed,
            top_k=settings.top_k,
            queries=settings.queries,
            filtered_queries=settings.filtered_queries,
            round_seconds=settings.round_seconds,
            warm_up=settings.warm_up,
            batch=settings.batch,
            threads=settings.thread_count,
            pinned_core=allowed[-1] if len(allowed) > 1 else None,
        )

    def _settings_json(self) -> dict[str, JSON]:
        """The settings but for the stores, with what they come to here."""
        plain = {one.name: getattr(self._settings, one.name) for one in fields(self._settings)}
        del plain["stores"], plain["data"]
        return {**plain, "shares": list(self._settings.shares), "threads": self._settings.thread_count}


class _StoreRun:
    """A store that takes part: its line of the result, its process, and the time that it has left."""

    def __init__(self, line: StoreResult, seconds: float) -> None:
        self.result = line
        self.process: StoreProcess | None = None
        self.persistent = False
        self.finished = False
        self.memory_before_build = 0
        self._seconds_left = seconds

    def start(self, job: BenchJob, folder: Path) -> None:
        self.process = StoreProcess(job, folder)

    def request(self, what: str, arguments: Mapping[str, JSON]) -> dict[str, JSON]:
        assert self.process is not None  # noqa: S101 - the caller has looked
        begun = time.monotonic()
        try:
            return self.process.request(what, max(self._seconds_left, 0.0), **arguments)
        finally:
            self._seconds_left -= time.monotonic() - begun

    def add_measurements(self, figures: Mapping[str, float], setting: object = None, number: int = 0) -> None:
        point = cast("SweepPoint", setting or {})
        self.result.measurements.extend(
            Measurement(point, name, float(value), number) for name, value in figures.items()
        )

    def terminate(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process = None


def format_sweep_point(setting: SweepPoint) -> str:
    """A point of a curve for people: `ef_search 64`."""
    return ", ".join(f"{name} {value}" for name, value in setting.items())
