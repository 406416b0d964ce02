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

from ragkit.bench.datasets import FIELD, Dataset, limit_of
from ragkit.bench.floor import NAME, NumpyFloor
from ragkit.bench.settings import Setting, cores
from ragkit.bench.truth import condition_of, load
from ragkit.errors import StoreError
from ragkit.records import JSON, Document
from ragkit.store import STORES
from ragkit.store.base import Filter, Rows, Store
from ragkit.store.facade import VectorStore

LEAST_QUERIES = 20
"""So many are asked whatever time they take."""


@dataclass(frozen=True)
class Job:
    """What the process of one store is told when it starts."""

    name: str
    options: Mapping[str, JSON]
    folder: str
    """Where the rows are, and what exact search answers."""
    data: str
    base: int
    seed: int
    top_k: int
    queries: int
    filtered_queries: int
    round_seconds: float
    warm_up: int
    batch: int
    threads: int
    core: int | None
    """The one core that everything but the figure for several threads runs on; None: as the system likes."""


class Ask(Protocol):
    """Asks one query of a store."""

    def __call__(self, number: int) -> list[int]:
        """The rows that were found for the query of this number, best first."""


class Bench:
    """One store with the rows of the benchmark. Each public method measures one thing and returns figures by name."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._data = Dataset(Path(job.folder), job.data, job.base, job.seed)
        self._deleted = self._data.deleted.tolist()
        self._rows, self._queries = self._data.rows, self._data.queries[: max(job.queries, job.filtered_queries)]
        self._buckets = self._data.buckets
        self._store: Store | NumpyFloor | None = None
        self._setting: Setting = {}

    def hello(self) -> dict[str, JSON]:
        """Import the store's packages, on the core that is given to it."""
        self.pin(True)
        begun = time.perf_counter()
        kind: type = NumpyFloor if self._job.name == NAME else STORES.find(self._job.name)
        spent = time.perf_counter() - begun
        kept = bool(getattr(kind, "persistent", False))
        return {"import_s": spent, "persistent": kept}

    def build(self) -> dict[str, JSON]:
        """Put all rows in, and ask once: from then on the store answers."""
        self._store = self._opened({})
        put = self._put(0, self._data.base)
        answered = _Clock()
        with answered:
            self._ask(0)
        built, cpu = put.seconds + answered.seconds, put.cpu_seconds + answered.cpu_seconds
        there = self._store.count()
        if there != self._data.base:
            raise StoreError(f"{there:,} rows are in the store, and {self._data.base:,} were put in")
        rate = self._data.base / built
        return {"put_s": put.seconds, "build_s": built, "build_cpu_s": cpu, "build_rate": rate}

    def open(self, setting: Setting) -> dict[str, JSON]:
        """Open what was built, in a process that has not seen it, and ask once."""
        begun = time.perf_counter()
        self._store, self._setting = self._opened(setting), dict(setting)
        opened = time.perf_counter() - begun
        self._ask(0)
        return {"open_ms": opened * 1e3, "cold_ms": (time.perf_counter() - begun) * 1e3}

    def round(self, setting: Setting) -> dict[str, JSON]:
        """Ask the queries one by one."""
        self._turn_to(setting)
        return self._round("all", None, self._job.queries)

    def filtered(self, share: float) -> dict[str, JSON]:
        """The same under a filter that lets through a share of the rows."""
        self._turn_to({})
        return self._round(condition_of(share), {FIELD: {"$lt": limit_of(share)}}, self._job.filtered_queries)

    def threads(self) -> dict[str, JSON]:
        """Queries a second when several threads ask at once, on all cores."""
        self._turn_to({})
        self.pin(False)
        numbers, counts = count(), [0] * self._job.threads
        ready = threading.Barrier(self._job.threads + 1)
        stop = threading.Event()

        def ask(own: int) -> None:
            warm = False
            try:
                self._ask(own)
                warm = True
            finally:
                if not warm:
                    ready.abort()  # or the others would wait for this one for ever
            ready.wait()
            while not stop.is_set():
                self._ask(next(numbers) % len(self._queries))
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
        self.pin(True)
        return {"qps_n": sum(counts) / spent}

    def write(self) -> dict[str, JSON]:
        """Add a hundredth of the rows, delete another, and ask again."""
        store = self._turn_to({})
        adding = self._put(self._data.base, len(self._rows))
        with adding:
            self._ask(0)
        ids, deleting = [name_of(row) for row in self._deleted], _Clock()
        with deleting:
            gone = store.delete(ids)
            self._ask(0)
        added, deleted = adding.seconds, deleting.seconds
        if gone != len(self._deleted):
            raise StoreError(f"{gone} of {len(self._deleted)} rows that were there are said to be deleted")
        figures: dict[str, JSON] = {"add_ms": added * 1e3, "delete_ms": deleted * 1e3}
        figures["add_rate"] = (len(self._rows) - self._data.base) / added
        figures["delete_rate"] = gone / deleted
        after = self._round("after", None, self._job.filtered_queries)
        return figures | {f"{figure}_after": after[figure] for figure in ("p50_ms", "recall")}

    def read(self) -> dict[str, JSON]:
        """Of the floor: how long reading all rows takes."""
        if not isinstance(self._store, NumpyFloor):
            return {}
        seconds = self._store.read_seconds()
        return {"read_ms": seconds * 1e3, "read_gb_s": self._data.base * self._rows.shape[1] * 4 / seconds / 1e9}

    def close(self, clear: bool = False) -> dict[str, JSON]:
        """Let go of the store; `clear` takes everything out first, where it lives on a server."""
        if self._store is not None:
            if clear:
                self._store.clear()
            self._store.close()
            self._store = None
        return {}

    def pin(self, alone: bool) -> None:
        """Keep every thread of this process on one core, or let all cores have them."""
        core = self._job.core
        if core is None or not hasattr(os, "sched_setaffinity"):
            return
        wanted = {core} if alone else self._all_cores
        for thread in Path("/proc/self/task").iterdir():
            with suppress(ProcessLookupError):  # it ended in between
                os.sched_setaffinity(int(thread.name), wanted)

    _all_cores = frozenset(cores())

    def _opened(self, setting: Setting) -> Store | NumpyFloor:
        if self._job.name == NAME:
            return NumpyFloor()
        return VectorStore.create(self._job.name, **{**self._job.options, **setting})

    def _turn_to(self, setting: Setting) -> Store | NumpyFloor:
        """The store with these options, opened again where they are others than before."""
        if self._store is None or dict(setting) != self._setting:
            self.close()
            self._store, self._setting = self._opened(setting), dict(setting)
        return self._store

    def _put(self, first: int, last: int) -> _Clock:
        """Put some rows in, in batches; the clock runs while the store works, not while a batch is made for it."""
        assert self._store is not None  # noqa: S101 - it was opened by whoever calls this
        clock = _Clock()
        for start in range(first, last, self._job.batch):
            numbers = range(start, min(start + self._job.batch, last))
            documents = [
                Document(text, {FIELD: int(self._buckets[row])}, id=name_of(row))
                for row, text in zip(numbers, self._data.texts(numbers.start, numbers.stop), strict=True)
            ]
            rows = np.array(self._rows[numbers.start : numbers.stop])
            with clock:
                self._store.add_documents(documents, rows)
            _forget_pages(self._rows)
        return clock

    def _ask(self, number: int, filter: Filter | None = None) -> list[int]:
        assert self._store is not None  # noqa: S101 - as above
        found = self._store.search(self._queries[number], self._job.top_k, filter)
        return [int(one.document.id) for one in found]

    def _round(self, condition: str, filter: Filter | None, queries: int) -> dict[str, JSON]:
        for number in range(self._job.warm_up):
            self._ask(number % len(self._queries), filter)
        taken = timed(
            lambda number: self._ask(number, filter), min(queries, len(self._queries)), self._job.round_seconds
        )
        truth = load(self._data.folder, condition)
        recalls = [
            truth.recall(self._rows, self._queries[number], number, found) for number, found in enumerate(taken.found)
        ]
        _forget_pages(self._rows)
        return {**taken.figures(), "recall": float(np.mean(recalls)), "latencies_ms": taken.latencies_ms}


