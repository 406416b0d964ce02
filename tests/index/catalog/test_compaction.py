"""Unused vectors are kept for a while, and removed when there are too many."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragkit.errors import KnowledgeBaseDamaged, StoreError
from ragkit.index.catalog import compaction, schema
from ragkit.index.catalog.compaction import compact_vectors
from ragkit.index.catalog.write_session import WriteSession
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.store.native.vector_file import VectorFile
from tests import reads

MIN_UNUSED = 20
FILES = 5
PLAIN = Pipeline.from_yaml("embed: {name: hashing}\n")


@pytest.fixture(autouse=True)
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "MIN_UNUSED_VECTORS", MIN_UNUSED)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    edit(folder, 0)
    return folder


def edit(folder: Path, edition: int) -> None:
    """Rewrite all files, one chunk each."""
    for n in range(FILES):
        (folder / f"{n}.txt").write_text(f"File {n} speaks of subject{n} in edition{edition}.")


def index_folder(path: Path, docs: Path) -> KnowledgeBase:
    kb = KnowledgeBase.open(path, PLAIN)
    kb.index(docs)
    return kb


def vector_files(kb: Path) -> dict[str, int]:
    """Rows of each vector file, by name."""
    return {path.name: (path.stat().st_size - 64) // (4 * 256) for path in kb.glob("vectors-*.f32")}


def open_vector_files(kb: Path) -> set[str]:
    """Vector files that this process has open; deleted ones end with ' (deleted)'."""
    targets = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            targets.add(str(link.readlink()))
    return {name.rpartition("/")[2] for name in targets if name.startswith(f"{kb}/vectors-")}


def search(kb: KnowledgeBase, question: str) -> list[tuple[str, str]]:
    return [(Path(hit.chunk.source).name, hit.chunk.text) for hit in kb.search(question, top_k=FILES)]


def test_repeated_changes_of_a_folder_do_not_fill_the_disk(tmp_path: Path, docs: Path) -> None:
    kb = index_folder(tmp_path / "kb", docs)
    max_rows = 0
    for edition in range(1, 12):
        edit(docs, edition)
        assert kb.index(docs).embedded == FILES, "an unchanged text was embedded again"
        [rows] = vector_files(tmp_path / "kb").values()
        max_rows = max(max_rows, rows)
    assert MIN_UNUSED <= max_rows <= MIN_UNUSED + 2 * FILES
    assert kb.verify().is_sound
    fresh = index_folder(tmp_path / "fresh", docs)
    assert [chunk.id for chunk in reads.chunks(kb)] == [chunk.id for chunk in reads.chunks(fresh)]
    for n in range(FILES):
        assert search(kb, f"subject{n}") == search(fresh, f"subject{n}")


def test_vectors_of_replaced_texts_are_reused_for_restored_texts(tmp_path: Path, docs: Path) -> None:
    kb = index_folder(tmp_path / "kb", docs)
    edit(docs, 1)
    kb.index(docs)
    edit(docs, 0)
    report = kb.index(docs)
    assert (report.files["updated"], report.embedded) == (FILES, 0)
    assert vector_files(tmp_path / "kb") == {"vectors-1.f32": 2 * FILES}


def test_removing_sources_compacts_their_vectors_too(tmp_path: Path, docs: Path) -> None:
    for n in range(FILES, MIN_UNUSED + FILES):
        (docs / f"{n}.txt").write_text(f"Another file, of subject{n}.")
    kb = index_folder(tmp_path / "kb", docs)
    assert kb.remove(*(docs / f"{n}.txt" for n in range(FILES, MIN_UNUSED + FILES))) == MIN_UNUSED
    assert vector_files(tmp_path / "kb") == {"vectors-2.f32": FILES}
    assert kb.verify().is_sound
    assert search(kb, "subject3")[0][0] == "3.txt"


def test_an_external_store_returns_the_same_results_after_compaction(tmp_path: Path, docs: Path) -> None:
    faiss = Pipeline.from_yaml("embed: {name: hashing}\nstore: {name: faiss}\n")
    with KnowledgeBase.open(tmp_path / "kb", faiss) as kb:
        kb.index(docs)
        change_until_compacted(kb, docs)
        assert kb.verify().is_sound
        for n in range(FILES):
            assert search(kb, f"subject{n}")[0] == (f"{n}.txt", f"File {n} speaks of subject{n} in edition4.")
        assert reads.freshness(kb).outdated_store == "", "the store is of another generation"


def change_until_compacted(kb: KnowledgeBase, docs: Path) -> None:
    before = set(vector_files(kb.path))
    for edition in range(1, 10):
        edit(docs, edition)
        kb.index(docs)
        if set(vector_files(kb.path)) != before:
            return
    raise AssertionError("the vector file was not compacted")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed under /proc on Linux only")
def test_an_open_reader_closes_the_old_vector_file(tmp_path: Path, docs: Path) -> None:
    index_folder(tmp_path / "kb", docs).close()
    with KnowledgeBase.open(tmp_path / "kb") as reader:
        assert "edition0" in search(reader, "subject2")[0][1]
        change_until_compacted(KnowledgeBase.open(tmp_path / "kb"), docs)
        assert "edition4" in search(reader, "subject2")[0][1]
        assert open_vector_files(tmp_path / "kb") == {"vectors-2.f32"}


@pytest.fixture
def raced_kb(tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A knowledge base whose vector file is replaced just before the first reader opens it."""
    index_folder(tmp_path / "kb", docs).close()
    # here the reader waits for the writer, which waits for the reader until this timeout
    monkeypatch.setattr(schema, "BUSY_TIMEOUT_S", 0.1)
    open_file, first_call = VectorFile.open, iter([True])

    def open_late(path: Path, **options: Any) -> VectorFile:
        if next(first_call, False):
            change_until_compacted(KnowledgeBase.open(tmp_path / "kb"), docs)
        return open_file(path, **options)

    monkeypatch.setattr(VectorFile, "open", open_late)
    return tmp_path / "kb"


