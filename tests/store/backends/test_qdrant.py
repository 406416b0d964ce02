"""The Qdrant store beyond the conformance suite, embedded and through the client."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragkit.errors import DimensionMismatch, InvalidOption, KnowledgeBaseLocked, StoreError
from ragkit.records import Document
from ragkit.store.backends.qdrant import QdrantStore
from ragkit.store.options import QdrantOptions
from ragkit.testing.store_factory import unit_rows
from ragkit.testing.store_under_test import (
    DIMENSION,
    StoreUnderTest,
    check_contents,
    check_search,
    fill_store,
    make_documents,
    sample_vectors,
)
from ragkit.testing.stores import CHECKS, StoreCheck
from tests.servers.base import free_port


@pytest.fixture
def store(tmp_path: Path) -> Iterator[QdrantStore]:
    store = QdrantStore(QdrantOptions(path=tmp_path / "q"))
    yield store
    store.close()


def through_the_client() -> QdrantStore:
    """A real server if QDRANT_URL is set, else the local mode of the client."""
    url = os.environ.get("QDRANT_URL", ":memory:")
    store = QdrantStore(QdrantOptions(url=url, api_key=os.environ.get("QDRANT_API_KEY", ""), collection="ragkit_test"))
    store.clear()
    return store


@pytest.mark.rotating
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_store_on_a_server_passes_the_conformance_suite(check: StoreCheck) -> None:
    check(StoreUnderTest(open=through_the_client, examples=30))


def test_a_directory_is_held_by_one_store_at_a_time(store: QdrantStore, tmp_path: Path) -> None:
    store.add_documents(make_documents("a"), sample_vectors()[:1])
    with pytest.raises(KnowledgeBaseLocked, match="is locked by another process"):
        QdrantStore(QdrantOptions(path=tmp_path / "q"))
    store.close()
    again = QdrantStore(QdrantOptions(path=tmp_path / "q"))
    assert again.count() == 1
    again.close()


def test_a_directory_with_other_files_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text("{}")
    with pytest.raises(StoreError, match="is not a directory of the store 'qdrant': choose another `path`"):
        QdrantStore(QdrantOptions(path=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["meta.json"]


def test_a_directory_with_another_dimension_than_the_options_is_rejected(store: QdrantStore, tmp_path: Path) -> None:
    store.add_documents(make_documents("a"), sample_vectors()[:1])
    store.close()
    with pytest.raises(DimensionMismatch, match=f"the store has {DIMENSION}, got 3"):
        QdrantStore(QdrantOptions(path=tmp_path / "q", dimension=3))


def test_a_store_without_documents_makes_no_directory(store: QdrantStore, tmp_path: Path) -> None:
    assert store.count() == 0
    assert list(tmp_path.iterdir()) == []


def test_the_embedded_engine_needs_no_client() -> None:
    code = (
        "import sys, ragkit.store.backends.qdrant; "
        "sys.exit('qdrant_client' in sys.modules or 'qdrant_edge' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_fields_without_an_index_can_be_filtered(store: QdrantStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragkit.store.backends.qdrant.MAX_INDEXED_FIELDS", 4)
    metadata = {f"field {n}": n for n in range(8)}
    contents = fill_store(store, [Document("a", metadata, id="a"), Document("b", id="b")], sample_vectors()[:2])
    for n in (0, 4, 7):
        check_search(store, contents, sample_vectors()[0], 2, {f"field {n}": n})
        check_search(store, contents, sample_vectors()[0], 2, {f"field {n}": {"$ne": n}})


def test_ids_that_the_engine_rejects_are_restored(store: QdrantStore) -> None:
    names = ["", "x" * 5000, "\0", "\udc80", "a/b?c#d", "日本"]
    documents = [Document(f"text {n}", id=name or "-") for n, name in enumerate(names)]
    contents = fill_store(store, documents, sample_vectors()[: len(names)])
    check_contents(store, contents)
    assert store.delete(["\udc80", "\0", "x" * 5000, "\ud83d"]) == 3


def test_string_comparisons_are_evaluated_outside_the_engine(store: QdrantStore) -> None:
    rows = unit_rows(300, DIMENSION, seed=5)
    documents = [Document("t", {"name": f"{n:03}"}, id=f"{n:03}") for n in range(300)]
    contents = fill_store(store, documents, rows)
    check_search(store, contents, sample_vectors()[0], 3, {"name": {"$gte": "298"}})
    check_search(store, contents, sample_vectors()[0], 3, {"name": {"$not": {"$lt": "298"}}})


def test_an_unreachable_server_is_named() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(StoreError, match=rf"the Qdrant server at {url} cannot be reached .*: start it, or correct the"):
        QdrantStore(QdrantOptions(url=url))


def overwritten(place: Path, name: str, content: bytes) -> None:
    """Overwrite every file with this name in the store."""
    files = [path for path in place.rglob(name) if path.is_file()]
    assert files
    for path in files:
        path.write_bytes(content * (path.stat().st_size // len(content)) if content else b"")


@pytest.mark.parametrize(
    ("name", "content"), [("status.dat", b""), ("*-numeric/page_0.dat", b"\xff"), ("*-numeric/tracker.dat", b"\xff")]
)
def test_files_that_crash_the_engine_are_an_error_that_names_the_repair(
    store: QdrantStore, tmp_path: Path, name: str, content: bytes
) -> None:
    names = [f"{n}" for n in range(50)]
    store.add_documents(
        [Document("t", {"n": n % 7}, id=name) for n, name in enumerate(names)], unit_rows(50, DIMENSION, seed=5)
    )
    store.close()
    overwritten(tmp_path / "q", name, content)
    with pytest.raises(
        StoreError, match=r"q is damaged \(.*\): run `ragkit verify --repair`, or rebuild the store"
    ) as caught:
        use(tmp_path / "q")
    assert "\n" not in str(caught.value)
    assert type(caught.value.__cause__).__name__ == "PanicException"


def test_files_that_the_engine_rejects_are_an_error_that_names_the_repair(store: QdrantStore, tmp_path: Path) -> None:
    store.add_documents(make_documents("a"), sample_vectors()[:1])
    store.close()
    overwritten(tmp_path / "q", "mutable_id_tracker.mappings", b"\xff")
    with pytest.raises(
        StoreError, match=r"Qdrant error in .*q: .*: run `ragkit verify --repair`, or rebuild the store"
    ):
        use(tmp_path / "q")


def use(place: Path) -> None:
    """Open, search and close the store."""
    store = QdrantStore(QdrantOptions(path=place))
    try:
        store.search(sample_vectors()[0], 3, {"n": 3})
        list(store.scan())
        store.delete(["3"])
    finally:
        store.close()


def test_an_interrupt_in_the_engine_stays_an_interrupt(store: QdrantStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add_documents(make_documents("a"), sample_vectors()[:1])

    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store._engine, "_require_shard", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.count()
    assert store.count() == 1


def test_a_closed_store_raises_an_error(store: QdrantStore) -> None:
    store.add_documents(make_documents("a"), sample_vectors()[:1])
    store.close()
    with pytest.raises(StoreError, match=r"the store at .* is closed: open it again"):
        store.count()
    imitation = QdrantStore(QdrantOptions(url=":memory:"))
    imitation.close()
    with pytest.raises(StoreError, match="the store in the Qdrant server at :memory: is closed: open it again"):
        imitation.count()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "q", "collection": "a/b"}, r"collection must be a name without slashes \(got 'a/b'\)"),
        ({"path": "q", "method": "flat"}, r"method must be 'exact' or 'hnsw' \(got 'flat'\)"),
        ({"path": "q", "ef": 0}, r"ef must be >= 1 \(got 0\)"),
        ({"path": "q", "timeout_seconds": 0}, r"timeout_seconds must be >= 1 \(got 0\)"),
    ],
)
def test_inconsistent_options_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        QdrantOptions(**options)  # type: ignore[arg-type]  # wrong on purpose


def test_a_store_without_a_path_or_url_is_rejected() -> None:
    with pytest.raises(InvalidOption, match=r"path must be set, or the option `url` \(got ''\)"):
        QdrantStore(QdrantOptions())


def test_a_key_is_never_shown() -> None:
    assert "secret" not in repr(QdrantOptions(url="http://x", api_key="secret"))
