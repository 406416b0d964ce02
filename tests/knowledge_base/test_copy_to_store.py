"""Copy a knowledge base between vector stores: same results, no embedding, foreign data unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from ragkit.embed.base import Rows
from ragkit.embed.hashing import HashingEmbedder
from ragkit.errors import PipelineError, SettingsMismatch, StoreError
from ragkit.index import external_store
from ragkit.index.catalog.write_session import WriteSession
from ragkit.index.external_store import ExternalStore, StoreLocation
from ragkit.knowledge_base.copying import to_store
from ragkit.knowledge_base.copying.to_store import CopyOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.stored_settings import read_stored_pipeline
from ragkit.pipeline.components import ComponentConfig
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document
from ragkit.store import STORES
from ragkit.store.backends.memory import MemoryStore
from ragkit.store.backends.sqlite import SqliteStore
from ragkit.store.options import MemoryOptions, PineconeOptions, SqliteOptions
from ragkit.testing.store_factory import scratch_options, unit_rows
from tests import reads

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

HASHING = "embed: {name: hashing, dimension: 64}\nsplit: {name: recursive, chunk_size: 30, chunk_overlap: 0}\n"
QUESTIONS = [f"who keeps key number {number} of the {room}" for number in range(10) for room in ("shed", "attic")]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(12):
        lines = [
            f"Key {number}.{n} of the {'shed' if n % 2 else 'attic'} hangs on hook {n * number}." for n in range(8)
        ]
        head = json.dumps({"year": 2000 + number, "name": f"Zoë {number}"})
        (folder / f"keys{number}.md").write_text(f"---\n{head}\n---\n# Keys {number}\n\n" + "\n\n".join(lines) + "\n")
    return folder


@pytest.fixture
def indexed(tmp_path: Path, docs: Path) -> Path:
    KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(HASHING)).index(docs)
    return tmp_path / "kb"


def with_store(name: str, options: object = None) -> Pipeline:
    pipeline = Pipeline.from_yaml(HASHING)
    return replace(pipeline, store=ComponentConfig(name, cast("DataclassInstance | None", options)))


def hits(path: Path, pipeline: Pipeline | None = None) -> list[list[tuple[str, float]]]:
    """Chunk ids and rounded scores of dense searches for all questions."""
    with KnowledgeBase.open(path, pipeline) as kb:
        results = [kb.search(question, 5, mode="dense") for question in QUESTIONS]
        results += [kb.search(question, 5, {"year": {"$gte": 2006}}, "dense") for question in QUESTIONS]
    return [sorted((hit.chunk.id, round(hit.score, 3)) for hit in hits) for hits in results]


@pytest.fixture
def store_options(name: str, tmp_path: Path) -> object:
    """The options of the store; its server is running."""
    kind = STORES.options_class(name)
    options = scratch_options(name, tmp_path / f"copy-{name}")
    return kind(**options) if kind else None


@pytest.mark.rotating
@pytest.mark.parametrize("name", sorted(STORES))
def test_a_copy_to_every_store_and_back_needs_no_embedding(
    name: str, store_options: object, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = hits(indexed)
    embedded: list[int] = []
    embed = HashingEmbedder.embed_texts

    def record_texts(self: HashingEmbedder, texts: Sequence[str]) -> Rows:
        embedded.append(len(texts))
        return embed(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed_texts", record_texts)
    report = KnowledgeBase.open(indexed, with_store(name, store_options)).copy()
    assert (report.problems, report.previous_store, report.store, report.embedding_tokens, embedded) == (
        (),
        "sqlite",
        name,
        0,
        [],
    )
    if report.comparison is not None:
        assert report.comparison.is_equal
        assert report.comparison.expected_checksum == report.comparison.stored_checksum
        assert (report.comparison.stored, report.copied, report.searches_compared) == (report.chunks, report.chunks, 24)
        assert report.recall == 1.0
    with KnowledgeBase.open(indexed) as kb:
        assert (kb.pipeline.store.name, kb.verify().problems) == (name, ())
        assert not reads.freshness(kb).outdated_store
    assert hits(indexed) == expected
    embedded.clear()  # remove the questions
    plain = Pipeline.from_yaml(HASHING + "store: {name: sqlite}\n")
    back_report = KnowledgeBase.open(indexed, plain).copy(CopyOptions(drop_old=True))
    assert (back_report.previous_store, back_report.store, back_report.problems, embedded) == (name, "sqlite", (), [])
    assert hits(indexed) == expected
    if report.comparison is not None:
        assert back_report.notes == (f"the store {name!r} was emptied",)


def test_an_index_run_after_a_copy_updates_the_new_store(tmp_path: Path, docs: Path, indexed: Path) -> None:
    options = SqliteOptions(tmp_path / "store")
    KnowledgeBase.open(indexed, with_store("sqlite", options)).copy()
    (docs / "keys3.md").unlink()
    with KnowledgeBase.open(indexed) as kb:
        kb.index(docs)
        expected = sorted(chunk.id for chunk in reads.chunks(kb))
    assert sorted(identity for identity, _, _ in SqliteStore(options).scan()) == expected


def test_a_pipeline_changes_the_store_only_if_it_names_one(tmp_path: Path, indexed: Path) -> None:
    KnowledgeBase.open(indexed, with_store("sqlite", SqliteOptions(tmp_path / "store"))).copy()
    for text in (HASHING, "extends: default\n" + HASHING):
        kb = KnowledgeBase.open(indexed, Pipeline.from_yaml(text))
        assert str(getattr(kb.pipeline.store.options, "path", "")) == str(tmp_path / "store")
    for section in ("store: {name: sqlite}\n", "store: {name: memory}\n"):
        kb = KnowledgeBase.open(indexed, Pipeline.from_yaml(HASHING + section))
        assert section == f"store: {{name: {kb.pipeline.store.name}}}\n"
        assert getattr(kb.pipeline.store.options, "path", "") == ""


def test_a_store_that_was_never_filled_is_reported_and_bypassed(tmp_path: Path, indexed: Path) -> None:
    expected = hits(indexed)
    other = with_store("sqlite", SqliteOptions(tmp_path / "store"))
    assert hits(indexed, other) == expected
    with KnowledgeBase.open(indexed, other) as kb:
        assert reads.freshness(kb).outdated_store == "sqlite"
        assert reads.freshness(kb).messages()[-1:] == [
            "the store 'sqlite' is not synchronized, the catalog was searched instead: run `ragkit copy`"
        ]


def test_foreign_documents_in_a_store_are_not_changed(tmp_path: Path, docs: Path, indexed: Path) -> None:
    options = SqliteOptions(tmp_path / "foreign")
    with closing(SqliteStore(options)) as foreign:
        foreign.add_documents([Document("foreign", id="foreign")], unit_rows(1, 64, 1))
    kb = KnowledgeBase.open(indexed, with_store("sqlite", options))
    with pytest.raises(StoreError, match="'sqlite' has 1 documents that this knowledge base did not write"):
        kb.copy()
    assert Pipeline.from_yaml(read_stored_pipeline(indexed) or "").store.options == SqliteOptions("")
    with pytest.raises(StoreError, match=r"or clear it with `ragkit copy --overwrite`"):
        kb.index(docs)
    assert [identity for identity, _, _ in SqliteStore(options).scan()] == ["foreign"]
    report = kb.copy(CopyOptions(overwrite=True))
    assert (report.problems, SqliteStore(options).count()) == ((), report.chunks)


def test_a_second_copy_adds_only_missing_chunks(tmp_path: Path, docs: Path, indexed: Path) -> None:
    kb = KnowledgeBase.open(indexed, with_store("sqlite", SqliteOptions(tmp_path / "store")))
    first = kb.copy()
    assert kb.copy().copied == 0
    KnowledgeBase.open(indexed, Pipeline.from_yaml(HASHING + "store: {name: sqlite}\n")).index(docs)
    (docs / "more.md").write_text("One more key hangs in the cellar.\n")
    KnowledgeBase.open(indexed, Pipeline.from_yaml(HASHING + "store: {name: sqlite}\n")).index(docs)
    second = kb.copy()
    assert (second.copied, second.chunks, second.previous_store) == (1, first.chunks + 1, "sqlite")


def test_progress_is_reported_up_to_the_last_chunk(
    tmp_path: Path, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_store, "SYNC_BATCH_SIZE", 20)
    calls: list[tuple[int, int]] = []
    kb = KnowledgeBase.open(indexed, with_store("sqlite", SqliteOptions(tmp_path / "store")))
    report = kb.copy(CopyOptions(on_progress=lambda done, total: calls.append((done, total))))
    assert calls[0] == (20, report.chunks)
    assert calls[-1] == (report.chunks, report.chunks)
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})


class ManglingStore(SqliteStore):
    """A store that writes something else than it was given."""

    mangle: Callable[[list[Document], Rows], tuple[list[Document], Rows]]

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        return super().add_documents(*type(self).mangle(list(documents), embeddings))


@pytest.mark.parametrize(
    ("mangle", "message"),
    [
        (lambda documents, rows: (documents[1:], rows[1:]), "is missing 1 chunks"),
        (
            lambda documents, rows: ([replace(documents[0], text="other"), *documents[1:]], rows),
            "has 1 chunks with a different text or metadata",
        ),
        (
            lambda documents, rows: ([replace(documents[0], metadata={}), *documents[1:]], rows),
            "has 1 chunks with a different text or metadata",
        ),
        (lambda documents, rows: (documents, -rows), r"chunks with a different vector \(1 - cosine is up to 2\)"),
        (
            lambda documents, rows: ([replace(documents[0], id="zz"), *documents[1:]], rows),
            "has 1 chunks that are not in the catalog",
        ),
    ],
    ids=["loses", "changes-text", "changes-metadata", "turns-vectors", "renames"],
)
def test_a_store_with_wrong_content_is_not_used(
    tmp_path: Path,
    indexed: Path,
    monkeypatch: pytest.MonkeyPatch,
    mangle: Callable[[list[Document], Rows], tuple[list[Document], Rows]],
    message: str,
) -> None:
    monkeypatch.setattr("ragkit.store.backends.sqlite.SqliteStore", ManglingStore)
    monkeypatch.setattr(ManglingStore, "mangle", staticmethod(mangle), raising=False)
    before = read_stored_pipeline(indexed)
    report = KnowledgeBase.open(indexed, with_store("sqlite", SqliteOptions(tmp_path / "store"))).copy()
    assert re.search(message, " ".join(report.problems))
    assert read_stored_pipeline(indexed) == before
    assert SqliteStore(SqliteOptions(tmp_path / "store")).count() == 0


def test_a_store_with_low_recall_is_not_used(tmp_path: Path, indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(to_store, "RECALL_SCORE_TOLERANCE", -1.0)  # no hit counts as equal
    report = KnowledgeBase.open(indexed, with_store("sqlite", SqliteOptions(tmp_path / "store"))).copy()
    assert report.problems == (
        "recall must be >= 90% (got 0% in 24 searches): raise the number of candidates of its index",
    )


def test_a_new_store_does_not_hide_a_mismatch_of_other_settings(indexed: Path) -> None:
    other = replace(with_store("memory", MemoryOptions()), embedder=Pipeline.default().embedder)
    with pytest.raises(SettingsMismatch, match=r"embed\.name: index has hashing, pipeline has minilm"):
        KnowledgeBase.open(indexed, other)


def test_stored_settings_keep_variables(tmp_path: Path, indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", str(tmp_path / "store"))
    KnowledgeBase.open(indexed, Pipeline.from_yaml(HASHING + "store: {name: sqlite, path: '${WHERE}'}\n")).copy()
    assert 'path: "${WHERE}"' in str(read_stored_pipeline(indexed))
    monkeypatch.delenv("WHERE")
    with pytest.raises(PipelineError, match="the environment variable WHERE is not set"):
        KnowledgeBase.open(indexed)
    report = KnowledgeBase.open(indexed, Pipeline.from_yaml(HASHING + "store: {name: memory}\n")).copy()
    assert (report.previous_store, report.store) == ("", "memory")
    assert hits(indexed)


def test_a_relative_path_is_stored_as_an_absolute_one(
    tmp_path: Path, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    KnowledgeBase.open(indexed, with_store("sqlite", SqliteOptions("store"))).copy()
    monkeypatch.chdir("/")
    with KnowledgeBase.open(indexed) as kb:
        assert str(getattr(kb.pipeline.store.options, "path", "")) == str(tmp_path / "store")
        assert not reads.freshness(kb).outdated_store


def test_a_repair_of_the_store_does_not_change_the_catalog(tmp_path: Path, indexed: Path) -> None:
    options = SqliteOptions(tmp_path / "store")
    KnowledgeBase.open(indexed, with_store("sqlite", options)).copy()
    with closing(SqliteStore(options)) as store:
        (identity, document, row) = next(iter(store.scan()))
        store.add_documents([replace(document, text="altered")], row.reshape(1, -1))
    with KnowledgeBase.open(indexed) as kb:
        generation = kb.status().generation
        assert [problem.message for problem in kb.verify().problems] == [
            "has 1 chunks with a different text or metadata"
        ]
        report = kb.verify(repair=True)
        assert report.is_sound
        assert report.repaired == (f"the store 'sqlite': emptied and filled with {report.chunks} chunks",)
        assert kb.status().generation == generation
        assert identity in {chunk.id for chunk in reads.chunks(kb)}


class ProcessKilled(BaseException):
    """Simulates the end of the process."""


class KillingStore(MemoryStore):
    """A store that ends the process at the n-th change, before or after making it."""

    remaining = 10**9
    after = False

    def _step(self, change: Callable[[], object]) -> object:
        self.remaining -= 1
        if self.remaining == 0 and not self.after:
            raise ProcessKilled
        result = change()
        if self.remaining == 0:
            raise ProcessKilled
        return result

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        return cast("list[str]", self._step(lambda: super(KillingStore, self).add_documents(documents, embeddings)))

    def delete(self, ids: Sequence[str]) -> int:
        return cast("int", self._step(lambda: super(KillingStore, self).delete(ids)))

    def clear(self) -> None:
        self._step(super().clear)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_interrupted_sync_resumes_at_the_interrupted_step(
    docs: Path, indexed: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    monkeypatch.setattr(external_store, "SYNC_BATCH_SIZE", 20)
    store = KillingStore(MemoryOptions())
    store.after = after
    external = ExternalStore(StoreLocation("killing:1", lambda: store))
    counts: list[int] = []
    for step in range(1, 4):  # the process ends after some steps
        store.remaining = step
        with WriteSession(indexed) as session, pytest.raises(ProcessKilled):
            external.sync(session.catalog, _matrix(session))
        counts.append(store.count())
    assert counts == sorted(counts), "synchronized chunks were lost"
    store.remaining = 10**9
    with WriteSession(indexed) as session:
        remaining = external.sync(session.catalog, _matrix(session))
        assert remaining < session.catalog.connection.execute("SELECT count(*) FROM chunks").fetchone()[0]
        assert external.compare(session.catalog, _matrix(session)).is_equal
    for path in list(docs.iterdir())[:9]:
        path.unlink()
    KnowledgeBase.open(indexed, Pipeline.from_yaml(HASHING)).index(docs)
    for _ in range(2):
        store.remaining = 1
        with WriteSession(indexed) as session, pytest.raises(ProcessKilled):
            external.sync(session.catalog, _matrix(session))
    store.remaining = 10**9
    with WriteSession(indexed) as session:
        external.sync(session.catalog, _matrix(session))
        assert external.compare(session.catalog, _matrix(session)).is_equal


def _matrix(session: WriteSession) -> Rows:
    row, file = session.open_vectors(session.catalog.get_meta("embedder") or "", 1)
    return file.matrix(row.rows)


def test_an_empty_knowledge_base_can_be_copied(tmp_path: Path, indexed: Path) -> None:
    with KnowledgeBase.open(indexed) as kb:
        kb.clear()
    report = KnowledgeBase.open(indexed, with_store("sqlite", SqliteOptions(tmp_path / "store"))).copy()
    assert (report.chunks, report.copied, report.problems) == (0, 0, ())


def test_errors_contain_no_api_key(indexed: Path) -> None:
    options = PineconeOptions(api_key="pc-secret", host="http://127.0.0.1:9", retries=0)
    with pytest.raises(StoreError, match="Pinecone") as caught:
        KnowledgeBase.open(indexed, with_store("pinecone", options)).copy()
    assert "pc-secret" not in str(caught.value)