def test_a_reader_opens_the_new_file_if_its_vector_file_was_just_replaced(raced_kb: Path) -> None:
    with KnowledgeBase.open(raced_kb) as reader:
        assert "edition4" in search(reader, "subject2")[0][1]


def test_a_file_replaced_during_verification_is_not_a_problem(raced_kb: Path) -> None:
    with KnowledgeBase.open(raced_kb) as kb:
        assert kb.verify().problems == ()


def test_a_missing_vector_file_is_reported(tmp_path: Path, docs: Path) -> None:
    index_folder(tmp_path / "kb", docs).close()
    (tmp_path / "kb" / "vectors-1.f32").unlink()
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        with pytest.raises(KnowledgeBaseDamaged, match="is missing"):
            kb.search("subject2")
        assert any("is missing" in problem.message for problem in kb.verify().problems)


@pytest.mark.parametrize("moment", ["before the change", "after the change"])
def test_a_crash_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    kb, image, move = index_folder(tmp_path / "kb", docs), tmp_path / "image", compaction._renumber_rows

    def copy_image(*arguments: Any) -> None:
        if moment == "after the change":
            move(*arguments)
        shutil.copytree(tmp_path / "kb", image)  # the state after a kill at this point
        if moment == "before the change":
            move(*arguments)

    monkeypatch.setattr(compaction, "_renumber_rows", copy_image)
    change_until_compacted(kb, docs)
    monkeypatch.setattr(compaction, "_renumber_rows", move)
    assert len(vector_files(image)) == 2, "both files must exist at this moment"
    with KnowledgeBase.open(image, PLAIN) as copy:
        assert "edition4" in search(copy, "subject2")[0][1]
        assert copy.verify().is_sound
        edit(docs, 5)
        assert copy.index(docs).embedded == FILES
        assert len(vector_files(image)) == 1, "the unreferenced file must be deleted"
        assert "edition5" in search(copy, "subject2")[0][1]
        assert copy.verify().is_sound


def open_write_session(tmp_path: Path, docs: Path) -> WriteSession:
    """A write session on a knowledge base with almost too many unused vectors."""
    with index_folder(tmp_path / "kb", docs) as kb:
        for edition in range(1, MIN_UNUSED // FILES):
            edit(docs, edition)
            kb.index(docs)
    return WriteSession(tmp_path / "kb")


def test_a_full_disk_postpones_compaction(tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: VectorFile) -> None:
        raise StoreError("no room")

    with open_write_session(tmp_path, docs) as session:
        row, vectors = session.open_vectors(session.catalog.get_meta("embedder") or "", 256)
        vectors.append(vectors.matrix()[:FILES].copy())
        monkeypatch.setattr(VectorFile, "sync", fail)
        assert compact_vectors(session, row, vectors) is vectors
        assert set(vector_files(session.directory)) == {"vectors-1.f32"}
        monkeypatch.undo()
        monkeypatch.setattr(compaction, "MIN_UNUSED_VECTORS", MIN_UNUSED)
        assert compact_vectors(session, row, vectors).path.name == "vectors-3.f32", "compaction was not due"


def test_vectors_of_an_unused_embedder_are_kept(tmp_path: Path, docs: Path) -> None:
    with open_write_session(tmp_path, docs) as session:
        row, vectors = session.open_vectors("another", 2)
        vectors.append(np.ones((3 * MIN_UNUSED, 2), np.float32))
        assert compact_vectors(session, row, vectors) is vectors
