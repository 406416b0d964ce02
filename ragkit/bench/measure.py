"""What is measured at one store, in the process that has it to itself. No clock runs over a first call."""

from __future__ import annotations

import gc
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
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

MIN_QUERIES = 20
"""So many are asked whatever time they take."""


@dataclass(frozen=True)
class BenchJob:
    """What the process of one store is told when it starts."""

    store_name: str
    options: Mapping[str, JSON]
    folder: str
    """Where the rows are, and what exact search answers."""
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
    """The one core that everything but the figure for several threads runs on; None: as the system likes."""


class QueryFunction(Protocol):
    """Asks one query of a store."""

    def __call__(self, number: int) -> list[int]:
        """The rows that were found for the query of this number, best first."""


class StoreBench:
    """One store with the rows of the benchmark. Each public method measures one thing and returns figures by name."""

    def __init__(self, job: BenchJob) -> None:
        self._job = job
        self._data = Dataset(Path(job.folder), job.dataset_name, job.base_count, job.seed)
        self._deleted = self._data.deleted_rows.tolist()
        self._rows, self._queries = self._data.rows, self._data.queries[: max(job.queries, job.filtered_queries)]
        self._buckets = self._data.buckets
        self._store: Store | NumpyReference | None = None
        self._sweep_point: SweepPoint = {}

    def load_backend(self) -> dict[str, JSON]:
        """Import the store's packages, on the core that is given to it."""
        self.pin_to_core(True)
        begun = time.perf_counter()
        kind: type = NumpyReference if self._job.store_name == REFERENCE_NAME else STORES.find(self._job.store_name)
        spent = time.perf_counter() - begun
        kept = bool(getattr(kind, "is_persistent", False))
        return {"import_s": spent, "persistent": kept}

    def build(self) -> dict[str, JSON]:
        """Put all rows in, and ask once: from then on the store answers."""
        self._store = self._open_store({})
        put = self._add_rows(0, self._data.base_count)
        answered = _Stopwatch()
        with answered:
            self._search(0)
        built, cpu = put.seconds + answered.seconds, put.cpu_seconds + answered.cpu_seconds
        there = self._store.count()
        if there != self._data.base_count:
            raise StoreError(f"{there:,} rows are in the store, and {self._data.base_count:,} were put in")
        rate = self._data.base_count / built
        return {"put_s": put.seconds, "build_s": built, "build_cpu_s": cpu, "build_rate": rate}

    def open(self, setting: SweepPoint) -> dict[str, JSON]:
        """Open what was built, in a process that has not seen it, and ask once."""
        begun = time.perf_counter()
        self._store, self._sweep_point = self._open_store(setting), dict(setting)
        opened = time.perf_counter() - begun
        self._search(0)
        return {"open_ms": opened * 1e3, "cold_ms": (time.perf_counter() - begun) * 1e3}

    def measure_queries(self, setting: SweepPoint) -> dict[str, JSON]:
        """Ask the queries one by one."""
        self._reopen_with(setting)
        return self._run_queries("all", None, self._job.queries)

    def measure_filtered(self, share: float) -> dict[str, JSON]:
        """The same under a filter that lets through a share of the rows."""
        self._reopen_with({})
        return self._run_queries(
            condition_name(share), {FILTER_FIELD: {"$lt": bucket_limit(share)}}, self._job.filtered_queries
        )

    def measure_concurrent(self) -> dict[str, JSON]:
        """Queries a second when several threads ask at once, on all cores."""
        self._reopen_with({})
        self.pin_to_core(False)
        numbers, counts = count(), [0] * self._job.threads
        ready = threading.Barrier(self._job.threads + 1)
        stop = threading.Event()

        def ask(own: int) -> None:
            warm = False
            try:
                self._search(own)
                warm = True
            finally:
                if not warm:
                    ready.abort()  # or the others would wait for this one for ever
            ready.wait()
            while not stop.is_set():
                self._search(next(numbers) % len(self._queries))
                counts[own] += 1

        with ThreadPoolExecutor(self._job.threads) as pool:
            asking = [pool.submit(ask, own) for own in range(self._job.threads)]
            with suppress(threading.BrokenBarrierError):  # the one that failed says why, below
                ready.wait()
            begun = time.perf_counter()
            stop.wait(self._job.round_seconds / 2)
            stop.set()
            # where one has failed the others have a broken barrier: its own error comes first
            for one in sorted(asking, key=lambda one: isinstance(one.exception(), threading.BrokenBarrierError)):
                one.result()
            spent = time.perf_counter() - begun
        self.pin_to_core(True)
        return {"qps_n": sum(counts) / spent}

    def measure_writes(self) -> dict[str, JSON]:
        """Add a hundredth of the rows, delete another, and ask again."""
        store = self._reopen_with({})
        adding = self._add_rows(self._data.base_count, len(self._rows))
        with adding:
            self._search(0)
        ids, deleting = [row_id(row) for row in self._deleted], _Stopwatch()
        with deleting:
            gone = store.delete(ids)
            self._search(0)
        added, deleted = adding.seconds, deleting.seconds
        if gone != len(self._deleted):
            raise StoreError(f"{gone} of {len(self._deleted)} rows that were there are said to be deleted")
        figures: dict[str, JSON] = {"add_ms": added * 1e3, "delete_ms": deleted * 1e3}
        figures["add_rate"] = (len(self._rows) - self._data.base_count) / added
        figures["delete_rate"] = gone / deleted
        after = self._run_queries("after", None, self._job.filtered_queries)
        return figures | {f"{figure}_after": after[figure] for figure in ("p50_ms", "recall")}

    def measure_bandwidth(self) -> dict[str, JSON]:
        """Of the floor: how long reading all rows takes."""
        if not isinstance(self._store, NumpyReference):
            return {}
        seconds = self._store.read_seconds()
        return {"read_ms": seconds * 1e3, "read_gb_s": self._data.base_count * self._rows.shape[1] * 4 / seconds / 1e9}

    def close(self, clear: bool = False) -> dict[str, JSON]:
        """Let go of the store; `clear` takes everything out first, where it lives on a server."""
        if self._store is not None:
            if clear:
                self._store.clear()
            self._store.close()
            self._store = None
        return {}

    def pin_to_core(self, alone: bool) -> None:
        """Keep every thread of this process on one core, or let all cores have them."""
        core = self._job.pinned_core
        if core is None or not hasattr(os, "sched_setaffinity"):
            return
        wanted = {core} if alone else self._all_cores
        for thread in Path("/proc/self/task").iterdir():
            with suppress(ProcessLookupError):  # it ended in between
                os.sched_setaffinity(int(thread.name), wanted)

    _all_cores = frozenset(available_cores())

    def _open_store(self, setting: SweepPoint) -> Store | NumpyReference:
        if self._job.store_name == REFERENCE_NAME:
            return NumpyReference()
        return VectorStore.create(self._job.store_name, **{**self._job.options, **setting})

    def _reopen_with(self, setting: SweepPoint) -> Store | NumpyReference:
        """The store with these options, opened again where they are others than before."""
        if self._store is None or dict(setting) != self._sweep_point:
            self.close()
            self._store, self._sweep_point = self._open_store(setting), dict(setting)
        return self._store

    def _add_rows(self, first: int, last: int) -> _Stopwatch:
        """Put some rows in, in batches; the clock runs while the store works, not while a batch is made for it."""
        assert self._store is not None  # noqa: S101 - it was opened by whoever calls this
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
        found = self._store.search(self._queries[number], self._job.top_k, filter)
        return [int(one.document.id) for one in found]

    def _run_queries(self, condition: str, filter: Filter | None, queries: int) -> dict[str, JSON]:
        for number in range(self._job.warm_up):
            self._search(number % len(self._queries), filter)
        taken = time_queries(
            lambda number: self._search(number, filter), min(queries, len(self._queries)), self._job.round_seconds
        )
        truth = load_ground_truth(self._data.folder, condition)
        recalls = [
            truth.recall(self._rows, self._queries[number], number, found)
            for number, found in enumerate(taken.found_rows)
        ]
        _release_pages(self._rows)
        return {**taken.metrics(), "recall": float(np.mean(recalls)), "latencies_ms": taken.latencies_ms}


