"""The DuckDB store beyond the conformance suite: file, settings, limits."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pytest

from ragkit.errors import DimensionMismatch, KnowledgeBaseDamaged, StoreError
from ragkit.records import Document
from ragkit.store.backends import duckdb as duckdb_
from ragkit.store.backends.duckdb import Arrays, DuckdbStore
from ragkit.store.filters.pushdown import FieldValue
from ragkit.store.options import DuckdbOptions
from ragkit.testing.store_factory import unit_rows
from ragkit.testing.store_under_test import (
    DIMENSION,
    check_contents,
    check_search,
    fill_store,
    make_documents,
    sample_vectors,
)

Opener = Callable[..., DuckdbStore]

OPEN = """
import sys
from ragkit.errors import KnowledgeBaseLocked
from ragkit.store.backends.duckdb import DuckdbStore
from ragkit.store.options import DuckdbOptions
try:
    DuckdbStore(DuckdbOptions(sys.argv[1]))
except KnowledgeBaseLocked as error:
    print(error)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "index.duckdb"


@pytest.fixture
def opened(path: Path) -> Iterator[Opener]:
    stores: list[DuckdbStore] = []

    def open_one(dimension: int | None = None) -> DuckdbStore:
        stores.append(DuckdbStore(DuckdbOptions(path, dimension)))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def query(path: Path, sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect(path, read_only=True) as connection:
        return connection.execute(sql).fetchall()


def test_documents_are_plain_columns_that_can_be_queried(opened: Opener, path: Path) -> None:
    store = opened()
    fill_store(
        store,
        [Document("Hello", {"year": 2024, "tags": ["a", "b"]}, source="/a.md", title="T", id="é")],
        sample_vectors()[:1],
    )
    store.close()
    sql = "SELECT decode(id), source, title, format, text, metadata->>'$.year', whole, vector[1] FROM documents"
    assert query(path, sql) == [("é", "/a.md", "T", "text", "Hello", "2024", "", float(sample_vectors()[0][0]))]
    assert query(path, "SELECT field, kind, number, string FROM facts ORDER BY ALL") == [
        ("tags", "string", 0.0, "a"),
        ("tags", "string", 0.0, "b"),
        ("year", "number", 2024.0, ""),
    ]


def test_text_that_no_column_can_hold_is_restored(opened: Opener) -> None:
    odd = [
        Document("a\udc80b", {"k\udc80": "v\udfff"}, source="/f\udcff.txt", title="\ud800", id="i\udc80"),
        Document("x", {"k": "\\ud800 is just text", "n": "a\0b"}, id="escaped"),
        Document("😀 \0", {"k": "😀", "big": 2**70, "small": -0.0}, id="pair"),
    ]
    check_contents(opened(), fill_store(opened(), odd, sample_vectors()[:3]))


def test_another_process_gets_an_error_that_names_the_holder_of_the_file(opened: Opener, path: Path) -> None:
    opened()
    run = subprocess.run([sys.executable, "-c", OPEN, str(path)], capture_output=True, text=True, check=True)
    assert run.stdout.startswith(f"{path} is locked by ")
    assert run.stdout.endswith("): wait until it finishes, or stop it\n") and "(PID " in run.stdout


def test_no_other_file_can_be_read_and_no_setting_changed(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with opened()._read_transaction() as connection:
        with pytest.raises(duckdb.PermissionException, match="disabled by configuration"):
            connection.execute(f"SELECT * FROM read_csv('{tmp_path / 'secret.csv'}')")
        connection.execute("ROLLBACK; BEGIN")
        with pytest.raises(duckdb.Error, match="configuration has been locked"):
            connection.execute("SET enable_external_access = true")
        connection.execute("ROLLBACK; BEGIN")


def test_a_foreign_file_is_rejected(path: Path, opened: Opener) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database " * 500)
    with pytest.raises(KnowledgeBaseDamaged, match="is not an intact DuckDB database"):
        opened()


def test_an_unknown_layout_is_rejected(path: Path, opened: Opener) -> None:
    opened().close()
    with duckdb.connect(path) as connection:
        connection.execute("UPDATE state SET format = 9")
    with pytest.raises(KnowledgeBaseDamaged, match="has layout 9, expected 1"):
        opened()


def test_a_directory_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot create the directory .*file"):
        DuckdbStore(DuckdbOptions(tmp_path / "file" / "index.duckdb"))


def test_options_that_contradict_the_file_are_rejected(opened: Opener) -> None:
    store = opened()
    fill_store(store, make_documents("a"), sample_vectors()[:1])
    with pytest.raises(DimensionMismatch, match=f"the store has {DIMENSION}, got 3"):
        opened(dimension=3)


def test_a_closed_store_raises_an_error(opened: Opener) -> None:
    store = opened()
    store.close()
    with pytest.raises(StoreError, match="is closed: open it again"):
        store.count()


def test_filters_with_thousands_of_conditions_work(opened: Opener) -> None:
    store = opened()
    contents = fill_store(
        store, [Document(f"{n}", {"n": n}, id=f"{n:03}") for n in range(40)], unit_rows(40, DIMENSION, seed=1)
    )
    check_search(
        store, contents, sample_vectors()[0], 5, {"$or": [{"n": {"$gt": 10_000 - n}} for n in range(3000)] + [{"n": 7}]}
    )
    check_search(store, contents, sample_vectors()[0], 5, {"$and": [{"n": {"$ne": n}} for n in range(30)]})
    check_search(store, contents, sample_vectors()[0], 5, {"n": {"$in": [*range(20, 5000), "x", None, True]}})


@pytest.mark.timeout(60)
def test_an_interrupt_waits_for_the_query(opened: Opener) -> None:
    """DuckDB may wait forever for the threads of a query that it interrupts."""
    done: list[int] = []
    store = opened()
    with pytest.raises(KeyboardInterrupt), store._write_transaction() as connection:
        threading.Timer(0.05, signal.raise_signal, [signal.SIGINT]).start()
        seconds = "SELECT count(*) FROM range(20000) a, range(20000) b WHERE (a.range * b.range) % 7 = 3"
        done += connection.execute(seconds).fetchall()[0]
    assert done
    assert store.count() == 0


def test_an_interrupt_waits_for_the_end_of_a_write(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(values: Sequence[tuple[int, FieldValue]]) -> Arrays:
        signal.raise_signal(signal.SIGINT)
        return field_value_arrays(values)

    field_value_arrays = duckdb_._field_value_arrays
    monkeypatch.setattr(duckdb_, "_field_value_arrays", interrupted)
    store = opened()
    documents = make_documents("abc", {"v": 1})
    with pytest.raises(KeyboardInterrupt):
        store.add_documents(documents, sample_vectors()[:3])
    assert [id_ for id_, _, _ in store.scan()] == [document.id for document in documents]


@pytest.mark.parametrize("error", [RuntimeError("Query interrupted"), duckdb.Error("KeyboardInterrupt: ")])
def test_an_interrupt_reported_by_duckdb_is_an_interrupt(error: Exception, path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), duckdb_._translate_errors(path):
        raise error


def test_the_program_is_interrupted_at_once_between_the_steps_of_a_scan(opened: Opener) -> None:
    store = opened()
    fill_store(store, make_documents("abc"), sample_vectors()[:3])
    steps = store.scan()
    assert next(steps)[0] == "a"
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert [id_ for id_, _, _ in steps] == ["b", "c"]


def test_integers_beyond_float_precision_are_distinguished(opened: Opener) -> None:
    store = opened()
    documents = [Document(f"{n}", {"n": 2**53 + n}, id=f"{n}") for n in range(6)]
    contents = fill_store(store, documents, sample_vectors()[:6])
    for operator in ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte"):
        for n in range(6):
            check_search(store, contents, sample_vectors()[0], 6, {"n": {operator: 2**53 + n}})


def test_metadata_rows_are_deleted_with_their_documents(opened: Opener, path: Path) -> None:
    store = opened()
    fill_store(store, make_documents("abc", {"v": 1, "old": [1, 2]}), sample_vectors()[:3])
    fill_store(store, make_documents("ab", {"v": 2}), sample_vectors()[:2])
    store.delete(["c"])
    store.close()
    assert query(path, "SELECT field, number, count(*) FROM facts GROUP BY ALL") == [("v", 2.0, 2)]


def test_many_documents_are_added_at_once_and_returned_in_order(opened: Opener) -> None:
    store = opened()
    names = [f"{n * 7919 % 2500:04}" for n in range(2500)]
    check_contents(store, fill_store(store, make_documents(names, {"a": 1}), unit_rows(2500, 5, seed=2)))


def test_handles_can_be_opened_concurrently(opened: Opener) -> None:
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: opened(), range(8)))
    contents = fill_store(stores[0], make_documents("ab"), sample_vectors()[:2])
    for store in stores:
        check_contents(store, contents)


def test_writers_of_two_handles_take_turns(opened: Opener) -> None:
    stores = [opened(), opened()]

    def write(store: DuckdbStore, prefix: str) -> None:
        for n in range(15):
            store.add_documents(make_documents([f"{prefix}{n}", "shared"]), sample_vectors()[[n % 12, 0]])

    threads = [threading.Thread(target=write, args=(store, prefix)) for store, prefix in zip(stores, "ab", strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.count() for store in stores] == [31, 31]
    assert len({name for name, _, _ in stores[0].scan()}) == 31


def test_rows_are_stored_in_a_format_that_is_fast_to_scan(opened: Opener, path: Path) -> None:
    store = opened()
    fill_store(store, make_documents(f"{n:05}" for n in range(2000)), unit_rows(2000, DIMENSION, seed=1))
    store.close()
    parts = "FROM pragma_storage_info('documents') WHERE column_name = 'vector' AND segment_type = 'FLOAT'"
    assert query(path, f"SELECT DISTINCT compression {parts}") == [("ALP",)]


def test_a_scan_returns_the_rows_of_its_start(opened: Opener) -> None:
    store = opened()
    fill_store(store, make_documents("abc"), sample_vectors()[:3])
    scan = store.scan()
    assert next(scan)[0] == "a"
    store.delete(["b"])
    store.add_documents(make_documents("d"), sample_vectors()[3:4])
    assert [name for name, _, _ in scan] == ["b", "c"]
    assert np.array_equal([name for name, _, _ in store.scan()], ["a", "c", "d"])
