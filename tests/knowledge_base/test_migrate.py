"""A knowledge base moves between vector stores: the same answers, nothing embedded, no data of others lost."""

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
from ragkit.index import external_store as derived_module
from ragkit.index.catalog.write_session import WriteSession
from ragkit.index.external_store import ExternalStore, StoreLocation
from ragkit.knowledge_base import migrate
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.migrate import CopyOptions
from ragkit.knowledge_base.stored_settings import read_stored_pipeline
from ragkit.pipeline.components import ComponentConfig
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document
from ragkit.store import STORES
from ragkit.store.backends.memory import MemoryStore
from ragkit.store.backends.sqlite import SqliteStore
from ragkit.store.options import MemoryOptions, PineconeOptions, SqliteOptions
from ragkit.testing.store_factory import scratch_options, unit_rows

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

HASHING = "embed: {name: hashing, dimension: 64}\nsplit: {name: recursive, chunk_size: 30, chunk_overlap: 0}\n"
QUESTIONS = [f"who keeps key number {number} of the {what}" for number in range(10) for what in ("shed", "attic")]


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
    """What the questions find, by meaning alone, with scores as far as stores agree on them."""
    with KnowledgeBase.open(path, pipeline) as kb:
        found = [kb.search(question, 5, mode="dense") for question in QUESTIONS]
        found += [kb.search(question, 5, {"year": {"$gte": 2006}}, "dense") for question in QUESTIONS]
    return [sorted((hit.chunk.id, round(hit.score, 3)) for hit in one) for one in found]


