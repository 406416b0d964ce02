"""A damaged external store is not searched, and is refilled without embedding."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ragkit import KnowledgeBase
from ragkit.embed.base import Rows
from ragkit.embed.hashing import HashingEmbedder
from ragkit.errors import StoreError
from ragkit.index.store_checksums import read_store_checksums, store_checksum_path
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document, Hit, SearchResult
from ragkit.store import STORES
from ragkit.store.backends.faiss import FaissStore
from ragkit.store.base import Store
from ragkit.store.file_digests import list_files
from tests import reads

TEXTS = {f"file{n}.txt": f"Door {n} is opened with the key on hook {n * 7}.\n" for n in range(20)}


@pytest.fixture(params=["chroma", "lancedb", "faiss"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> KnowledgeBase:
    """An indexed knowledge base with an external store; chroma and lancedb can lose data in a power failure."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, text in TEXTS.items():
        (docs / name).write_text(text)
    pipeline = Pipeline.from_yaml(f"embed: {{name: hashing, dimension: 64}}\nstore: {{name: {request.param}}}\n")
    kb = KnowledgeBase.open(tmp_path / "kb", pipeline)
    kb.index(docs)
    return kb


def store_of(kb: KnowledgeBase) -> Path:
    return kb.path / f"store-{kb.pipeline.store.name}"


def hits(kb: KnowledgeBase) -> list[tuple[str, str]]:
    def key(hit: Hit) -> tuple[str, str]:
        return hit.chunk.id, f"{hit.score:.5f}"

    return [key(hit) for hit in kb.search("which hook has the key of door 13", 20, mode="dense")]


def lose_unsynced_data(folder: Path) -> None:
    """Simulate a power failure of a library that never syncs: the files exist and are empty."""
    for path in list_files(folder):
        path.write_bytes(b"")


