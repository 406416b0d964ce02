"""Measures one store, in a process of its own. First calls are never timed."""

from __future__ import annotations

import gc
import mmap
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

import numpy as np

from ragkit.bench.datasets import FILTER_FIELD, Dataset, bucket_limit
from ragkit.bench.ground_truth import condition_name, load_ground_truth
from ragkit.bench.numpy_reference import REFERENCE_NAME, NumpyReference
from ragkit.bench.settings import SweepPoint, available_cores
from ragkit.errors import StoreError
from ragkit.records import JSON, Document
from ragkit.store import STORES
from ragkit.store.base import Filter, Rows, Store
from ragkit.store.vector_store import VectorStore

SERVER_NAME_OPTIONS = ("collection", "table", "namespace")
"""Options that name a collection on a server; the benchmark fills in a name of its own."""
MIN_QUERIES = 20
"""Queries of a round that run even after its time limit."""


@dataclass(frozen=True)
class BenchJob:
    """The configuration of one worker process."""

    store_name: str
    options: Mapping[str, JSON]
    folder: str
    """The directory of the dataset and the exact results."""
    dataset_name: str
    base_count: int
    seed: int
    top_k: int
    queries: int
    filtered_queries: int
    round_seconds: float
    warm_up: int
    batch: int
    threads: int
    pinned_core: int | None
    """The core for all measurements except the concurrent one; None: no pinning."""


class QueryFunction(Protocol):
    """Runs one query of the dataset."""

    def __call__(self, number: int) -> list[int]:
        """The rows found for query `number`, best first."""