@pytest.fixture(params=sorted(STORES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def subject(name: str, tmp_path: Path) -> object:
    """The options of the store; its server runs."""
    kind = STORES.options_class(name)
    options = scratch_options(name, tmp_path / f"copy-{name}")
    return kind(**options) if kind else None


def test_a_copy_to_every_store_and_back_needs_no_embedding(
    name: str, subject: object, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = hits(indexed)
    embedded: list[int] = []
    embed = HashingEmbedder.embed_texts

    def counted(self: HashingEmbedder, texts: Sequence[str]) -> Rows:
        embedded.append(len(texts))
        return embed(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed_texts", counted)
    there = KnowledgeBase.open(indexed, with_store(name, subject)).copy()
    assert (there.problems, there.previous_store, there.store, there.embedding_tokens, embedded) == (
        (),
        "sqlite",
        name,
        0,
        [],
    )
    if there.comparison is not None:
        assert there.comparison.is_equal
        assert there.comparison.expected_checksum == there.comparison.stored_checksum
        assert (there.comparison.stored, there.copied, there.searches_compared) == (there.chunks, there.chunks, 24)
        assert there.recall == 1.0
    with KnowledgeBase.open(indexed) as kb:
        assert (kb.pipeline.store.name, kb.verify().problems) == (name, ())
        assert not kb.freshness().outdated_store
    assert hits(indexed) == wanted
    embedded.clear()  # of the questions
    plain = Pipeline.from_yaml(HASHING + "store: {name: sqlite}\n")
    back = KnowledgeBase.open(indexed, plain).copy(CopyOptions(drop_old=True))
    assert (back.previous_store, back.store, back.problems, embedded) == (name, "sqlite", (), [])
    assert hits(indexed) == wanted
    if there.comparison is not None:
        assert back.notes == (f"the store {name!r} was emptied",)


def test_an_index_run_after_a_copy_updates_the_new_store(tmp_path: Path, docs: Path, indexed: Path) -> None:
    options = SqliteOptions(tmp_path / "there")
    KnowledgeBase.open(indexed, with_store("sqlite", options)).copy()
    (docs / "keys3.md").unlink()
    with KnowledgeBase.open(indexed) as kb:
        kb.index(docs)
        wanted = sorted(chunk.id for chunk in kb.chunks())
    assert sorted(identity for identity, _, _ in SqliteStore(options).scan()) == wanted


def test_a_pipeline_changes_the_store_only_if_it_names_one(tmp_path: Path, indexed: Path) -> None:
    KnowledgeBase.open(indexed, with_store("sqlite", SqliteOptions(tmp_path / "there"))).copy()
    for silent in (HASHING, "extends: default\n" + HASHING):
        kb = KnowledgeBase.open(indexed, Pipeline.from_yaml(silent))
        assert str(getattr(kb.pipeline.store.options, "path", "")) == str(tmp_path / "there")
    for telling in ("store: {name: sqlite}\n", "store: {name: memory}\n"):
        kb = KnowledgeBase.open(indexed, Pipeline.from_yaml(HASHING + telling))
        assert telling == f"store: {{name: {kb.pipeline.store.name}}}\n"
        assert getattr(kb.pipeline.store.options, "path", "") == ""


def test_a_store_that_was_never_filled_is_reported_and_bypassed(tmp_path: Path, indexed: Path) -> None:
    wanted = hits(indexed)
    other = with_store("sqlite", SqliteOptions(tmp_path / "there"))
    assert hits(indexed, other) == wanted
    with KnowledgeBase.open(indexed, other) as kb:
        assert kb.freshness().outdated_store == "sqlite"
        assert kb.freshness().messages() == [
            "the store 'sqlite' is not synchronized, the catalog was searched instead: run `ragkit copy`"
        ]


def test_foreign_documents_in_a_store_are_not_changed(tmp_path: Path, docs: Path, indexed: Path) -> None:
    options = SqliteOptions(tmp_path / "theirs")
    with closing(SqliteStore(options)) as theirs:
        theirs.add_documents([Document("theirs", id="theirs")], unit_rows(1, 64, 1))
    kb = KnowledgeBase.open(indexed, with_store("sqlite", options))
    with pytest.raises(StoreError, match="'sqlite' has 1 documents that this knowledge base did not write"):
        kb.copy()
    assert Pipeline.from_yaml(read_stored_pipeline(indexed) or "").store.options == SqliteOptions("")
    with pytest.raises(StoreError, match=r"or clear it with `ragkit copy --overwrite`"):
        kb.index(docs)
    assert [identity for identity, _, _ in SqliteStore(options).scan()] == ["theirs"]
    report = kb.copy(CopyOptions(overwrite=True))
    assert (report.problems, SqliteStore(options).count()) == ((), report.chunks)


def test_a_second_copy_adds_only_missing_chunks(tmp_path: Path, docs: Path, indexed: Path) -> None:
    kb = KnowledgeBase.open(indexed, with_store("sqlite", SqliteOptions(tmp_path / "there")))
    first = kb.copy()
    assert kb.copy().copied == 0
    KnowledgeBase.open(indexed, Pipeline.from_yaml(HASHING + "store: {name: sqlite}\n")).index(docs)
    (docs / "more.md").write_text("One more key hangs in the cellar.\n")
    KnowledgeBase.open(indexed, Pipeline.from_yaml(HASHING + "store: {name: sqlite}\n")).index(docs)
    again = kb.copy()
    assert (again.copied, again.chunks, again.previous_store) == (1, first.chunks + 1, "sqlite")


def test_progress_is_reported_up_to_the_last_chunk(
    tmp_path: Path, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derived_module, "SYNC_BATCH_SIZE", 20)
    told: list[tuple[int, int]] = []
    kb = KnowledgeBase.open(indexed, with_store("sqlite", SqliteOptions(tmp_path / "there")))
    report = kb.copy(CopyOptions(on_progress=lambda done, total: told.append((done, total))))
    assert told[0] == (20, report.chunks)
    assert told[-1] == (report.chunks, report.chunks)
    assert [done for done, _ in told] == sorted({done for done, _ in told})


class Mangling(SqliteStore):
    """A store that does something else than it was told."""

    mangle: Callable[[list[Document], Rows], tuple[list[Document], Rows]]

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        return super().add_documents(*type(self).mangle(list(documents), embeddings))


@pytest.mark.parametrize(
    ("mangle", "said"),
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
    said: str,
) -> None:
    monkeypatch.setattr("ragkit.store.backends.sqlite.SqliteStore", Mangling)
    monkeypatch.setattr(Mangling, "mangle", staticmethod(mangle), raising=False)
    before = read_stored_pipeline(indexed)
    report = KnowledgeBase.open(indexed, with_store("sqlite", SqliteOptions(tmp_path / "there"))).copy()
    assert re.search(said, " ".join(report.problems))
    assert read_stored_pipeline(indexed) == before
    assert SqliteStore(SqliteOptions(tmp_path / "there")).count() == 0


def test_a_store_with_low_recall_is_not_used(tmp_path: Path, indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrate, "RECALL_SCORE_TOLERANCE", -1.0)  # no hit is near enough
    report = KnowledgeBase.open(indexed, with_store("sqlite", SqliteOptions(tmp_path / "there"))).copy()
    assert report.problems == (
        "recall must be >= 90% (got 0% in 24 searches): raise the number of candidates of its index",
    )


def test_a_new_store_does_not_hide_a_mismatch_of_other_settings(indexed: Path) -> None:
    other = replace(with_store("memory", MemoryOptions()), embedder=Pipeline.default().embedder)
    with pytest.raises(SettingsMismatch, match=r"embed\.name: index has hashing, pipeline has minilm"):
        KnowledgeBase.open(indexed, other)


def test_stored_settings_keep_variables(tmp_path: Path, indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", str(tmp_path / "there"))
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
    KnowledgeBase.open(indexed, with_store("sqlite", SqliteOptions("there"))).copy()
    monkeypatch.chdir("/")
    with KnowledgeBase.open(indexed) as kb:
        assert str(getattr(kb.pipeline.store.options, "path", "")) == str(tmp_path / "there")
        assert not kb.freshness().outdated_store


def test_a_repair_of_the_store_does_not_change_the_catalog(tmp_path: Path, indexed: Path) -> None:
    options = SqliteOptions(tmp_path / "there")
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
        assert identity in {chunk.id for chunk in kb.chunks()}


class CutOff(BaseException):
    """Stands for a process that ends here."""


class Frail(MemoryStore):
    """A store whose process ends at the n-th change, before or after it was made."""

    left = 10**9
    after = False

    def _step(self, change: Callable[[], object]) -> object:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise CutOff
        done = change()
        if self.left == 0:
            raise CutOff
        return done

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        return cast("list[str]", self._step(lambda: super(Frail, self).add_documents(documents, embeddings)))

    def delete(self, ids: Sequence[str]) -> int:
        return cast("int", self._step(lambda: super(Frail, self).delete(ids)))

    def clear(self) -> None:
        self._step(super().clear)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_interrupted_sync_resumes_at_the_interrupted_step(
    docs: Path, indexed: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    monkeypatch.setattr(derived_module, "SYNC_BATCH_SIZE", 20)
    store = Frail(MemoryOptions())
    store.after = after
    derived = ExternalStore(StoreLocation("frail:1", lambda: store))
    handed: list[int] = []
    for step in range(1, 4):  # each time some steps get done, then the process ends
        store.left = step
        with WriteSession(indexed) as session, pytest.raises(CutOff):
            derived.sync(session.catalog, _matrix(session))
        handed.append(store.count())
    assert handed == sorted(handed), "what was handed over is kept"
    store.left = 10**9
    with WriteSession(indexed) as session:
        rest = derived.sync(session.catalog, _matrix(session))
        assert rest < session.catalog.connection.execute("SELECT count(*) FROM chunks").fetchone()[0]
        assert derived.compare(session.catalog, _matrix(session)).is_equal
    for path in list(docs.iterdir())[:9]:
        path.unlink()
    KnowledgeBase.open(indexed, Pipeline.from_yaml(HASHING)).index(docs)
    for _ in range(2):
        store.left = 1
        with WriteSession(indexed) as session, pytest.raises(CutOff):
            derived.sync(session.catalog, _matrix(session))
    store.left = 10**9
    with WriteSession(indexed) as session:
        derived.sync(session.catalog, _matrix(session))
        assert derived.compare(session.catalog, _matrix(session)).is_equal


def _matrix(session: WriteSession) -> Rows:
    row, file = session.open_vectors(session.catalog.get_meta("embedder") or "", 1)
    return file.matrix(row.rows)


def test_an_empty_knowledge_base_can_be_copied(tmp_path: Path, indexed: Path) -> None:
    with KnowledgeBase.open(indexed) as kb:
        kb.clear()
    report = KnowledgeBase.open(indexed, with_store("sqlite", SqliteOptions(tmp_path / "there"))).copy()
    assert (report.chunks, report.copied, report.problems) == (0, 0, ())


def test_errors_contain_no_api_key(indexed: Path) -> None:
    options = PineconeOptions(api_key="pc-secret", host="http://127.0.0.1:9", retries=0)
    with pytest.raises(StoreError, match="Pinecone") as caught:
        KnowledgeBase.open(indexed, with_store("pinecone", options)).copy()
    assert "pc-secret" not in str(caught.value)
