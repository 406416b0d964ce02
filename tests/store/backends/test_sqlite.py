"""The SQLite store beyond the conformance suite: files, checksums, locks, compaction."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ragkit.errors import DimensionMismatch, InvalidOption, KnowledgeBaseDamaged, KnowledgeBaseLocked, StoreError
from ragkit.records import Document
from ragkit.sqlite_wal import enable_wal
from ragkit.store.backends.sqlite import SqliteStore
from ragkit.store.native.scanner import MIN_ROWS
from ragkit.store.native.vector_file import HEADER_BYTES
from ragkit.store.options import SqliteOptions
from ragkit.testing.store_factory import unit_rows
from ragkit.testing.store_under_test import (
    DIMENSION,
    check_contents,
    check_search,
    fill_store,
    make_documents,
    sample_vectors,
)

Opener = Callable[..., SqliteStore]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    """Opens the store in one directory, with options; all are closed at the end."""
    stores: list[SqliteStore] = []

    def open_one(dimension: int | None = None, busy_seconds: float = 30.0) -> SqliteStore:
        stores.append(SqliteStore(SqliteOptions(tmp_path / "index", dimension, busy_seconds)))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "index"


def execute(directory: Path, sql: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(directory / "store.sqlite", isolation_level=None)
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


def vector_files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("vectors-*"))


def test_a_directory_holds_a_database_and_one_vector_file(opened: Opener, directory: Path) -> None:
    store = opened()
    assert vector_files(directory) == []
    fill_store(store, make_documents("abc"), sample_vectors()[:3])
    [name] = vector_files(directory)
    assert (directory / name).stat().st_size == HEADER_BYTES + 3 * DIMENSION * 4
    assert execute(directory, "PRAGMA journal_mode") == [("wal",)]


def test_no_vector_is_kept_in_the_database(opened: Opener, directory: Path) -> None:
    store = opened()
    fill_store(store, make_documents(f"{n:03}" for n in range(500)), unit_rows(500, 1000, seed=1))
    store.close()
    assert (directory / "store.sqlite").stat().st_size < 200_000
    assert store_size(directory) > 2_000_000


def store_size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


def test_text_with_lone_surrogates_comes_back(opened: Opener) -> None:
    document = Document("a\udc80b", {"k\udc80": "v\udfff"}, source="/f\udcff.txt", title="\ud800", id="i\udc80")
    store = opened()
    contents = fill_store(store, [document, *make_documents(["i\uffff", "i"])], sample_vectors()[:3])
    check_contents(store, contents)
    check_search(store, contents, sample_vectors()[0], 3, {"k\udc80": "v\udfff"})


def test_the_dimension_is_kept_on_disk(opened: Opener) -> None:
    store = opened()
    fill_store(store, make_documents("a"), sample_vectors()[:1])
    store.close()
    with pytest.raises(DimensionMismatch, match="the store has 8, got 9"):
        opened().add_documents(make_documents("b"), unit_rows(1, 9, seed=1))
    with pytest.raises(DimensionMismatch, match="the store has 8, got 5"):
        opened(dimension=5)
    assert opened(dimension=8).count() == 1


def test_the_dimension_of_the_options_holds_for_the_first_rows_and_after_clear(opened: Opener) -> None:
    store = opened(dimension=8)
    for _ in range(2):
        with pytest.raises(DimensionMismatch, match="the store has 8, got 9"):
            store.add_documents(make_documents("a"), unit_rows(1, 9, seed=1))
        with pytest.raises(DimensionMismatch, match="the store has 8, got 9"):
            store.search(unit_rows(1, 9, seed=1)[0])
        store.clear()


@pytest.mark.parametrize(
    ("option", "value"), [("dimension", 0), ("busy_seconds", -1.0), ("busy_seconds", float("nan"))]
)
def test_options_out_of_range_are_rejected(option: str, value: float) -> None:
    values: dict[str, float] = {option: value}
    with pytest.raises(InvalidOption, match=f"{option} must be >= ."):
        SqliteOptions("index", **values)  # type: ignore[arg-type]  # on purpose


def test_a_path_that_is_a_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("a file")
    with pytest.raises(StoreError, match=r"cannot create the directory .*index: File exists"):
        SqliteStore(SqliteOptions(tmp_path / "index"))


def test_a_closed_store_raises_an_error(opened: Opener) -> None:
    store = opened()
    store.close()
    store.close()
    with pytest.raises(StoreError, match="index is closed: open it again"):
        store.count()


def test_compaction_starts_when_half_of_the_rows_are_dead(opened: Opener, directory: Path) -> None:
    store = opened()
    names = [f"{n:04}" for n in range(1000)]
    contents = fill_store(store, make_documents(names, {"v": 1}), unit_rows(1000, DIMENSION, seed=1))
    [before] = vector_files(directory)
    store.delete(names[:500])
    assert vector_files(directory) == [before]
    store.delete(names[500:501])
    [after] = vector_files(directory)
    assert after != before
    assert (directory / after).stat().st_size == HEADER_BYTES + 499 * DIMENSION * 4
    contents = {name: contents[name] for name in names[501:]}
    check_contents(store, contents)
    check_search(store, contents, sample_vectors()[0], 30, {"v": 1})
    assert execute(directory, "SELECT count(*), max(row) FROM metadata") == [(499, 498)]


def test_compaction_is_put_off_when_the_disk_is_full(
    opened: Opener, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened()
    names = [f"{n:04}" for n in range(1000)]
    contents = fill_store(store, make_documents(names), unit_rows(1000, DIMENSION, seed=1))

    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr("ragkit.store.native.vector_file.VectorFile.append", full)
    assert store.delete(names[:600]) == 600
    monkeypatch.undo()
    contents = {name: contents[name] for name in names[600:]}
    check_contents(store, contents)
    assert store.delete(names[600:601]) == 1
    del contents["0600"]
    assert execute(directory, "SELECT rows, documents FROM state") == [(399, 399)]
    check_contents(store, contents)
    assert len(vector_files(directory)) == 1


def test_a_few_dead_rows_cause_no_compaction(opened: Opener, directory: Path) -> None:
    store = opened()
    for n in range(200):
        store.add_documents(make_documents("a"), sample_vectors()[[n % 12]])
    assert (directory / vector_files(directory)[0]).stat().st_size == HEADER_BYTES + 200 * DIMENSION * 4
    assert store.count() == 1


def test_a_search_that_began_before_a_compaction_is_finished(opened: Opener, directory: Path) -> None:
    store, other = opened(), opened()
    names = [f"{n:04}" for n in range(1000)]
    contents = fill_store(store, make_documents(names), unit_rows(1000, DIMENSION, seed=1))
    scan = other.scan()
    seen = [next(scan)[0]]
    store.delete(names[:900])
    assert len(vector_files(directory)) == 1
    seen += [name for name, _, _ in scan]
    assert seen == names
    check_contents(other, {name: contents[name] for name in names[900:]})


def test_files_of_a_killed_writer_are_deleted(opened: Opener, directory: Path) -> None:
    store = opened()
    fill_store(store, make_documents("a"), sample_vectors()[:1])
    stored = vector_files(directory)
    store.close()
    (directory / "vectors-deadbeef.f32").write_bytes(b"left over")
    (directory / "vectors-deadbeef.i8").write_bytes(b"left over")
    store = opened()
    assert store.count() == 1
    assert len(vector_files(directory)) == 3
    store.delete(["a"])
    assert vector_files(directory) == stored


def test_the_8_bit_copy_is_stored_and_deleted_with_the_vectors(opened: Opener, directory: Path) -> None:
    store = opened()
    rows = unit_rows(MIN_ROWS, DIMENSION, seed=1)
    documents = make_documents(f"{n:06}" for n in range(MIN_ROWS))
    contents = fill_store(store, documents, rows)
    for query in sample_vectors()[:5]:
        check_search(store, contents, query, 10)
    [vectors, copy] = vector_files(directory)
    assert (vectors.removesuffix("f32"), copy.removesuffix("i8")) == (copy.removesuffix("i8"),) * 2
    store.add_documents(make_documents("z"), sample_vectors()[:1])
    assert vector_files(directory) == [vectors, copy]
    store.clear()
    assert vector_files(directory) == []


def alter_vector(directory: Path) -> None:
    [name] = vector_files(directory)
    with (directory / name).open("r+b") as file:
        file.seek(HEADER_BYTES + 2)
        byte = file.read(1)[0]
        file.seek(HEADER_BYTES + 2)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (alter_vector, r"vectors-\w+\.f32 has a checksum mismatch in row 0: run `ragkit verify --repair`"),
        (lambda path: execute(path, "UPDATE documents SET text = 'other'"), "has an altered document in row 0"),
        (lambda path: execute(path, "UPDATE documents SET id = x'41'"), "has an altered document in row 0"),
        (
            lambda path: execute(path, 'UPDATE documents SET rest = \'[{}, "text", "", [], []]\''),
            "altered document in row 0",
        ),
        (lambda path: execute(path, "DELETE FROM documents"), "lacks the documents of some vectors"),
        (lambda path: execute(path, "UPDATE documents SET row = 7"), "lacks the documents|without a vector"),
        (lambda path: [(path / name).unlink() for name in vector_files(path)], r"\.f32 is missing"),
        (lambda path: execute(path, "UPDATE state SET file_id = x'00'"), "belongs to another index"),
        (lambda path: execute(path, "UPDATE state SET rows = 5"), r"is truncated \(1 of 5 rows\)"),
    ],
)
def test_rows_altered_on_disk_are_never_returned(
    opened: Opener, directory: Path, damage: Callable[[Path], object], reason: str
) -> None:
    store = opened()
    fill_store(store, make_documents("a", {"v": 1}), sample_vectors()[:1])
    store.close()
    damage(directory)
    with pytest.raises(KnowledgeBaseDamaged, match=reason):
        opened().search(sample_vectors()[0], 1)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("UPDATE metadata SET json = '{}' WHERE row = 1", "has altered metadata in row 1"),
        ("DELETE FROM metadata WHERE row = 1", "has altered metadata in row 1"),
        ("DELETE FROM metadata WHERE row = 2", "lacks the metadata of row 2"),
    ],
)
def test_a_filter_is_never_evaluated_on_altered_metadata(
    opened: Opener, directory: Path, sql: str, reason: str
) -> None:
    store = opened()
    fill_store(store, make_documents("abc", {"v": 1}), sample_vectors()[:3])
    store.close()
    execute(directory, sql)
    with pytest.raises(KnowledgeBaseDamaged, match=reason):
        opened().search(sample_vectors()[0], 1, {"v": 1})


def test_an_invalid_database_is_damaged(opened: Opener, directory: Path) -> None:
    opened().close()
    (directory / "store.sqlite").write_bytes(b"no database at all, but something else entirely" * 100)
    with pytest.raises(
        KnowledgeBaseDamaged, match=r"is not an intact database .*run `ragkit verify --repair`, or rebuild"
    ):
        opened()


def test_a_newer_layout_is_rejected(opened: Opener, directory: Path) -> None:
    opened().close()
    execute(directory, "UPDATE state SET format = 3")
    with pytest.raises(KnowledgeBaseDamaged, match="has layout 3, expected 2"):
        opened()


def test_an_older_layout_is_rejected_with_a_hint(opened: Opener, directory: Path) -> None:
    opened().close()
    execute(directory, "UPDATE state SET format = 1")
    with pytest.raises(
        KnowledgeBaseDamaged, match="has layout 1, expected 2: run `ragkit verify --repair`, or rebuild the store"
    ):
        opened()


@pytest.mark.parametrize("sql", ["UPDATE metadata SET json = '{}' WHERE row = 1", "DELETE FROM metadata WHERE row = 1"])
def test_a_scan_verifies_the_metadata_used_by_filters(opened: Opener, directory: Path, sql: str) -> None:
    store = opened()
    fill_store(store, make_documents("abc", {"v": 1}), sample_vectors()[:3])
    execute(directory, sql)
    assert len(store.search(sample_vectors()[0], 3)) == 3
    with pytest.raises(KnowledgeBaseDamaged, match="has altered metadata in row 1"):
        list(store.scan())


def test_a_second_writer_waits_and_then_names_the_lock_holder(opened: Opener, directory: Path) -> None:
    store = opened(busy_seconds=0.05)
    fill_store(store, make_documents("a"), sample_vectors()[:1])
    other = sqlite3.connect(directory / "store.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for write in (
        lambda: store.add_documents(make_documents("b"), sample_vectors()[:1]),
        lambda: store.delete(["a"]),
        store.clear,
    ):
        with pytest.raises(KnowledgeBaseLocked, match="index is locked by another process: wait until it finishes"):
            write()
    assert store.search(sample_vectors()[0], 1)[0].document.id == "a"
    other.close()
    assert store.delete(["a"]) == 1


def test_threads_of_one_process_wait_for_each_other(opened: Opener) -> None:
    store = opened(busy_seconds=0.05)
    with store._write_lock, pytest.raises(KnowledgeBaseLocked, match="another thread of this process"):
        store.delete(["a"])
    store = opened()
    threads = [
        threading.Thread(
            target=store.add_documents, args=(make_documents(f"{n}-{i}" for i in range(5)), sample_vectors()[:5])
        )
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.count() == 20


def test_two_processes_may_create_the_store_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from ragkit.testing.writer import make_batch; from ragkit.testing.store_factory import open_store;"
        "from pathlib import Path; store = open_store('sqlite', Path(sys.argv[1]));"
        "store.add_documents(*make_batch(int(sys.argv[2]))); store.close()"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), f"{2 * n}"]) for n in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    store = SqliteStore(SqliteOptions(tmp_path / "sqlite"))
    assert store.count() == 60
    store.close()


def test_wal_is_enabled_when_another_connection_has_finished_its_switch(tmp_path: Path) -> None:
    path = tmp_path / "new.sqlite"
    first, second = (sqlite3.connect(path, isolation_level=None, check_same_thread=False) for _ in range(2))
    with closing(first), closing(second):
        first.execute("BEGIN EXCLUSIVE")
        timer = threading.Timer(0.2, first.execute, ["COMMIT"])
        timer.start()
        second.execute("PRAGMA busy_timeout=0")  # what SQLite does when two connections switch at once
        enable_wal(second, 20)
        assert second.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        timer.join()


def test_wal_is_refused_when_another_connection_keeps_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "new.sqlite"
    with closing(sqlite3.connect(path)) as first, closing(sqlite3.connect(path, timeout=0)) as second:
        first.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            enable_wal(second, 0.1)


def test_a_failed_write_leaves_everything_as_it_was(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    contents = fill_store(store, make_documents("abc"), sample_vectors()[:3])

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("ragkit.store.native.directory_store.encode_document", full)
    with pytest.raises(StoreError, match=r"SQLite error in .*index: database or disk is full"):
        store.add_documents(make_documents("bcd"), sample_vectors()[3:6])
    monkeypatch.undo()
    check_contents(store, contents)
    contents |= fill_store(store, make_documents("cd"), sample_vectors()[5:7])
    check_contents(store, contents)
    check_search(store, contents, sample_vectors()[6], 9)


def test_only_new_rows_are_read_after_another_handle_has_written(opened: Opener) -> None:
    store, other = opened(), opened()
    contents = fill_store(store, make_documents("abcdef", {"v": 1}), sample_vectors()[:6])
    check_search(other, contents, sample_vectors()[0], 9, {"v": 1})
    view = other._view
    contents |= fill_store(store, make_documents("fgh", {"v": 1}), sample_vectors()[6:9])
    store.delete(["a"])
    del contents["a"]
    check_search(other, contents, sample_vectors()[0], 9, {"v": 1})
    assert view is not None
    assert other._view is not None
    assert other._view.file is view.file
    assert other._view.metadata_index is view.metadata_index
    assert np.flatnonzero(~other._view.is_live).tolist() == [0, 5]