class StoreBench:
    """One store and the dataset. Each public method is one measurement and returns metrics by name."""

    def __init__(self, job: BenchJob) -> None:
        self._job = job
        self._data = Dataset(Path(job.folder), job.dataset_name, job.base_count, job.seed)
        self._deleted = self._data.deleted_rows.tolist()
        self._rows, self._queries = self._data.rows, self._data.queries[: max(job.queries, job.filtered_queries)]
        self._buckets = self._data.buckets
        self._store: Store | NumpyReference | None = None
        self._sweep_point: SweepPoint = {}

    def load_backend(self) -> dict[str, JSON]:
        """Import the store's packages, pinned to the job's core."""
        self.pin_to_core(True)
        started_at = time.perf_counter()
        name = self._job.store_name
        store_class: type = NumpyReference if name == REFERENCE_NAME else STORES.find(name)
        elapsed = time.perf_counter() - started_at
        return {"import_s": elapsed, "persistent": bool(getattr(store_class, "persistent", False))}

    def build(self) -> dict[str, JSON]:
        """Add all base rows and run the first query, which ends the build."""
        self._store = self._open_store({})
        adding = self._add_rows(0, self._data.base_count)
        first_query = _Stopwatch()
        with first_query:
            self._search(0)
        seconds = adding.seconds + first_query.seconds
        cpu = adding.cpu_seconds + first_query.cpu_seconds
        count = self._store.count()
        if count != self._data.base_count:
            raise StoreError(f"the store has {count:,} rows after {self._data.base_count:,} were added")
        rate = self._data.base_count / seconds
        return {"put_s": adding.seconds, "build_s": seconds, "build_cpu_s": cpu, "build_rate": rate}

    def open(self, setting: SweepPoint) -> dict[str, JSON]:
        """Open the built store in a new process, and run the first query."""
        started_at = time.perf_counter()
        self._store, self._sweep_point = self._open_store(setting), dict(setting)
        opened = time.perf_counter() - started_at
        self._search(0)
        return {"open_ms": opened * 1e3, "cold_ms": (time.perf_counter() - started_at) * 1e3}

    def measure_queries(self, setting: SweepPoint) -> dict[str, JSON]:
        """Run the queries one after the other."""
        self._reopen_with(setting)
        return self._run_queries("all", None, self._job.queries)

    def measure_filtered(self, share: float) -> dict[str, JSON]:
        """Run the queries with a filter that selects a share of the rows."""
        self._reopen_with({})
        condition: Filter = {FILTER_FIELD: {"$lt": bucket_limit(share)}}
        return self._run_queries(condition_name(share), condition, self._job.filtered_queries)

    def measure_concurrent(self) -> dict[str, JSON]:
        """Queries per second of several threads on all cores."""
        self._reopen_with({})
        self.pin_to_core(False)
        numbers, counts = count(), [0] * self._job.threads
        ready = threading.Barrier(self._job.threads + 1)
        stop = threading.Event()

        def run_worker(worker: int) -> None:
            try:
                self._search(worker)
            except BaseException:
                ready.abort()  # otherwise the other threads would wait forever
                raise
            ready.wait()
            while not stop.is_set():
                self._search(next(numbers) % len(self._queries))
                counts[worker] += 1

        with ThreadPoolExecutor(self._job.threads) as pool:
            futures = [pool.submit(run_worker, worker) for worker in range(self._job.threads)]
            with suppress(threading.BrokenBarrierError):  # the failed thread raises its own error below
                ready.wait()
            started_at = time.perf_counter()
            stop.wait(self._job.round_seconds / 2)
            stop.set()
            # after a failure the other threads have a broken barrier: raise the original error first
            for future in sorted(futures, key=lambda f: isinstance(f.exception(), threading.BrokenBarrierError)):
                future.result()
            elapsed = time.perf_counter() - started_at
        self.pin_to_core(True)
        return {"qps_n": sum(counts) / elapsed}

    def measure_writes(self) -> dict[str, JSON]:
        """Add 1 % of the rows, delete another 1 %, and run the queries again."""
        store = self._reopen_with({})
        adding = self._add_rows(self._data.base_count, len(self._rows))
        with adding:
            self._search(0)
        ids, deleting = [row_id(row) for row in self._deleted], _Stopwatch()
        with deleting:
            deleted = store.delete(ids)
            self._search(0)
        if deleted != len(self._deleted):
            raise StoreError(f"the store reports {deleted} deleted rows of {len(self._deleted)}")
        after = self._run_queries("after", None, self._job.filtered_queries)
        return {
            "add_ms": adding.seconds * 1e3,
            "delete_ms": deleting.seconds * 1e3,
            "add_rate": (len(self._rows) - self._data.base_count) / adding.seconds,
            "delete_rate": deleted / deleting.seconds,
            "p50_ms_after": after["p50_ms"],
            "recall_after": after["recall"],
        }

    def measure_quarter(self) -> dict[str, JSON]:
        """Run the queries on all rows and on a second store with a quarter of them, one after the other."""
        everything = self._run_queries("after", None, self._job.queries)
        self.close(clear=not self._job.options.get("path"))
        options, path = dict(self._job.options), self._job.options.get("path")
        names = [option for option in SERVER_NAME_OPTIONS if option in options and not path]
        options |= {option: f"{options[option]}_quarter" for option in names}
        if isinstance(path, str):
            options["path"] = f"{path}-quarter"
        self._store = VectorStore.create(self._job.store_name, **options)
        self._add_rows(0, self._data.small_count)
        quarter = self._run_queries("quarter", None, self._job.queries)
        return {
            "p50_ms_quarter": quarter["p50_ms"],
            "recall_quarter": quarter["recall"],
            "p50_ms_beside_quarter": everything["p50_ms"],
        }

    def measure_bandwidth(self) -> dict[str, JSON]:
        """Time to read all rows once; only for the numpy reference."""
        if not isinstance(self._store, NumpyReference):
            return {}
        seconds = self._store.read_seconds()
        return {"read_ms": seconds * 1e3, "read_gb_s": self._data.base_count * self._rows.shape[1] * 4 / seconds / 1e9}

    def close(self, clear: bool = False) -> dict[str, JSON]:
        """Close the store; `clear` removes all rows first, for stores on a server."""
        if self._store is not None:
            if clear:
                self._store.clear()
            self._store.close()
            self._store = None
        return {}

    def pin_to_core(self, alone: bool) -> None:
        """Pin every thread of this process to one core, or unpin them."""
        core = self._job.pinned_core
        if core is None or not hasattr(os, "sched_setaffinity"):
            return
        cores = {core} if alone else self._all_cores
        for thread in Path("/proc/self/task").iterdir():
            with suppress(ProcessLookupError):  # the thread has ended
                os.sched_setaffinity(int(thread.name), cores)

    _all_cores = frozenset(available_cores())

    def _open_store(self, setting: SweepPoint) -> Store | NumpyReference:
        if self._job.store_name == REFERENCE_NAME:
            return NumpyReference()
        return VectorStore.create(self._job.store_name, **{**self._job.options, **setting})

    def _reopen_with(self, setting: SweepPoint) -> Store | NumpyReference:
        """The store with these options, reopened if they have changed."""
        if self._store is None or dict(setting) != self._sweep_point:
            self.close()
            self._store, self._sweep_point = self._open_store(setting), dict(setting)
        return self._store

    def _add_rows(self, first: int, last: int) -> _Stopwatch:
        """Add the rows [first:last] in batches; the time excludes the preparation of the batches."""
        assert self._store is not None  # noqa: S101 - the caller has opened it
        clock = _Stopwatch()
        for start in range(first, last, self._job.batch):
            numbers = range(start, min(start + self._job.batch, last))
            documents = [
                Document(text, {FILTER_FIELD: int(self._buckets[row])}, id=row_id(row))
                for row, text in zip(numbers, self._data.texts(numbers.start, numbers.stop), strict=True)
            ]
            rows = np.array(self._rows[numbers.start : numbers.stop])
            with clock:
                self._store.add_documents(documents, rows)
            _release_pages(self._rows)
        return clock

    def _search(self, number: int, filter: Filter | None = None) -> list[int]:
        assert self._store is not None  # noqa: S101 - as above
        results = self._store.search(self._queries[number], self._job.top_k, filter)
        return [int(result.document.id) for result in results]

    def _run_queries(self, condition: str, filter: Filter | None, queries: int) -> dict[str, JSON]:
        for number in range(self._job.warm_up):
            self._search(number % len(self._queries), filter)
        count = min(queries, len(self._queries))
        timed = time_queries(lambda number: self._search(number, filter), count, self._job.round_seconds)
        truth = load_ground_truth(self._data.folder, condition)
        found = enumerate(timed.found_rows)
        recalls = [truth.recall(self._rows, self._queries[number], number, rows) for number, rows in found]
        _release_pages(self._rows)
        return {**timed.metrics(), "recall": float(np.mean(recalls)), "latencies_ms": timed.latencies_ms}