class _Stopwatch:
    """Adds up the time spent in its `with` blocks: by the clock, and of the processor for this process."""

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = 0.0

    def __enter__(self) -> None:
        self._started_at, self._cpu_started_at = time.perf_counter(), time.process_time()

    def __exit__(self, *error: object) -> None:
        self.seconds += time.perf_counter() - self._started_at
        self.cpu_seconds += time.process_time() - self._cpu_started_at


@dataclass(frozen=True)
class TimedQueries:
    """The queries of a round."""

    latencies_ms: list[float]
    found_rows: list[list[int]]
    cpu_seconds: float

    def metrics(self) -> dict[str, JSON]:
        """What is said of them: percentiles of the time that a caller waits, and the time of all cores a query."""
        p50, p95, p99 = np.percentile(self.latencies_ms, [50, 95, 99]).tolist()
        n = len(self.latencies_ms)
        seconds = sum(self.latencies_ms) / 1e3
        percentiles: dict[str, JSON] = {"p50_ms": p50, "p95_ms": p95, "p99_ms": p99}
        return {**percentiles, "qps_1": n / seconds, "cpu_ms": self.cpu_seconds * 1e3 / n, "asked": n}


def time_queries(ask: QueryFunction, queries: int, seconds: float) -> TimedQueries:
    """Ask one query after the other until all are asked, or the seconds are over and 20 are."""
    latencies: list[float] = []
    found: list[list[int]] = []
    gc.collect()
    gc.disable()  # a collection of ours would be counted as the store's
    cpu, end = time.process_time(), time.perf_counter() + seconds
    for number in range(queries):
        begun = time.perf_counter()
        answer = ask(number)
        latencies.append((time.perf_counter() - begun) * 1e3)
        found.append(answer)
        if number + 1 >= MIN_QUERIES and time.perf_counter() > end:
            break
    cpu = time.process_time() - cpu
    gc.enable()
    return TimedQueries(latencies, found, cpu)


def row_id(row: int) -> str:
    """The id of a row's document."""
    return f"{row:08}"


def operations(bench: StoreBench) -> Iterator[tuple[str, Callable[..., dict[str, JSON]]]]:
    """What a process can be told to do, by name."""
    for name in ("hello", "build", "open", "round", "filtered", "threads", "write", "read", "close"):
        yield name, getattr(bench, name)


def _release_pages(rows: Rows) -> None:
    """Let the mapped pages of the rows go, so that they do not count as the store's memory."""
    mapped = getattr(rows, "_mmap", None)
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
