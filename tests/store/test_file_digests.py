"""Digests of the files of an embedded store: opening it does not change them, corruption does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from ragkit.records import Document
from ragkit.store import STORES, file_digests
from ragkit.store.base import Store
from ragkit.store.file_digests import compute_digests, list_files, remove_files, sync_files

EMBEDDED = ("chroma", "duckdb", "faiss", "lancedb", "milvus", "qdrant")
ROWS = np.eye(12, dtype=np.float32)


def opened(name: str, place: Path) -> Store:
    options = STORES.options_class(name)
    assert options is not None
    make = cast("Callable[[object], Store]", STORES.find(name))
    return make(options(path=place))


def fill(name: str, place: Path) -> None:
    store = opened(name, place)
    documents = [Document(f"text {n} " * 20, {"n": n}, source="s", title="t", id=f"d{n}") for n in range(12)]
    store.add_documents(documents, ROWS)
    store.close()
    # some merge their journals at the next open
    again = opened(name, place)
    assert again.count() == 12
    again.close()


@pytest.fixture(params=EMBEDDED)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_opening_searching_and_closing_a_store_does_not_change_the_digest(name: str, tmp_path: Path) -> None:
    place = tmp_path / "store"
    fill(name, place)
    before = compute_digests(place)
    assert before
    store = opened(name, place)
    assert [result.document.id for result in store.search(ROWS[3], 1)] == ["d3"]
    assert len(list(store.scan())) == 12
    store.close()
    assert compute_digests(place) == before


def test_one_flipped_bit_in_any_included_file_changes_the_digest(name: str, tmp_path: Path) -> None:
    place = tmp_path / "store"
    fill(name, place)
    before = compute_digests(place)
    for relative, (size, _) in before.items():
        path = tmp_path / relative
        data = path.read_bytes()
        # the digest excludes the counters on the first page of Chroma's database, not the middle
        at = (size or len(data)) // 2
        if not data:
            continue
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        assert compute_digests(place) != before, relative
        path.write_bytes(data)
    assert compute_digests(place) == before


def test_a_copy_with_filled_holes_has_the_same_digest(tmp_path: Path) -> None:
    sparse, dense = tmp_path / "a" / "store", tmp_path / "b" / "store"
    for place in (sparse, dense):
        place.mkdir(parents=True)
    with (sparse / "file").open("wb") as stream:
        stream.truncate(5 << 20)
        stream.seek(3 << 20)
        stream.write(b"something")
    (dense / "file").write_bytes((sparse / "file").read_bytes())
    assert compute_digests(sparse) == compute_digests(dense)


def test_a_single_file_store_is_digested_flushed_and_deleted_with_its_side_files(tmp_path: Path) -> None:
    for file in ("store-duckdb", "store-duckdb.wal", "other"):
        (tmp_path / file).write_text(file)
    place = tmp_path / "store-duckdb"
    sync_files(place)
    assert sorted(compute_digests(place)) == ["store-duckdb", "store-duckdb.wal"]
    remove_files(place)
    assert list_files(place) == []
    assert (tmp_path / "other").exists()


@pytest.mark.parametrize("suffix", ["-wal", "-shm", ".txt"])
def test_only_a_log_of_sqlite_may_be_deleted_meanwhile(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "store.sqlite").write_text("x")
    gone = tmp_path / f"store.sqlite{suffix}"
    monkeypatch.setattr(file_digests, "list_files", lambda location: [gone, location])
    for work in (sync_files, compute_digests):
        with nullcontext() if suffix != ".txt" else pytest.raises(FileNotFoundError, match=r"sqlite\.txt"):
            work(tmp_path / "store.sqlite")


def test_flush_syncs_every_file_and_directory(tmp_path: Path) -> None:
    place = tmp_path / "store"
    (place / "deep").mkdir(parents=True)
    (place / "deep" / "file").write_text("x")
    code = (
        f"from pathlib import Path; from ragkit.store.file_digests import sync_files; sync_files(Path({str(place)!r}))"
    )
    log = tmp_path / "log"
    subprocess.run(["strace", "-f", "-y", "-e", "trace=fsync", "-o", log, sys.executable, "-c", code], check=True)
    synced = {line.partition("<")[2].partition(">")[0] for line in log.read_text().splitlines() if "fsync(" in line}
    assert synced == {str(path) for path in (tmp_path, place, place / "deep", place / "deep" / "file")}
