"""The faiss store beyond the conformance suite: index, file, fallbacks."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ragkit.errors import DimensionMismatch, InvalidOption
from ragkit.records import Document
from ragkit.store.backends.faiss import FaissScanner, FaissStore
from ragkit.store.backends.faiss_index import FaissIndex
from ragkit.store.base import Rows
from ragkit.store.options import FaissOptions
from ragkit.testing.store_factory import unit_rows
from ragkit.testing.store_under_test import (
    StoreContents,
    StoreUnderTest,
    check_contents,
    check_search,
    exact_search,
    fill_store,
    make_documents,
    sample_vectors,
)
from ragkit.testing.stores import StoreCheck, checks_for

Opener = Callable[..., FaissStore]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def opened(directory: Path) -> Iterator[Opener]:
    """Opens the store in one directory, with an index from 500 rows on; all are closed at the end."""
    stores: list[FaissStore] = []

    def open_one(**options: object) -> FaissStore:
        chosen = {"index_rows": 500, **options}
        stores.append(FaissStore(FaissOptions(directory, **chosen)))  # type: ignore[arg-type]
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


def filled(store: FaissStore, n: int) -> StoreContents:
    documents = [Document(f"{m}", {"rare": m % 500 == 499, "half": m % 2, "m": m}, id=f"{m:05}") for m in range(n)]
    return fill_store(store, documents, clustered(n, seed=2))


def indexed_rows(store: FaissStore) -> int:
    scanner = store._scanner
    return scanner._faiss_index.rows if scanner is not None and scanner._faiss_index is not None else 0


def recall(store: FaissStore, contents: StoreContents, where: dict[str, int] | None = None) -> float:
    """Recall at 10."""
    queries, right = clustered(20, seed=3), 0
    for query in queries:
        expected = {name for name, _ in exact_search(contents, query, 10, where)}
        right += len(expected & {result.document.id for result in store.search(query, 10, where)})
    return right / (10 * len(queries))


@pytest.mark.parametrize("check", checks_for(FaissStore)[:-3], ids=lambda check: check.__name__)
def test_a_flat_index_passes_the_conformance_suite_from_the_first_row(directory: Path, check: StoreCheck) -> None:
    options = FaissOptions(directory, method="flat", index_rows=0, exact_share=0)
    check(StoreUnderTest(open=lambda: FaissStore(options), name="faiss", directory=directory, examples=60))


@pytest.mark.parametrize(
    ("method", "rows", "least"), [("flat", 2000, 1.0), ("hnsw", 2000, 0.98), ("ivfpq", 10_500, 0.95)]
)
def test_an_index_finds_nearly_all_and_misses_nothing_under_a_rare_filter(
    opened: Opener, method: str, rows: int, least: float
) -> None:
    store = opened(method=method)
    contents = filled(store, rows)
    assert indexed_rows(store) == rows
    assert recall(store, contents) >= least
    assert recall(store, contents, {"half": 1}) >= least
    for query in clustered(3, seed=4):
        check_search(store, contents, query, 10, {"rare": True})
        check_search(store, contents, query, 7, {"m": 77})


def test_scores_are_computed_from_the_rows_not_their_codes(opened: Opener) -> None:
    store = opened(method="ivfpq", code_bytes=2)
    contents = filled(store, 10_000)
    query = clustered(1, seed=5)[0]
    for result in store.search(query, 20):
        assert result.score == pytest.approx(float(np.dot(contents[result.document.id][1], query)), abs=1e-6)


def test_fewer_rows_than_it_takes_to_train_are_scanned(opened: Opener) -> None:
    store = opened(method="ivfpq")
    contents = filled(store, 2000)
    assert indexed_rows(store) == 0
    assert recall(store, contents) == 1.0


def test_rows_that_the_index_lacks_are_scanned(opened: Opener) -> None:
    store = opened()
    filled(store, 600)
    late = clustered(3, seed=9)
    fill_store(store, make_documents("abc"), late)
    assert indexed_rows(store) == 600
    assert [store.search(row, 1)[0].document.id for row in late] == ["a", "b", "c"]
    fill_store(store, make_documents(f"x{n}" for n in range(1100)), clustered(1100, seed=8))
    assert indexed_rows(store) == 1703


def test_replaced_and_deleted_documents_are_skipped_and_finally_compacted(opened: Opener) -> None:
    store = opened()
    contents = filled(store, 1200)
    scanner = store._scanner
    store.delete([f"{n:05}" for n in range(300)])
    for n in range(300):
        del contents[f"{n:05}"]
    assert store._scanner is scanner  # a quarter is dead
    assert recall(store, contents) >= 0.98
    store.delete([f"{n:05}" for n in range(300, 500)])
    for n in range(300, 500):
        del contents[f"{n:05}"]
    assert store._scanner is not scanner
    assert indexed_rows(store) == 700
    assert recall(store, contents) >= 0.98
    check_contents(store, contents)


def test_the_index_is_saved_and_loaded_when_the_store_is_opened(
    opened: Opener, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened()
    contents = filled(store, 600)
    store.close()
    [file] = directory.glob("*.faiss")
    assert file.read_bytes()[:8] == b"ragkfai\n"
    monkeypatch.setattr(FaissIndex, "create", lambda *_: pytest.fail("the index was made anew"))
    again = opened()
    assert indexed_rows(again) == 600
    assert recall(again, contents) >= 0.98


@pytest.mark.parametrize("place", [0, 8, 12, 30, 44, 52, 60, 70, 5000, -1])
def test_a_file_with_one_wrong_byte_is_never_loaded_by_faiss(opened: Opener, directory: Path, place: int) -> None:
    store = opened()
    filled(store, 600)
    store.close()
    [file] = directory.glob("*.faiss")
    complete = bytearray(file.read_bytes())
    complete[place] ^= 1
    file.write_bytes(complete)
    file_id = bytes(complete[12:28]) if place != 12 else bytes([complete[12] ^ 1, *complete[13:28]])
    assert FaissIndex.load(file, file_id, clustered(600, seed=2), FaissOptions("")) is None
    again = opened()
    assert indexed_rows(again) == 600
    assert again.count() == 600


@pytest.mark.parametrize("size", [0, 10, 60, 1000])
def test_a_truncated_file_is_rebuilt(opened: Opener, directory: Path, size: int) -> None:
    store = opened()
    filled(store, 600)
    store.close()
    [file] = directory.glob("*.faiss")
    length = file.stat().st_size
    file.write_bytes(file.read_bytes()[:size])
    assert indexed_rows(opened()) == 600
    assert file.stat().st_size == length


def test_an_index_with_other_settings_is_rebuilt(opened: Opener) -> None:
    store = opened(m=8)
    contents = filled(store, 600)
    store.close()
    other = opened(method="flat")
    assert recall(other, contents) == 1.0
    other.close()
    assert indexed_rows(opened(m=24)) == 600


def test_a_missing_index_is_built_when_the_store_is_opened(opened: Opener, directory: Path) -> None:
    store = opened()
    filled(store, 600)
    store.close()
    for file in directory.glob("*.faiss"):
        file.unlink()
    assert indexed_rows(opened()) == 600


def test_another_handle_loads_the_saved_index(opened: Opener) -> None:
    reader, writer = opened(), opened()
    contents = filled(writer, 1500)
    assert indexed_rows(reader) == 0
    assert recall(reader, contents) >= 0.98
    assert indexed_rows(reader) == 1500


def test_rows_that_the_index_lacks_tie_by_their_ids_too(opened: Opener) -> None:
    store = opened(method="flat", index_rows=1)
    filled(store, 600)
    row = unit_rows(1, 32, seed=7)
    names = ["d", "b", "e", "a", "c"]  # later rows have lower ids
    store.add_documents(make_documents(names), np.repeat(row, len(names), axis=0))
    assert indexed_rows(store) < 605
    assert [result.document.id for result in store.search(row[0], 2)] == ["a", "b"]


WRITER = """
import sys
from ragkit.store.options import FaissOptions
from ragkit.store.backends.faiss import FaissStore
from ragkit.testing.store_factory import unit_rows
from ragkit.testing.store_under_test import make_documents
store = FaissStore(FaissOptions(sys.argv[1], method="flat", index_rows=1))
while True:
    n = store.count()
    store.add_documents(make_documents(f"{m:06}" for m in range(n, n + 1200)), unit_rows(1200, 32, seed=n))
    print(n, flush=True)
