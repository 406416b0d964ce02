"""Vectors that no chunk has: kept for a while, and left behind before they are too many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ragkit.errors import Damaged, StoreError
from ragkit.index import compact
from ragkit.index.compact import compacted
from ragkit.index.session import WriteSession
from ragkit.pipeline.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.store.vectorfile import VectorFile

LEAST = 20
FILES = 5
PLAIN = Pipeline.from_yaml("embed: {name: hashing}\n")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compact, "LEAST_UNUSED", LEAST)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    edit(folder, 0)
    return folder


def edit(folder: Path, edition: int) -> None:
    """All files anew, a chunk each."""
    for n in range(FILES):
        (folder / f"{n}.txt").write_text(f"File {n} speaks of subject{n} in edition{edition}.")


def indexed(path: Path, docs: Path) -> KnowledgeBase:
    kb = KnowledgeBase.open(path, PLAIN)
    kb.index(docs)
    return kb


def vector_files(kb: Path) -> dict[str, int]:
    """Rows of each vector file, by name."""
    return {path.name: (path.stat().st_size - 64) // (4 * 256) for path in kb.glob("vectors-*.f32")}


def open_vector_files(kb: Path) -> set[str]:
    """Those of this process; one that was removed has a name that says so."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(str(link.readlink()))
    return {name.rpartition("/")[2] for name in found if name.startswith(f"{kb}/vectors-")}


def found_in(kb: KnowledgeBase, question: str) -> list[tuple[str, str]]:
    return [(Path(hit.chunk.source).name, hit.chunk.text) for hit in kb.search(question, top_k=FILES)]


def test_a_folder_that_changes_again_and_again_does_not_fill_the_disk(tmp_path: Path, docs: Path) -> None:
    kb = indexed(tmp_path / "kb", docs)
    most = 0
    for edition in range(1, 12):
        edit(docs, edition)
        assert kb.index(docs).embedded == FILES, "a text that stays was embedded again"
        [rows] = vector_files(tmp_path / "kb").values()
        most = max(most, rows)
    assert LEAST <= most <= LEAST + 2 * FILES
    assert kb.verify().sound
    fresh = indexed(tmp_path / "fresh", docs)
    assert [chunk.id for chunk in kb.chunks()] == [chunk.id for chunk in fresh.chunks()]
    for n in range(FILES):
        assert found_in(kb, f"subject{n}") == found_in(fresh, f"subject{n}")


def test_as_many_vectors_as_chunks_have_are_kept_for_texts_that_come_back(tmp_path: Path, docs: Path) -> None:
    kb = indexed(tmp_path / "kb", docs)
    edit(docs, 1)
    kb.index(docs)
    edit(docs, 0)
    report = kb.index(docs)
    assert (report.files["updated"], report.embedded) == (FILES, 0)
    assert vector_files(tmp_path / "kb") == {"vectors-1.f32": 2 * FILES}


def test_taking_sources_out_leaves_their_vectors_behind_too(tmp_path: Path, docs: Path) -> None:
    for n in range(FILES, LEAST + FILES):
        (docs / f"{n}.txt").write_text(f"Another file, of subject{n}.")
    kb = indexed(tmp_path / "kb", docs)
    assert kb.remove(*(docs / f"{n}.txt" for n in range(FILES, LEAST + FILES))) == LEAST
    assert vector_files(tmp_path / "kb") == {"vectors-2.f32": FILES}
    assert kb.verify().sound
    assert found_in(kb, "subject3")[0][0] == "3.txt"


def until_compacted(kb: KnowledgeBase, docs: Path) -> None:
    before = set(vector_files(kb.path))
    for edition in range(1, 10):
        edit(docs, edition)
        kb.index(docs)
        if set(vector_files(kb.path)) != before:
            return
    raise AssertionError("the vector file was not made anew")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed under /proc on Linux only")
def test_a_reader_that_stays_open_lets_go_of_the_old_file(tmp_path: Path, docs: Path) -> None:
    indexed(tmp_path / "kb", docs).close()
    with KnowledgeBase.open(tmp_path / "kb") as reader:
        assert "edition0" in found_in(reader, "subject2")[0][1]
        until_compacted(KnowledgeBase.open(tmp_path / "kb"), docs)
        assert "edition4" in found_in(reader, "subject2")[0][1]
        assert open_vector_files(tmp_path / "kb") == {"vectors-2.f32"}


def test_a_reader_whose_file_goes_as_it_begins_takes_the_new_one(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed(tmp_path / "kb", docs).close()
    opened, writing = VectorFile.open, iter([True])

    def open_late(path: Path, **options: Any) -> VectorFile:
        if next(writing, False):  # the reader has seen the old name, and the writer takes it away
            until_compacted(KnowledgeBase.open(tmp_path / "kb"), docs)
        return opened(path, **options)

    monkeypatch.setattr(VectorFile, "open", open_late)
    with KnowledgeBase.open(tmp_path / "kb") as reader:
        assert "edition4" in found_in(reader, "subject2")[0][1]


def test_a_vector_file_that_is_gone_is_still_told(tmp_path: Path, docs: Path) -> None:
    indexed(tmp_path / "kb", docs).close()
    (tmp_path / "kb" / "vectors-1.f32").unlink()
    with KnowledgeBase.open(tmp_path / "kb") as kb, pytest.raises(Damaged, match="is missing"):
        kb.search("subject2")


@pytest.fixture
def session(tmp_path: Path, docs: Path) -> Iterator[WriteSession]:
    """A writer in a knowledge base with too many unused vectors."""
    kb = indexed(tmp_path / "kb", docs)
    for edition in range(1, LEAST // FILES):
        edit(docs, edition)
        kb.index(docs)
    kb.remove(docs / "0.txt")
    kb.close()
    with WriteSession(tmp_path / "kb") as writer:
        yield writer


def test_a_full_disk_puts_it_off(session: WriteSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: VectorFile) -> None:
        raise StoreError("no room")

    fingerprint = session.catalog.get("embedder") or ""
    row, vectors = session.vectors_for(fingerprint, 256)
    vectors.append(vectors.matrix()[: 2 * FILES].copy())
    monkeypatch.setattr(VectorFile, "sync", full)
    assert compacted(session, row, vectors) is vectors
    assert set(vector_files(session.directory)) == {"vectors-1.f32"}


def test_the_vectors_of_an_embedder_that_is_not_in_use_are_left_alone(session: WriteSession) -> None:
    row, vectors = session.vectors_for("another", 2)
    vectors.append(vectors.matrix().reshape(0, 2))
    vectors.rows = 1000
    assert compacted(session, row, vectors) is vectors