def flip_a_bit(folder: Path) -> None:
    path = max(list_files(folder), key=lambda path: path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.rotating
@pytest.mark.parametrize("damage", [lose_unsynced_data, flip_a_bit, shutil.rmtree])
def test_a_damaged_store_is_reported_bypassed_and_refilled_without_embedding(
    kb: KnowledgeBase, damage: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = hits(kb)
    assert len(before) == 20
    kb.close()
    damage(store_of(kb))
    assert hits(kb) == before  # from the catalog
    assert reads.freshness(kb).outdated_store == kb.pipeline.store.name
    [problem] = kb.verify().problems
    assert problem.part == "store"

    def embed_texts(self: HashingEmbedder, texts: list[str]) -> None:
        raise AssertionError("a text was embedded")

    with monkeypatch.context() as patched:
        patched.setattr(HashingEmbedder, "embed_texts", embed_texts)
        report = kb.index(tmp_path / "docs")
        assert report.embedded == 0
        assert kb.verify().problems == ()
    assert reads.freshness(kb).outdated_store == ""
    assert hits(kb) == before


def test_a_store_without_checksums_is_compared_and_kept_if_complete(kb: KnowledgeBase, tmp_path: Path) -> None:
    kb.close()
    store_checksum_path(store_of(kb)).unlink()
    inodes = {path: path.stat().st_ino for path in list_files(store_of(kb)) if path.suffix in {".lance", ".f32"}}
    assert [problem.message for problem in kb.verify().problems] == ["has no checksums: a run was interrupted"]
    kb.index(tmp_path / "docs")
    assert kb.verify().problems == ()
    assert {path: path.stat().st_ino for path in inodes if path.exists()} == inodes


@pytest.mark.rotating
@pytest.mark.parametrize("error", [StoreError("damaged"), KeyError("vector"), AssertionError()])
def test_a_store_without_checksums_that_cannot_be_read_is_filled_again(
    kb: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    before = hits(kb)
    kb.close()
    store_checksum_path(store_of(kb)).unlink()

    def scan(self: Store) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(STORES.find(kb.pipeline.store.name), "scan", scan)
        assert kb.index(tmp_path / "docs").embedded == 0
    assert kb.verify().problems == ()
    assert hits(kb) == before


@pytest.mark.rotating
@pytest.mark.parametrize("name", ["chroma", "duckdb", "faiss", "lancedb", "milvus", "qdrant"])
def test_what_an_interrupted_deletion_left_of_a_store_is_deleted(name: str, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "file").write_text("Door 13 is opened with the key on hook 91.\n")
    pipeline = Pipeline.from_yaml(f"embed: {{name: hashing, dimension: 64}}\nstore: {{name: {name}}}\n")
    kb = KnowledgeBase.open(tmp_path / "kb", pipeline)
    kb.index(docs)
    (docs / "file").unlink()
    kb.index(docs)  # nothing is recorded any more
    kb.close()
    store_checksum_path(store_of(kb)).unlink()
    for path in list_files(store_of(kb))[1:]:
        path.unlink()
    (docs / "file").write_text("Door 13 is locked.\n")
    kb.index(docs)
    assert kb.verify().problems == ()
    assert [hit.chunk.text for hit in kb.search("door", 20, mode="dense")] == ["Door 13 is locked."]
    kb.close()


def test_the_store_of_another_catalog_is_rejected(kb: KnowledgeBase, tmp_path: Path) -> None:
    before = hits(kb)
    other = KnowledgeBase.open(tmp_path / "other", kb.pipeline)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "note.txt").write_text("Door 13 has no key at all.\n")
    other.index(tmp_path / "more")
    for knowledge_base in (kb, other):
        knowledge_base.close()
    assert read_store_checksums(store_of(other)) is not None
    if store_of(kb).is_dir():
        shutil.rmtree(store_of(kb))
    shutil.copytree(store_of(other), store_of(kb))
    shutil.copy(store_checksum_path(store_of(other)), store_checksum_path(store_of(kb)))
    assert hits(kb) == before
    [problem] = kb.verify().problems
    assert problem.message == "has checksums of another generation or knowledge base"


def test_a_run_with_nothing_to_do_does_not_open_the_store(
    kb: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragkit.index.external_store import ExternalStore

    def store(self: ExternalStore) -> None:
        raise AssertionError("the store was opened")

    monkeypatch.setattr(ExternalStore, "store", property(store))
    assert kb.index(tmp_path / "docs").files["unchanged"] == 20


class Killed(BaseException):
    """Stops the writer."""


@pytest.mark.parametrize("place", ["", ", path: {elsewhere}"], ids=["in the knowledge base", "elsewhere"])
def test_a_search_during_a_sync_returns_complete_results(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer starts after the version check and before the search, and has only cleared the store by then."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, text in TEXTS.items():
        (docs / name).write_text(text)
    store = f"store: {{name: faiss{place.format(elsewhere=tmp_path / 'elsewhere')}}}\n"
    pipeline = Pipeline.from_yaml(f"embed: {{name: hashing, dimension: 64}}\n{store}")
    monkeypatch.setattr("ragkit.index.catalog.schema.BUSY_TIMEOUT_S", 0.5)  # the reader keeps the log open
    writer = KnowledgeBase.open(tmp_path / "kb", pipeline)
    writer.index(docs)
    reader = KnowledgeBase.open(tmp_path / "kb", pipeline)
    before = hits(reader)
    assert len(before) == 20
    search, result_counts = FaissStore.search, list[int]()

    def stop_writer(self: FaissStore, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        raise Killed

    def search_during_sync(self: FaissStore, *arguments: object) -> list[SearchResult]:
        for name, text in TEXTS.items():
            (docs / name).write_text(text.replace("Door", "Gate"))
        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(FaissStore, "add_documents", stop_writer)
            writer.index(docs)
        results = search(self, *arguments)  # type: ignore[arg-type]
        result_counts.append(len(results))
        return results

    with monkeypatch.context() as patched:
        patched.setattr(FaissStore, "search", search_during_sync)
        assert hits(reader) == before
    assert result_counts == [0]
    assert len(hits(reader)) == 20
    assert all("Gate" in hit.chunk.text for hit in reader.search("gate", 20, mode="dense"))