class _Stopwatch:
    """Sums up the wall time and the CPU time of its `with` blocks."""

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = 0.0

    def __enter__(self) -> None:
        self._started_at, self._cpu_started_at = time.perf_counter(), time.process_time()

    def __exit__(self, *error: object) -> None:
        self.seconds += time.perf_counter() - self._started_at
        self.cpu_seconds += time.process_time() - self._cpu_started_at


@dataclass(frozen=True)
class TimedQueries:
    """The latencies and results of a round of queries."""

    latencies_ms: list[float]
    found_rows: list[list[int]]
    cpu_seconds: float

    def metrics(self) -> dict[str, JSON]:
        """Latency percentiles, queries per second and CPU time per query."""
        p50, p95, p99 = np.percentile(self.latencies_ms, [50, 95, 99]).tolist()
        n = len(self.latencies_ms)
        seconds = sum(self.latencies_ms) / 1e3
        percentiles: dict[str, JSON] = {"p50_ms": p50, "p95_ms": p95, "p99_ms": p99}
        return {**percentiles, "qps_1": n / seconds, "cpu_ms": self.cpu_seconds * 1e3 / n, "asked": n}


def time_queries(query: QueryFunction, queries: int, seconds: float) -> TimedQueries:
    """Run the queries one after the other; stop after `seconds`, but not before MIN_QUERIES."""
    latencies: list[float] = []
    found_rows: list[list[int]] = []
    gc.collect()
    gc.disable()  # a garbage collection would count as time of the store
    cpu, end = time.process_time(), time.perf_counter() + seconds
    for number in range(queries):
        started_at = time.perf_counter()
        rows = query(number)
        latencies.append((time.perf_counter() - started_at) * 1e3)
        found_rows.append(rows)
        if number + 1 >= MIN_QUERIES and time.perf_counter() > end:
            break
    cpu = time.process_time() - cpu
    gc.enable()
    return TimedQueries(latencies, found_rows, cpu)


def row_id(row: int) -> str:
    """The id of a row's document."""
    return f"{row:08}"


def _release_pages(rows: Rows) -> None:
    """Release the memory-mapped pages of the rows, so that they do not count as memory of the store."""
    mapped = getattr(rows, "_mmap", None)
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
