"""The in-memory store beyond the conformance suite."""

from __future__ import annotations

import threading

import pytest

from ragkit.errors import DimensionMismatch
from ragkit.store.backends.memory import MemoryStore
from ragkit.store.native.scanner import MIN_ROWS
from ragkit.store.options import MemoryOptions
from ragkit.testing.store_factory import unit_rows
from ragkit.testing.store_under_test import (
    DIMENSION,
    check_contents,
    check_search,
    fill_store,
    make_documents,
    sample_vectors,
)


def test_it_needs_no_options() -> None:
    assert MemoryStore().count() == 0


def test_the_dimension_of_the_options_holds_for_the_first_rows_and_after_clear() -> None:
    store = MemoryStore(MemoryOptions(dimension=8))
    for _ in range(2):
        with pytest.raises(DimensionMismatch, match="the store has 8, got 9"):
            store.add_documents(make_documents("a"), unit_rows(1, 9, seed=1))
        with pytest.raises(DimensionMismatch, match="the store has 8, got 9"):
            store.search(unit_rows(1, 9, seed=1)[0])
        store.clear()


def test_replaced_documents_do_not_accumulate() -> None:
    store = MemoryStore()
    names = [f"{n:03}" for n in range(300)]
    for n in range(10):
        contents = fill_store(store, make_documents(names, {"n": n}), unit_rows(300, DIMENSION, seed=n))
        assert len(store._state.documents) <= 600
    check_contents(store, contents)
    check_search(store, contents, sample_vectors()[0], 40, {"n": 9})


def test_a_running_scan_is_not_affected_by_writers() -> None:
    store = MemoryStore()
    fill_store(store, make_documents(f"{n:04}" for n in range(1000)), unit_rows(1000, DIMENSION, seed=1))
    scan = store.scan()
    seen = [next(scan)[0]]
    store.delete([f"{n:04}" for n in range(900)])
    fill_store(store, make_documents("x"), sample_vectors()[:1])
    assert seen + [name for name, _, _ in scan] == [f"{n:04}" for n in range(1000)]


def test_returned_rows_are_copies() -> None:
    store = MemoryStore()
    contents = fill_store(store, make_documents("a"), sample_vectors()[:1].copy())
    [(_, _, row)] = store.scan()
    row[:] = 0
    check_contents(store, contents)


def test_many_rows_are_searched_exactly_during_writes() -> None:
    store = MemoryStore()
    rows = unit_rows(MIN_ROWS + 500, DIMENSION, seed=1)
    documents = make_documents((f"{n:06}" for n in range(MIN_ROWS + 500)), {"v": 1})
    contents = fill_store(store, documents[:MIN_ROWS], rows[:MIN_ROWS])
    for start in range(MIN_ROWS, MIN_ROWS + 500, 100):
        check_search(store, contents, sample_vectors()[start % 12], 10)
        contents |= fill_store(store, documents[start : start + 100], rows[start : start + 100])
    check_search(store, contents, rows[-1], 10, {"v": {"$gte": 1}})


def test_threads_can_search_while_the_8_bit_copy_is_built() -> None:
    store = MemoryStore()
    rows = unit_rows(MIN_ROWS, DIMENSION, seed=1)
    contents = fill_store(store, make_documents(f"{n:06}" for n in range(MIN_ROWS)), rows)
    failures: list[AssertionError] = []

    def search() -> None:
        try:
            for query in sample_vectors()[:6]:
                check_search(store, contents, query, 10)
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
