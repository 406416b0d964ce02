"""The LanceDB store beyond the conformance suite: indexes, compaction, handles, names."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa
import pytest
from lancedb.background_loop import LOOP

from ragkit.errors import DimensionMismatch, InvalidOption, StoreError
from ragkit.records import Document
from ragkit.store.backends import lancedb as lancedb_
from ragkit.store.backends.lancedb import LancedbStore
from ragkit.store.backends.lancedb_records import encode_metadata, id_to_hex, to_datafusion_sql
from ragkit.store.base import Filter, Rows
from ragkit.store.filters.language import parse_filter
from ragkit.store.filters.pushdown import to_condition
from ragkit.store.options import LancedbOptions
from ragkit.testing.store_factory import unit_rows
from ragkit.testing.store_under_test import (
    DIMENSION,
    check_contents,
    check_search,
    exact_search,
    fill_store,
    make_documents,
    sample_vectors,
)

Opener = Callable[..., LancedbStore]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    stores: list[LancedbStore] = []

    def open_one(**options: object) -> LancedbStore:
        stores.append(LancedbStore(LancedbOptions(tmp_path / "index", **options)))  # type: ignore[arg-type]
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def clustered(n: int, seed: int) -> Rows:
    """Clustered rows around a fixed set of centres."""
    centres, noise = unit_rows(100, 32, seed=1), unit_rows(n, 32, seed=seed)
    rows = centres[np.random.default_rng(seed).integers(0, 100, n)] + 0.7 * noise
    unit: Rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


@pytest.mark.parametrize("method", ["ivf_pq", "hnsw"])
def test_an_index_finds_nearly_all_and_misses_nothing_under_a_rare_filter(opened: Opener, method: str) -> None:
    store = opened(method=method, index_rows=1000)
    documents = [Document(f"{n}", {"rare": n % 1000 == 999, "half": n % 2}, id=f"{n:05}") for n in range(3000)]
    contents = fill_store(store, documents, clustered(3000, seed=2))
    with store._latest_table() as table:
        assert table is not None
        statistics = table.index_stats("ragkit")
        assert statistics is not None
        assert statistics.num_indexed_rows == 3000
    right = 0
    queries = clustered(20, seed=3)
    for query in queries:
        for where in (None, {"half": 1}):
            expected = {name for name, _ in exact_search(contents, query, 10, where)}
            right += len(expected & {result.document.id for result in store.search(query, 10, where)})
        check_search(store, contents, query, 10, {"rare": True})
    assert right >= 0.95 * 10 * 2 * len(queries)


def test_more_hits_than_an_index_keeps_candidates_are_found(opened: Opener) -> None:
    store = opened(method="hnsw", index_rows=500, ef=20)
    contents = fill_store(store, make_documents(f"{n:04}" for n in range(1000)), clustered(1000, seed=2))
    [query] = clustered(1, seed=3)
    for count in (10, 300):
        results = {result.document.id for result in store.search(query, count)}
        assert len(results) == count
        assert len(results & {name for name, _ in exact_search(contents, query, count)}) >= 0.95 * count


def test_rows_added_after_the_index_are_found(opened: Opener) -> None:
    store = opened(method="hnsw", index_rows=500)
    fill_store(store, make_documents(f"{n:04}" for n in range(500)), clustered(500, seed=2))
    late = clustered(3, seed=9)
    fill_store(store, make_documents("abc"), late)
    assert [store.search(row, 1)[0].document.id for row in late] == ["a", "b", "c"]


def test_many_small_writes_leave_few_files(opened: Opener, tmp_path: Path) -> None:
    store = opened(keep_seconds=0.01)
    for n in range(96):
        store.add_documents(make_documents([f"{n:03}"]), sample_vectors()[[n % 12]])
    assert store.count() == 96
    assert sum(path.is_file() for path in tmp_path.rglob("*")) < 100  # without compaction, three for each write


def test_a_handle_sees_rows_written_after_another_handle_cleared(opened: Opener) -> None:
    store, other = opened(), opened()
    fill_store(store, make_documents("abc"), sample_vectors()[:3])
    assert other.count() == 3
    store.clear()
    assert other.search(sample_vectors()[0], 3) == []
    check_contents(other, fill_store(store, make_documents("xy"), unit_rows(2, 5, seed=1)))
    with pytest.raises(DimensionMismatch, match="the store has 5, got 8"):
        other.search(sample_vectors()[0], 1)


def test_writers_of_two_handles_lose_nothing(opened: Opener) -> None:
    stores = [opened(), opened()]
    fill_store(stores[0], make_documents(["first"]), sample_vectors()[:1])

    def write(store: LancedbStore, prefix: str) -> None:
        for n in range(10):
            store.add_documents(make_documents([f"{prefix}{n}"]), sample_vectors()[[n % 12]])

    threads = [threading.Thread(target=write, args=(store, prefix)) for store, prefix in zip(stores, "ab", strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.count() for store in stores] == [21, 21]


def test_an_interrupt_waits_for_the_end_of_a_write(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write goes on in a thread of LanceDB: one that the caller no longer waits for could replace a later one."""

    def interrupted(documents: Sequence[Document], rows: Rows, schema: pa.Schema) -> pa.Table:
        signal.raise_signal(signal.SIGINT)
        return to_arrow(documents, rows, schema)

    to_arrow = lancedb_._to_arrow
    monkeypatch.setattr(lancedb_, "_to_arrow", interrupted)
    store = opened()
    with pytest.raises(KeyboardInterrupt):
        store.add_documents(make_documents("abc"), sample_vectors()[:3])
    assert [id_ for id_, _, _ in store.scan()] == ["a", "b", "c"]