class _Clock:
    """Adds up the time spent in its `with` blocks: by the clock, and of the processor for this process."""

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = 0.0

    def __enter__(self) -> None:
        self._begun, self._cpu = time.perf_counter(), time.process_time()

    def __exit__(self, *error: object) -> None:
        self.seconds += time.perf_counter() - self._begun
        self.cpu_seconds += time.process_time() - self._cpu


@dataclass(frozen=True)
class Timed:
    """The queries of a round."""

    latencies_ms: list[float]
    found: list[list[int]]
    cpu_s: float

    def figures(self) -> dict[str, JSON]:
        """What is said of them: percentiles of the time that a caller waits, and the time of all cores a query."""
        p50, p95, p99 = np.percentile(self.latencies_ms, [50, 95, 99]).tolist()
        n = len(self.latencies_ms)
        seconds = sum(self.latencies_ms) / 1e3
        percentiles: dict[str, JSON] = {"p50_ms": p50, "p95_ms": p95, "p99_ms": p99}
        return {**percentiles, "qps_1": n / seconds, "cpu_ms": self.cpu_s * 1e3 / n, "asked": n}


def timed(ask: Ask, queries: int, seconds: float) -> Timed:
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
        if number + 1 >= LEAST_QUERIES and time.perf_counter() > end:
            break
    cpu = time.process_time() - cpu
    gc.enable()
    return Timed(latencies, found, cpu)


def name_of(row: int) -> str:
    """The id of a row's document."""
    return f"{row:08}"


def operations(bench: Bench) -> Iterator[tuple[str, Callable[..., dict[str, JSON]]]]:
    """What a process can be told to do, by name."""
    for name in ("hello", "build", "open", "round", "filtered", "threads", "write", "read", "close"):
        yield name, getattr(bench, name)


def _forget_pages(rows: Rows) -> None:
    """Let the mapped pages of the rows go, so that they do not count as the store's memory."""
    mapped = getattr(rows, "_mmap", None)
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
