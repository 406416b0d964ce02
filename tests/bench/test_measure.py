"""Time measurements, and the NumPy reference."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from ragkit.bench.datasets import FILTER_FIELD, Dataset
from ragkit.bench.measure import MIN_QUERIES, BenchJob, StoreBench, TimedQueries, row_id, time_queries
from ragkit.bench.numpy_reference import NumpyReference
from ragkit.bench.store_process import MemoryMonitor, drop_page_cache, folder_bytes
from ragkit.errors import StoreError
from ragkit.records import Document, SearchResult
from ragkit.store.base import Filter, Rows


def sleep_search(number: int) -> list[int]:
    """A store that takes 2 ms and finds the row of the query's number."""
    time.sleep(0.002)
    return [number]


def test_latencies_and_results_are_recorded() -> None:
    result = time_queries(sleep_search, 5, 60)
    assert result.found_rows == [[0], [1], [2], [3], [4]]
    assert all(ms >= 2 for ms in result.latencies_ms)


def test_sleeping_counts_as_latency_and_not_as_cpu_time() -> None:
    # Longer than what else this process may do meanwhile, which counts as CPU time too.
    def sleep_longer(number: int) -> list[int]:
        time.sleep(0.04)
        return [number]

    result = time_queries(sleep_longer, 5, 60)
    assert sum(result.latencies_ms) >= 200
    assert result.cpu_seconds < 0.1


def test_a_round_ends_in_time_but_not_before_twenty_queries() -> None:
    result = time_queries(sleep_search, 1000, 0.001)
    assert len(result.found_rows) == MIN_QUERIES


def test_percentiles_are_those_of_the_queries() -> None:
    figures = TimedQueries([float(ms) for ms in range(1, 101)], [[]] * 100, 0.5).metrics()
    assert figures == {
        "p50_ms": pytest.approx(50.5), "p95_ms": pytest.approx(95.05), "p99_ms": pytest.approx(99.01),
        "qps_1": pytest.approx(100 / 5.05), "cpu_ms": pytest.approx(5.0), "asked": 100,
    }  # fmt: skip


def floor() -> NumpyReference:
    """Four rows: east, north, west, and one between east and north."""
    result = NumpyReference()
    rows = np.array([[1, 0], [0, 1], [-1, 0], [0.8, 0.6]], np.float32)
    result.add_documents([Document("", {FILTER_FIELD: 10 * n}, id=row_id(n)) for n in range(4)], rows)
    return result


class OneThreadOnly(NumpyReference):
    """A store that fails if two threads search it at once; the first search blocks."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = 0

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        self._asked += 1
        if self._asked > 1:
            raise StoreError("two threads at once")
        return []


def test_an_error_in_one_thread_is_raised_without_a_hang(data: Dataset) -> None:
    bench = StoreBench(
        BenchJob(
            store_name="numpy", options={}, folder=str(data.folder), dataset_name=data.name,
            base_count=data.base_count, seed=data.seed, top_k=3, queries=5,
            filtered_queries=5, round_seconds=0.2, warm_up=1, batch=100, threads=2, pinned_core=None,
        )
    )  # fmt: skip
    bench._store = OneThreadOnly()
    with pytest.raises(StoreError, match="two threads at once"):
        bench.measure_concurrent()


EAST = np.array([1, 0], np.float32)


def ids(store: NumpyReference, top_k: int, below: int | None = None) -> list[int]:
    queries = None if below is None else {FILTER_FIELD: {"$lt": below}}
    return [int(item.document.id) for item in store.search(EAST, top_k, queries)]


def test_the_reference_returns_the_nearest_in_order() -> None:
    store = floor()
    assert ids(store, 2) == [0, 3]
    assert ids(store, 9) == [0, 3, 1, 2]
    assert [item.score for item in store.search(EAST, 2)] == pytest.approx([1.0, 0.8])


@pytest.mark.parametrize(("below", "result"), [(40, [0, 3]), (30, [0, 1]), (1, [0]), (0, [])])
def test_the_reference_filters(below: int, result: list[int]) -> None:
    assert ids(floor(), 2, below) == result


def test_the_reference_deletes() -> None:
    store = floor()
    assert (store.delete([row_id(0)]), store.count(), ids(store, 2)) == (1, 3, [3, 1])
    store.clear()
    assert store.count() == 0


def test_reading_the_reference_once_takes_time() -> None:
    store = floor()
    store.search(EAST)
    assert 0 < store.read_seconds() < 0.1


def test_files_are_counted_with_their_size_on_disk(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a").write_bytes(b"x" * 10_000)
    drop_page_cache(tmp_path)
    assert 10_000 <= folder_bytes(tmp_path) <= 3 * 10_000


def test_an_ended_process_has_no_memory() -> None:
    watch = MemoryMonitor(2**30)
    watch.stop()
    assert (watch.reset_peak(), watch.peak_bytes) == (0, 0)
