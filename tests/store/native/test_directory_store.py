"""A search during which a write happens returns rows of one generation."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ragkit.records import Document, SearchResult
from ragkit.store.backends.faiss import FaissStore
from ragkit.store.backends.sqlite import SqliteStore
from ragkit.store.base import Rows
from ragkit.store.file_digests import compute_digests
from ragkit.store.native.directory_store import DirectoryStore
from ragkit.store.native.directory_view import StoreView
from ragkit.store.options import FaissOptions, SqliteOptions
from ragkit.testing.store_factory import unit_rows
from ragkit.testing.store_under_test import (
    DIMENSION,
    StoreContents,
    check_search,
    fill_store,
    make_documents,
    sample_vectors,
)

Opener = Callable[[], DirectoryStore]

QUERY: Rows = sample_vectors()[0]
ROWS = 1_000


@pytest.fixture(params=["sqlite", "faiss"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens the store in one directory; all are closed at the end."""
    stores: list[DirectoryStore] = []

    def open_one() -> DirectoryStore:
        if request.param == "sqlite":
            stores.append(SqliteStore(SqliteOptions(tmp_path / "index")))
        else:
            stores.append(FaissStore(FaissOptions(tmp_path / "index", index_rows=500)))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def names_of(contents: StoreContents) -> list[str]:
    """Ids, nearest first."""
    return sorted(contents, key=lambda name: -float(contents[name][1] @ QUERY))


def add_a_nearer_one(store: DirectoryStore, contents: StoreContents) -> StoreContents:
    return contents | fill_store(store, make_documents(["nearest"]), QUERY[None])


def replace_the_hits(store: DirectoryStore, contents: StoreContents) -> StoreContents:
    documents = [Document(f"new text of {name}", {"new": True}, id=name) for name in names_of(contents)[:10]]
    return contents | fill_store(store, documents, unit_rows(10, DIMENSION, seed=4))


def delete_the_second_hit(store: DirectoryStore, contents: StoreContents) -> StoreContents:
    gone = names_of(contents)[1]
    assert store.delete([gone]) == 1
    return {name: values for name, values in contents.items() if name != gone}


def compact(store: DirectoryStore, contents: StoreContents) -> StoreContents:
    """The rows are renumbered: the old numbers refer to other documents."""
    before = list(store._path.glob("vectors-*.f32"))
    keep = set(names_of(contents)[::5])
    store.delete([name for name in contents if name not in keep])
    assert before != list(store._path.glob("vectors-*.f32"))
    return {name: values for name, values in contents.items() if name in keep}


def clear_and_fill_anew(store: DirectoryStore, contents: StoreContents) -> StoreContents:
    store.clear()
    return fill_store(
        store, [Document("other", id=name) for name in contents], unit_rows(len(contents), DIMENSION, seed=5)
    )


def clear(store: DirectoryStore, contents: StoreContents) -> StoreContents:
    store.clear()
    return {}


WRITES = [add_a_nearer_one, replace_the_hits, delete_the_second_hit, compact, clear_and_fill_anew, clear]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("moment", ["before it ranks", "before it reads"])
def test_a_search_overtaken_by_a_write_returns_the_written_rows(
    opened: Opener,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[DirectoryStore, StoreContents], StoreContents],
    moment: str,
) -> None:
    store, other = opened(), opened()
    contents = fill_store(store, make_documents(f"{n:04}" for n in range(ROWS)), unit_rows(ROWS, DIMENSION, seed=3))
    check_search(store, contents, QUERY, 10)
    check_search(other, contents, QUERY, 10)
    written: list[StoreContents] = []
    part = {"before it ranks": "live_mask", "before it reads": "read_documents"}[moment]
    real = getattr(StoreView, part)

    def overtaken(self: StoreView, *arguments: object) -> object:
        if not written:
            written.append({})  # the write itself may search
            written[0] = write(other, contents)
        return real(self, *arguments)

    monkeypatch.setattr(StoreView, part, overtaken)
    results = store.search(QUERY, 10)
    monkeypatch.undo()
    [after] = written
    check_search(store, after, QUERY, 10)
    assert results == store.search(QUERY, 10)


def test_searches_during_writes_see_one_generation_each(opened: Opener) -> None:
    store, writer = opened(), opened()
    names, rows = [f"{n:03}" for n in range(600)], unit_rows(600, DIMENSION, seed=3)

    def put(version: int) -> None:
        writer.add_documents([Document(f"{version} {name}", {"v": version}, id=name) for name in names], rows)

    put(0)
    done, seen, problems = threading.Event(), set[int](), list[str]()
    expected = [names[place] for place in np.argsort(-(rows @ QUERY))[:10]]

    def look(results: list[SearchResult]) -> None:
        versions = {result.document.metadata["v"] for result in results}
        if len(versions) != 1 or [result.document.id for result in results] != expected:
            problems.append(f"{versions}: {[result.document.id for result in results]}")
        seen.update(version for version in versions if isinstance(version, int))

    def search() -> None:
        while not done.is_set() and not problems:
            look(store.search(QUERY, 10))

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for version in range(1, 12):  # a compaction follows every second write, as more than half are dead
            put(version)
            done.wait(random.Random(version).random() / 50)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert problems == []
    assert len(seen) > 1


def changed_results(store: DirectoryStore) -> list[str]:
    """The statements that the next borrowed connection executes."""
    connection = store._pool.acquire()
    result: list[str] = []
    connection.set_trace_callback(result.append)
    store._pool.release(connection)
    return result


def test_a_current_view_is_searched_without_a_transaction(opened: Opener) -> None:
    store = opened()
    contents = fill_store(store, make_documents(f"{n:04}" for n in range(ROWS)), unit_rows(ROWS, DIMENSION, seed=3))
    check_search(store, contents, QUERY, 10)
    result = changed_results(store)
    check_search(store, contents, QUERY, 10)
    assert len(result) == 1
    assert result[0].startswith("WITH requested")


def test_equal_rows_are_ordered_by_id_without_a_transaction(opened: Opener) -> None:
    store = opened()
    contents = fill_store(store, make_documents("dbca"), np.repeat(sample_vectors()[:1], 4, axis=0))
    for _ in range(2):
        check_search(store, contents, QUERY, 3)
    result = changed_results(store)
    check_search(store, contents, QUERY, 3)
    assert [statement.split()[0] for statement in result] == ["SELECT", "WITH"]


def test_a_reader_closed_after_the_writer_leaves_the_files_as_they_are(opened: Opener, tmp_path: Path) -> None:
    writer, reader = opened(), opened()
    contents = fill_store(writer, make_documents("abc"), sample_vectors()[:3])
    check_search(reader, contents, QUERY, 3)
    contents |= fill_store(writer, make_documents("d"), sample_vectors()[3:4])
    writer.close()
    digests = compute_digests(tmp_path / "index")
    check_search(reader, contents, QUERY, 4)
    reader.close()
    assert compute_digests(tmp_path / "index") == digests
