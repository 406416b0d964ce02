"""Runs a benchmark. Each store has its own process, and the stores take turns, so that noise affects all of them.

First every store is built. Then each round queries every store, in rotating order. Finally rows are added and
deleted. All measurements except the concurrent one run on one core, with libraries limited to one thread; the server
of a client-server store is not limited.
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
from ragkit.bench.measure import SERVER_NAME_OPTIONS, BenchJob
from ragkit.bench.numpy_reference import REFERENCE_NAME
from ragkit.bench.results import BenchResult, Measurement, QueryLatencies, StoreResult, StoreStatus
from ragkit.bench.settings import (
    SERVER_ADDRESS_OPTIONS,
    BenchEntry,
    BenchSettings,
    SweepPoint,
    available_cores,
    expand_variables,
)
from ragkit.bench.store_process import StoreProcess, StoreProcessFailed, StoreTimeout, drop_page_cache, folder_bytes
from ragkit.config.convert import get_field_hints
from ragkit.errors import InvalidOption, UnknownName
from ragkit.records import JSON
from ragkit.store import STORES


@dataclass(frozen=True)
class CurrentStore:
    """The store that a knowledge base uses."""

    name: str
    method: str = ""
    """The value of its option `method`; empty if it has none."""


@dataclass(frozen=True)
class BenchStep:
    """A progress event: the step that starts now."""

    number: int
    """From 1."""
    total: int
    """The planned number of steps; fewer run if a store drops out."""
    label: str
    action: str


@dataclass(frozen=True)
class StoreDropped:
    """A store dropped out of the benchmark."""

    label: str
    reason: str


BenchEvent = BenchStep | StoreDropped


class BenchRun:
    """One benchmark. `result` has the measurements so far at any time, also after an interrupt."""

    def __init__(
        self,
        settings: BenchSettings,
        data: Dataset,
        notify: Callable[[BenchEvent], None],
        current: CurrentStore | None = None,
    ) -> None:
        """`current` is the store of the knowledge base that the data is from, if there is one."""
        self._settings, self._data, self._notify, self._current = settings, data, notify, current
        self._run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
        self._machine = describe_machine()
        self._store_runs = [_StoreRun(StoreResult(entry), settings.store_seconds) for entry in settings.stores]
        steps = (5 if data.small_count else 4) + settings.rounds * (2 + len(settings.shares))
        sweeps = [len([*entry.sweep_points()]) - 1 for entry in settings.stores]
        self._step_count = sum(steps + settings.rounds * points for points in sweeps)
        self._steps_done = 0

    @property
    def result(self) -> BenchResult:
        """The measurements so far."""
        data: dict[str, JSON] = {
            "name": self._data.name,
            "rows": self._data.base_count,
            "dimension": self._data.rows.shape[1],
            "queries": len(self._data.queries),
            "fingerprint": self._data.fingerprint(),
            "small_rows": self._data.small_count,
        }
        if self._current is not None:
            data |= {"store": self._current.name, "method": self._current.method}
        stores = tuple(run.result for run in self._store_runs)
        return BenchResult(self._run_id, self._machine, data, self._settings_json(), stores)

    def run(self) -> BenchResult:
        """Run all measurements. After an interrupt, all processes have ended and `result` is partial."""
        try:
            truths = ground_truth.compute_ground_truth(self._data, self._settings.shares, self._settings.top_k)
            ground_truth.save_ground_truth(self._data.folder, truths)
            for store_run in self._store_runs:
                self._build_store(store_run)
            for number in range(self._settings.rounds):
                self._run_round(number)
            for store_run in self._store_runs:
                self._finish_store(store_run)
        except KeyboardInterrupt:
            for store_run in self._store_runs:
                if store_run.result.status == "ok" and not store_run.finished:
                    store_run.result.status, store_run.result.reason = "interrupted", "the benchmark was interrupted"
            raise
        finally:
            for store_run in self._store_runs:
                store_run.terminate()
        return self.result

    def _build_store(self, store_run: _StoreRun) -> None:
        line, entry = store_run.result, store_run.result.entry
        line.versions = package_versions(entry.name)
        try:
            job = self._make_job(entry)
        except (InvalidOption, UnknownName) as error:
            self._drop_store(store_run, StoreProcessFailed(str(error), missing=True))
            return
        folder = self._work_dir(entry)
        store_run.process = StoreProcess(job, folder)
        if not self._run_step(store_run, "starting", "load_backend"):
            return
        baseline_bytes = store_run.process.memory.reset_peak()
        if not self._run_step(store_run, "building", "build"):
            return
        self._record_memory(store_run, "build_memory", baseline_bytes)
        if not store_run.persistent:
            return
        self._run_step(store_run, "", "close")
        files = self._store_dir(entry)
        if files.exists():
            store_run.add_measurements({"disk_bytes": folder_bytes(files)})
            drop_page_cache(files)
        store_run.terminate()
        store_run.process = StoreProcess(job, folder)
        if self._run_step(store_run, "", "load_backend"):
            store_run.memory_before_open = store_run.process.memory.reset_peak()
            self._run_step(store_run, "opening", "open", setting={})

    def _run_round(self, number: int) -> None:
        first = number % len(self._store_runs)
        for store_run in self._store_runs[first:] + self._store_runs[:first]:
            self._run_step(store_run, "querying", "measure_queries", number, setting={})
            if store_run.result.entry.name == REFERENCE_NAME:
                self._run_step(store_run, "", "measure_bandwidth", number)
            for share in self._settings.shares:
                action = f"querying with a {share:.1%} filter"
                self._run_step(store_run, action, "measure_filtered", number, share=share)
            self._run_step(store_run, "querying with several threads", "measure_concurrent", number)
            if number == 0 and store_run.persistent:
                self._record_memory(store_run, "query_memory", store_run.memory_before_open)
            for point in [*store_run.result.entry.sweep_points()][1:]:
                if store_run.process is not None and not store_run.persistent:  # it would be empty after a reopen
                    store_run.result.reason = "sweep skipped: the store is not persistent"
                    break
                action = f"querying with {format_sweep_point(point)}"
                self._run_step(store_run, action, "measure_queries", number, setting=point)

    def _finish_store(self, store_run: _StoreRun) -> None:
        self._run_step(store_run, "adding and deleting", "measure_writes")
        entry = store_run.result.entry
        if self._data.small_count and entry.name != REFERENCE_NAME:
            self._run_step(store_run, "querying with a quarter of the rows", "measure_quarter")
        figures = store_run.result.medians()
        dollars = entry.dollars_per_million_queries
        if dollars is None and entry.dollars_per_hour is not None and "qps_1" in figures:
            dollars = entry.dollars_per_hour / 3600 / figures["qps_1"] * 1e6
        if dollars is not None:
            store_run.add_measurements({"dollars": dollars})
        self._run_step(store_run, "", "close", clear=not self._store_dir(entry).exists())
        store_run.finished = True
        store_run.terminate()

    def _run_step(self, store_run: _StoreRun, action: str, method: str, number: int = 0, **arguments: JSON) -> bool:
        """Run one measurement and record its metrics; False if the store has dropped out. '' is not a visible step."""
        if action:
            self._steps_done += 1
        if store_run.process is None:
            return False
        if action:
            self._notify(BenchStep(self._steps_done, self._step_count, store_run.result.entry.label, action))
        try:
            figures = store_run.request(method, arguments)
        except StoreProcessFailed as error:
            self._drop_store(store_run, error)
            return False
        store_run.persistent = bool(figures.pop("persistent", store_run.persistent))
        share, setting = arguments.get("share"), arguments.get("setting") or {}
        condition = ground_truth.condition_name(cast("float", share)) if share else "all"
        latencies = cast("list[float]", figures.pop("latencies_ms", []))
        if latencies:
            queries = QueryLatencies(cast("SweepPoint", setting), condition, number, tuple(latencies))
            store_run.result.latencies.append(queries)
        prefix = f"{condition}:" if share else ""
        values = {prefix + name: cast("float", value) for name, value in figures.items()}
        store_run.add_measurements(values, setting, number)
        return True

    def _drop_store(self, store_run: _StoreRun, error: StoreProcessFailed) -> None:
        status: StoreStatus = "missing" if error.is_missing else "failed"
        reason = str(error)
        if isinstance(error, StoreTimeout):
            status, reason = "time limit", f"exceeded {self._settings.store_seconds:g} s"
        store_run.result.status, store_run.result.reason = status, reason
        store_run.terminate()
        self._notify(StoreDropped(store_run.result.entry.label, reason))

    def _record_memory(self, store_run: _StoreRun, name: str, baseline_bytes: int) -> None:
        # the memory of a server cannot be measured here
        on_server = store_run.persistent and not self._store_dir(store_run.result.entry).exists()
        if store_run.process is not None and baseline_bytes and not on_server:
            raw = self._data.base_count * self._data.rows.shape[1] * 4
            used = max(0, store_run.process.memory.peak_bytes - baseline_bytes)
            store_run.add_measurements({name: used / raw, "raw_bytes": raw})

    def _work_dir(self, entry: BenchEntry) -> Path:
        number = [other.label for other in self._settings.stores].index(entry.label)
        return self._data.folder / f"{number:02}-{entry.name}"

    def _store_dir(self, entry: BenchEntry) -> Path:
        """The directory of a store's files; it exists for stores with a `path`."""
        return self._work_dir(entry) / "files"

    def _make_job(self, entry: BenchEntry) -> BenchJob:
        settings = self._settings
        options_class = None if entry.name == REFERENCE_NAME else STORES.options_class(entry.name)
        known = get_field_hints(options_class) if options_class else {}
        options = expand_variables(entry.options, known)
        on_server = any(options.get(option) for option in SERVER_ADDRESS_OPTIONS)
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
        """The settings without stores and data, with the resolved number of threads."""
        plain = {field.name: getattr(self._settings, field.name) for field in fields(self._settings)}
        del plain["stores"], plain["data"]
        return {**plain, "shares": list(self._settings.shares), "threads": self._settings.thread_count}


class _StoreRun:
    """A store in the benchmark: its result, its process and its remaining time."""

    def __init__(self, result: StoreResult, seconds: float) -> None:
        self.result = result
        self.process: StoreProcess | None = None
        self.persistent = False
        self.finished = False
        self.memory_before_open = 0
        self._seconds_left = seconds

    def request(self, method: str, arguments: Mapping[str, JSON]) -> dict[str, JSON]:
        assert self.process is not None  # noqa: S101 - checked by the caller
        started_at = time.monotonic()
        try:
            return self.process.request(method, max(self._seconds_left, 0.0), **arguments)
        finally:
            self._seconds_left -= time.monotonic() - started_at

    def add_measurements(self, figures: Mapping[str, float], setting: object = None, number: int = 0) -> None:
        point = cast("SweepPoint", setting or {})
        self.result.measurements += [Measurement(point, name, float(v), number) for name, v in figures.items()]

    def terminate(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process = None


def format_sweep_point(setting: SweepPoint) -> str:
    """A sweep point as text: `ef_search 64`."""
    return ", ".join(f"{name} {value}" for name, value in setting.items())