"""


def test_a_process_killed_while_writing_the_index_leaves_no_damage_and_no_files(
    opened: Opener, directory: Path
) -> None:
    chance = random.Random(5)
    for _ in range(6):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(directory)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            result = int(writer.stdout.readline())
            time.sleep(chance.uniform(0, 0.1))
            writer.kill()
        (directory / "vectors-0.part").touch()  # the state after a kill at this moment
        store = opened(method="flat", index_rows=1)
        rows = store.count()
        assert rows >= result + 1200
        assert rows % 1200 == 0
        assert rows - indexed_rows(store) in {0, 1200}  # the last rows may be on disk without their index
        query = unit_rows(1200, 32, seed=rows - 1200)[700]
        assert store.search(query, 1)[0].document.id == f"{rows - 500:06}"
        store.delete(["never there"])  # the first write deletes old files
        store.close()
        assert list(directory.glob("*.part")) == []


def test_the_directory_contains_only_index_vectors_and_database(opened: Opener, directory: Path) -> None:
    store = opened()
    filled(store, 1200)
    store.delete([f"{n:05}" for n in range(600)])
    store.close()
    assert sorted({path.suffix for path in directory.iterdir()}) == [".f32", ".faiss", ".sqlite"]
    assert len(list(directory.iterdir())) == 3


def test_searches_continue_while_the_index_grows(opened: Opener) -> None:
    store = opened()
    contents = filled(store, 600)
    stop, failures = threading.Event(), []

    def search() -> None:
        while not stop.is_set():
            for name in ("00000", "00299", "00599"):
                if store.search(contents[name][1], 1)[0].document.id != name:
                    failures.append(name)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for n in range(4):
        fill_store(store, make_documents(f"{n}-{m}" for m in range(1100)), clustered(1100, seed=20 + n))
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert indexed_rows(store) == 5000


def test_many_equal_rows_are_ordered_by_id(opened: Opener) -> None:
    store = opened(method="flat", exact_share=0)
    rows = np.repeat(sample_vectors()[:2], 400, axis=0)
    contents = fill_store(store, make_documents(f"{n * 37 % 800:03}" for n in range(800)), rows)
    assert indexed_rows(store) == 800
    for top_k in (1, 30, 500):
        check_search(store, contents, sample_vectors()[0], top_k)


def test_an_index_that_returns_too_few_rows_is_not_used(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    contents = filled(store, 600)
    monkeypatch.setattr(FaissIndex, "search", lambda *_: (np.array([3]), np.array([0.5], np.float32)))
    check_search(store, contents, clustered(1, seed=3)[0], 10)


def test_in_a_read_only_directory_only_the_index_file_is_missing(opened: Opener, directory: Path) -> None:
    store = opened()
    filled(store, 600)
    scanner = store._scanner
    assert isinstance(scanner, FaissScanner)
    assert scanner._faiss_index is not None
    assert scanner._faiss_index.save(directory / "nowhere" / "x.faiss", b"0" * 16) is False


def test_options_that_contradict_the_directory_are_rejected(opened: Opener) -> None:
    filled(opened(), 3)
    with pytest.raises(DimensionMismatch, match="the store has 32, got 3"):
        opened(dimension=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "ivf"}, r"method must be 'flat', 'hnsw' or 'ivfpq' \(got 'ivf'\)"),
        ({"exact_share": 1.5}, r"exact_share must be between 0 and 1 \(got 1.5\)"),
        ({"m": 1}, r"m must be >= 2 \(got 1\)"),
        ({"nprobe": 0}, r"nprobe must be >= 1 \(got 0\)"),
        ({"code_bytes": 0}, r"code_bytes must be >= 1 \(got 0\)"),
    ],
)
def test_options_out_of_range_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        FaissOptions("", **options)  # type: ignore[arg-type]


def test_code_bytes_that_do_not_divide_the_dimension_are_rejected(opened: Opener) -> None:
    store = opened(method="ivfpq", code_bytes=5)
    with pytest.raises(InvalidOption, match=r"code_bytes must be a divisor of the dimension 32 \(got 5\)"):
        filled(store, 10_000)