@pytest.mark.parametrize("is_open", [False, True], ids=["open", "scan"])
def test_an_interrupt_waits_for_the_end_of_a_call(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    """A coroutine of LanceDB that never starts is reported by Python on stderr, after the message of the command."""
    store = opened()
    fill_store(store, make_documents("abc"), sample_vectors()[:3])
    started: list[object] = []
    interrupted: list[object] = []

    def run_interrupted(coroutine: Coroutine[object, object, object]) -> object:
        started.append(coroutine)
        try:
            if len(started) == 1:  # a second Ctrl-C takes effect at once
                signal.raise_signal(signal.SIGINT)
            return run(coroutine)
        except KeyboardInterrupt:
            interrupted.append(coroutine)
            raise

    run: Callable[..., object] = LOOP.run
    monkeypatch.setattr(LOOP, "run", run_interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(store.scan()) if is_open else opened()
    assert started
    assert not interrupted
    monkeypatch.undo()
    assert [id_ for id_, _, _ in store.scan()] == ["a", "b", "c"]


@pytest.mark.parametrize("method", ["open", "count", "search", "scan", "add_documents", "delete", "clear"])
def test_a_second_interrupt_takes_effect_at_once(opened: Opener, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    store = opened()
    fill_store(store, make_documents("abc"), sample_vectors()[:3])
    calls: dict[str, Callable[[], object]] = {
        "open": opened,
        "count": store.count,
        "search": lambda: store.search(sample_vectors()[0], 1),
        "scan": lambda: next(store.scan()),
        "add_documents": lambda: store.add_documents(make_documents("d"), sample_vectors()[3:4]),
        "delete": lambda: store.delete(["a"]),
        "clear": store.clear,
    }
    reached: list[str] = []

    def run_interrupted(coroutine: Coroutine[object, object, object]) -> object:
        coroutine.close()
        signal.raise_signal(signal.SIGINT)
        reached.append("first")
        signal.raise_signal(signal.SIGINT)
        reached.append("second")
        raise AssertionError

    monkeypatch.setattr(LOOP, "run", run_interrupted)
    with pytest.raises(KeyboardInterrupt):
        calls[method]()
    assert reached == ["first"]


def test_a_scan_returns_the_rows_of_its_start(opened: Opener) -> None:
    store = opened()
    fill_store(store, make_documents("abc"), sample_vectors()[:3])
    scan = store.scan()
    assert next(scan)[0] == "a"
    store.delete(["b"])
    store.add_documents(make_documents("d"), sample_vectors()[3:4])
    assert [name for name, _, _ in scan] == ["b", "c"]
    assert [name for name, _, _ in store.scan()] == ["a", "c", "d"]


def test_any_table_name_is_accepted_and_none_escapes_the_directory(opened: Opener, tmp_path: Path) -> None:
    names = ["plain", "../../outside", "a b", "'; DROP TABLE x; --", "\udc80", "", "x" * 300]
    for place, name in enumerate(names):
        fill_store(opened(table=name), make_documents([f"{place}"]), sample_vectors()[:1])
    assert [[result for result, _, _ in opened(table=name).scan()] for name in names] == [[f"{n}"] for n in range(7)]
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_filters_with_thousands_of_conditions_work(opened: Opener) -> None:
    store = opened()
    documents = [Document(f"{n}", {"n": n, "s": f"it's {n}"}, id=f"{n:03}") for n in range(40)]
    contents = fill_store(store, documents, unit_rows(40, DIMENSION, seed=1))
    check_search(
        store, contents, sample_vectors()[0], 5, {"$or": [{"n": {"$gt": 9_000 - n}} for n in range(2000)] + [{"n": 7}]}
    )
    check_search(store, contents, sample_vectors()[0], 5, {"n": {"$in": [*range(20, 3000), "x", None, True]}})
    check_search(store, contents, sample_vectors()[0], 5, {"$and": [{"s": {"$ne": f"it's {n}"}} for n in range(30)]})


def test_integers_beyond_float_precision_are_distinguished(opened: Opener) -> None:
    store = opened()
    contents = fill_store(
        store, [Document(f"{n}", {"n": 2**53 + n}, id=f"{n}") for n in range(6)], sample_vectors()[:6]
    )
    for operator in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte"):
        check_search(store, contents, sample_vectors()[0], 6, {"n": {operator: 2**53 + 3}})


def test_the_sql_contains_no_text_of_a_filter() -> None:
    where: Filter = {"x'); DROP TABLE t; --": {"$gt": "it's"}, "y": {"$ne": "'"}, "z": {"$lte": 2.5}}
    sql = to_datafusion_sql(to_condition(parse_filter(where)))
    assert "DROP" not in sql
    assert sql.count("'") == 2 * (1 + 2 + 2 + 1 + 2 + 1) - 2
    assert "<= 2.5" in sql


def test_scalars_support_ranges_and_lists_only_elements() -> None:
    assert encode_metadata({"n": 2})[1] != "{}"
    assert encode_metadata({"s": "a"})[1] != "{}"
    assert encode_metadata({"l": [1, 2], "b": True, "e": {}})[1] == "{}"


def test_keys_have_the_order_of_the_ids_and_can_be_decoded() -> None:
    names = ["", "A", "a", "a\0", "aa", "é", "\ud800", "\uffff", "😀"]
    assert sorted(names, key=id_to_hex) == sorted(names)
    assert [bytes.fromhex(id_to_hex(name)).decode("utf-8", "surrogatepass") for name in names] == names


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = None
    with pytest.raises(StoreError, match=r"LanceDB error in .*file"):
        store = LancedbStore(LancedbOptions(tmp_path / "file"))
        store.add_documents(make_documents("a"), sample_vectors()[:1])
    assert store is None


@pytest.mark.parametrize("row", [{"key": "a"}, {"vector": "text"}])
def test_a_table_without_vectors_is_an_error_in_one_line(tmp_path: Path, row: dict[str, str]) -> None:
    options = LancedbOptions(tmp_path / "other")
    lancedb.connect(options.path).create_table(options.table, [row])
    with pytest.raises(StoreError, match=r"LanceDB error in .*other: the table has no column of vectors"):
        LancedbStore(options)


def test_options_that_contradict_the_table_are_rejected(opened: Opener) -> None:
    fill_store(opened(), make_documents("a"), sample_vectors()[:1])
    with pytest.raises(DimensionMismatch, match=f"the store has {DIMENSION}, got 3"):
        opened(dimension=3)


def test_a_closed_store_raises_an_error(opened: Opener) -> None:
    store = opened()
    store.close()
    with pytest.raises(StoreError, match="is closed: open it again"):
        store.count()


def test_an_unknown_method_is_rejected() -> None:
    with pytest.raises(InvalidOption, match=r"method must be .* \(got 'none'\)"):
        LancedbOptions("x", method="none")  # type: ignore[arg-type]
