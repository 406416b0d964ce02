"""The Python API of a knowledge base, and external stores."""

from __future__ import annotations

import gc
import sqlite3
import sys
from contextlib import ExitStack, closing
from datetime import date
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

import ragkit
from ragkit.embed.base import PROBE_TEXT, Row
from ragkit.embed.hashing import HashingEmbedder
from ragkit.errors import (
    InvalidFilter,
    KnowledgeBaseDamaged,
    KnowledgeBaseLocked,
    LoadError,
    MissingExtra,
    NotAKnowledgeBase,
    PipelineError,
    SettingsMismatch,
)
from ragkit.index.build_fingerprint import BuildFingerprint, check_embedder_weights
from ragkit.index.catalog import row_checks
from ragkit.index.catalog.checksums import CHECKSUM_FILE
from ragkit.index.catalog.directory import CATALOG_FILE, open_vectors
from ragkit.index.catalog.lock import WriterLock
from ragkit.index.catalog.sqlite import EmbedderRow
from ragkit.index.reader import MAX_IDLE_CONNECTIONS
from ragkit.index.report import IndexEvent
from ragkit.index.snapshot.arrays import MAX_FILTER_MASKS
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline import assemble
from ragkit.pipeline.settings import Pipeline
from ragkit.store.backends.sqlite import SqliteStore
from ragkit.store.native.vector_file import VectorFile
from ragkit.store.options import SqliteOptions
from tests import reads

HASHING = "embed: {name: hashing, dimension: 64}\n"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "garden.md").write_text("---\nyear: 2024\n---\n# Garden\n\nThe hedge is cut in August.\n")
    (folder / "house.md").write_text("---\nyear: 2019\n---\n# House\n\nThe boiler is swept in May.\n")
    (folder / "shed.txt").write_text("The saw hangs on a nail.\n")
    return folder


def make_pipeline(text: str = "") -> Pipeline:
    return Pipeline.from_yaml(HASHING + text)


def test_index_search_and_ask(tmp_path: Path, docs: Path) -> None:
    with KnowledgeBase.open(tmp_path / "kb", make_pipeline()) as kb:
        report = kb.index(docs)
        assert (report.files["added"], report.chunks["added"], report.failures) == (3, 3, ())
        [hit] = kb.search("when is the hedge cut", top_k=1)
        assert (hit.chunk.source, hit.rank) == (str(docs / "garden.md"), 1)
        [filtered] = kb.search("cut", where={"year": {"$lt": 2020}})
        assert filtered.chunk.title == "House"
        document = reads.document(kb, hit.chunk.source)
        assert document is not None
        assert document.text[hit.chunk.start : hit.chunk.end] == hit.chunk.text
        assert kb.ask("When is the hedge cut?").citations[0].verified


def test_an_answer_embeds_its_question_once_whatever_was_asked_before(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[str] = []
    embed = HashingEmbedder.embed_query

    def record(embedder: HashingEmbedder, text: str) -> Row:
        embedded.append(text)
        return embed(embedder, text)

    monkeypatch.setattr(HashingEmbedder, "embed_query", record)
    questions = ["When is the hedge cut?", "Where does the saw hang?", "When is the hedge cut?"]
    with KnowledgeBase.open(tmp_path / "kb", make_pipeline()) as kb:
        kb.index(docs)
        embedded.clear()
        answers = [kb.ask(question, model="extractive") for question in questions]
    assert [text for text in embedded if text != PROBE_TEXT] == questions
    assert answers[0].to_json()["citations"] == answers[2].to_json()["citations"]
    assert (answers[0].text, answers[0].evidence) == (answers[2].text, answers[2].evidence)


def test_the_first_chunk_of_a_document_is_its_beginning(tmp_path: Path) -> None:
    folder = tmp_path / "long"
    folder.mkdir()
    paragraphs = [f"Paragraph {n} is about the wheel number {n} of the mill and about nothing else." for n in range(80)]
    (folder / "a.txt").write_text("\n\n".join(["The Mills, by Ada Quill.", *paragraphs]))
    (folder / "b.txt").write_text("Another file.")
    with KnowledgeBase.open(tmp_path / "kb", make_pipeline()) as kb:
        kb.index(folder)
        hit = kb.search("paragraph 70 wheel 70", 1)[0]
        with kb.session() as session:
            first = session.first_chunk(hit.chunk.document_id)
            assert session.first_chunk("nothing") is None
        assert first is not None
        assert (first.source, first.start, first.text[:24]) == (hit.chunk.source, 0, "The Mills, by Ada Quill.")
        assert first.id != hit.chunk.id
        (folder / "a.txt").unlink()
        kb.index(folder)
        with kb.session() as session:
            assert session.first_chunk(hit.chunk.document_id) is None


def test_the_terms_of_the_index_are_those_of_live_documents(tmp_path: Path) -> None:
    folder = tmp_path / "mills"
    folder.mkdir()
    for n in range(3):
        (folder / f"{n}.txt").write_text(f"The Dynamo of mill {n}." + " Turbine." * n)
    with KnowledgeBase.open(tmp_path / "kb", make_pipeline()) as kb:
        kb.index(folder)
        with kb.session() as session:
            assert session.find_terms(["dyn", "tur"]) == {"dynamo": 3, "turbin": 2}
            assert session.missing_terms(["dynamo", "wheel"]) == ["wheel"]
        (folder / "2.txt").unlink()
        kb.index(folder)
        with kb.session() as session:
            assert session.find_terms(["dyn", "tur"]) == {"dynamo": 2, "turbin": 1}


def test_a_knowledge_base_remembers_its_pipeline(tmp_path: Path, docs: Path) -> None:
    KnowledgeBase.open(tmp_path / "kb", make_pipeline("retrieve: {name: lexical, top_k: 1}\n")).index(docs)
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert kb.pipeline.embedder.name == "hashing"
        assert len(kb.search("the")) <= 1


def test_different_settings_raise_an_error_with_all_differences(tmp_path: Path, docs: Path) -> None:
    KnowledgeBase.open(tmp_path / "kb", make_pipeline()).index(docs)
    other = "split: {name: recursive, chunk_size: 99}\n"
    with pytest.raises(SettingsMismatch, match=r"split\.chunk_size: index has 200, pipeline has 99"):
        KnowledgeBase.open(tmp_path / "kb", make_pipeline(other))
    with KnowledgeBase.open(tmp_path / "kb", make_pipeline("retrieve: {name: lexical}\n")) as kb:
        assert kb.search("hedge")[0].chunk.title == "Garden"


def test_long_settings_are_shown_up_to_where_they_differ() -> None:
    name = "sentence-transformers:a-folder-of-models:"
    before, after = (BuildFingerprint({}, {}, {"fingerprint": name + model * 20}, "1") for model in ("one-", "two-"))
    [difference] = before.differences(after)
    assert difference == (
        f"embed.fingerprint: index has {name}one-one-one-one-..., pipeline has {name}two-two-two-two-..."
    )


def test_a_store_whose_package_is_missing_is_reported_before_anything_is_embedded(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.delitem(sys.modules, "ragkit.store.backends.duckdb", raising=False)
    events: list[IndexEvent] = []
    kb = KnowledgeBase.open(tmp_path / "kb", make_pipeline("store: {name: duckdb}\n"))
    with pytest.raises(MissingExtra, match=r"the store 'duckdb' needs .*'ragkit-kb\[duckdb\]'"):
        kb.index(docs, options=IndexOptions(on_event=events.append))
    assert events == []


def test_different_weights_of_the_same_model_are_rejected() -> None:
    before = HashingEmbedder().embed_query("one text")
    check_embedder_weights("kb", before.tobytes(), before)
    with pytest.raises(SettingsMismatch, match="the embedder's weights differ"):
        check_embedder_weights("kb", before.tobytes(), HashingEmbedder().embed_query("something else"))


def test_a_missing_knowledge_base_or_source_is_reported(tmp_path: Path) -> None:
    with KnowledgeBase.open(tmp_path / "kb") as kb, pytest.raises(NotAKnowledgeBase, match="is not a knowledge base"):
        kb.search("anything")
    with pytest.raises(LoadError, match="does not exist"):
        KnowledgeBase.open(tmp_path / "kb").index(tmp_path / "missing")


def test_a_second_writer_is_rejected_with_the_process_of_the_first(tmp_path: Path, docs: Path) -> None:
    kb = KnowledgeBase.open(tmp_path / "kb", make_pipeline())
    kb.index(docs)
    with WriterLock(tmp_path / "kb"), pytest.raises(KnowledgeBaseLocked, match="is locked by process"):
        kb.index(docs)
    assert len(kb.search("hedge")) == 3


def test_concurrent_searches_never_mix_two_generations(tmp_path: Path, docs: Path) -> None:
    kb = KnowledgeBase.open(tmp_path / "kb", make_pipeline())
    kb.index(docs)
    mixed: list[str] = []
    reader = KnowledgeBase.open(tmp_path / "kb")

    def read() -> None:
        for _ in range(30):
            titles = {
                hit.chunk.text.split()[-1] for hit in reader.search("the word is", top_k=20) if "word" in hit.chunk.text
            }
            if len(titles) > 1:
                mixed.append(str(titles))

    threads = [Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for word in ("alpha", "beta", "gamma"):
        for number in range(8):
            (docs / f"word{number}.txt").write_text(f"The word is {word}\n")
        kb.index(docs)
    for thread in threads:
        thread.join()
    reader.close()
    assert mixed == []


def test_a_rebuild_includes_all_sources_of_earlier_runs(tmp_path: Path, docs: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (more / "other.txt").write_text("Something else.\n")
    kb = KnowledgeBase.open(tmp_path / "kb", make_pipeline())
    kb.index(docs)
    kb.index(more)
    smaller = KnowledgeBase.open(tmp_path / "kb", make_pipeline("split: {name: sentence}\n"), check=False)
    report = smaller.index(options=IndexOptions(rebuild=True))
    assert report.files["updated"] == 4
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert kb.pipeline.splitters[0].name == "sentence"
        assert kb.verify().is_sound


def test_a_lost_catalog_is_rebuilt_with_the_existing_vectors(tmp_path: Path, docs: Path) -> None:
    kb = KnowledgeBase.open(tmp_path / "kb", make_pipeline())
    kb.index(docs)
    before = [chunk.id for chunk in reads.chunks(kb)]
    kb.close()
    (tmp_path / "kb" / "index.sqlite").write_bytes(b"")
    with (
        KnowledgeBase.open(tmp_path / "kb", make_pipeline()) as damaged,
        pytest.raises(KnowledgeBaseDamaged, match=r"index\.sqlite has 0 bytes"),
    ):
        damaged.search("hedge")
    report = KnowledgeBase.open(tmp_path / "kb", make_pipeline()).index(docs)
    assert "rebuilt from 1 sources" in report.notes[0]
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert [chunk.id for chunk in reads.chunks(kb)] == before


@pytest.mark.parametrize("name", ["vectors-1.f32", CATALOG_FILE])
def test_a_flipped_bit_is_repaired_by_the_next_run(tmp_path: Path, docs: Path, name: str) -> None:
    kb, file = tmp_path / "kb", tmp_path / "kb" / name
    KnowledgeBase.open(kb, make_pipeline()).index(docs)
    data = bytearray(file.read_bytes())
    data[-9] ^= 1
    file.write_bytes(data)
    report = KnowledgeBase.open(kb, make_pipeline()).index(docs)
    assert f"{name} has a checksum mismatch: rebuilt from 1 sources" in report.notes[0]
    assert KnowledgeBase.open(kb).verify().is_sound


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "after an interrupted run"])
@pytest.mark.parametrize(
    ("name", "damaged", "reason"),
    [
        ("vectors-1.f32", -9, r"vectors-1\.f32 has a checksum mismatch"),
        (CATALOG_FILE, b"The saw hangs", rf"{CATALOG_FILE} (is damaged: .* of .*shed\.txt )?has a checksum mismatch"),
    ],
    ids=["vector", "text"],
)
def test_no_command_gives_damage_new_checksums(
    tmp_path: Path, docs: Path, name: str, damaged: int | bytes, reason: str, *, sealed: bool
) -> None:
    path = tmp_path / "kb"
    KnowledgeBase.open(path, make_pipeline()).index(docs)
    data = bytearray((path / name).read_bytes())
    data[damaged if isinstance(damaged, int) else data.rindex(damaged)] ^= 1
    (path / name).write_bytes(data)
    if not sealed:
        (path / CHECKSUM_FILE).unlink()
    kb = KnowledgeBase.open(path, make_pipeline())
    copy_to = partial(kb.copy_to, tmp_path / "copy")
    for write in (partial(kb.remove, docs / "shed.txt"), kb.clear, kb.copy, copy_to):
        with pytest.raises(KnowledgeBaseDamaged, match=reason):
            write()
    assert (path / CHECKSUM_FILE).exists() == sealed
    assert "rebuilt from 1 sources" in kb.index(docs).notes[0]
    assert kb.remove(docs / "shed.txt") == 1


def test_no_other_run_writes_while_vectors_are_verified(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the lock, rows that another run has just added would be taken for damaged, and everything rebuilt."""
    kb = tmp_path / "kb"
    KnowledgeBase.open(kb, make_pipeline()).index(docs)
    (kb / CHECKSUM_FILE).unlink()  # as after an interrupted run
    reads = []

    def open_beside_another_run(directory: Path, embedder: EmbedderRow) -> VectorFile:
        reads.append(directory)
        with pytest.raises(KnowledgeBaseLocked):
            KnowledgeBase.open(kb, make_pipeline()).index(docs)
        return open_vectors(directory, embedder)

    monkeypatch.setattr(row_checks, "open_vectors", open_beside_another_run)
    report = KnowledgeBase.open(kb, make_pipeline()).index(docs)
    assert reads
    assert (report.notes, report.files["unchanged"]) == ((), len([*docs.iterdir()]))


@pytest.fixture
def external_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the store `sqlite` as an external store, not as part of the catalog."""
    monkeypatch.setattr(assemble, "CATALOG_STORES", frozenset())


@pytest.mark.usefixtures("external_sqlite")
def test_an_external_store_is_synchronized_and_returns_the_same_results(tmp_path: Path, docs: Path) -> None:
    kb = KnowledgeBase.open(tmp_path / "kb", make_pipeline())
    kb.index(docs)
    store = SqliteStore(SqliteOptions(tmp_path / "kb" / "store-sqlite"))
    assert store.count() == 3
    (docs / "shed.txt").unlink()
    (docs / "garden.md").write_text("# Garden\n\nThe hedge is cut in July.\n")
    kb.index(docs)
    assert {document.id for _, document, _ in store.scan()} == {chunk.id for chunk in reads.chunks(kb)}
    with kb.session() as session:
        question = session.embed_question("boiler")
    with kb.session() as session, session.snapshot() as view:
        from_store = view.search_dense(question, 2)
    with KnowledgeBase.open(tmp_path / "kb", make_pipeline()) as plain:
        plain._read_side.reader(plain.principal).external_store = None
        with plain.session() as session, session.snapshot() as view:
            assert [key for key, _ in view.search_dense(question, 2)] == [key for key, _ in from_store]
    assert kb.verify().is_sound
    assert kb.remove(docs / "house.md") == 1
    assert store.count() == 1


@pytest.mark.usefixtures("external_sqlite")
def test_an_incomplete_store_is_reported_and_refilled_without_embedding(tmp_path: Path, docs: Path) -> None:
    kb = KnowledgeBase.open(tmp_path / "kb", make_pipeline())
    kb.index(docs)
    store = SqliteStore(SqliteOptions(tmp_path / "kb" / "store-sqlite"))
    store.delete([reads.chunks(kb)[0].id])
    [problem] = kb.verify().problems  # the file check fails before the contents are compared
    assert problem.message == "has an unexpected file store-sqlite/store.sqlite-wal"
    report = kb.index(docs)
    store.close()
    refilled = SqliteStore(SqliteOptions(tmp_path / "kb" / "store-sqlite"))
    assert (report.embedded, refilled.count()) == (0, 3)
    refilled.close()
    assert kb.verify().problems == ()


def test_every_public_name_can_be_imported_and_is_listed() -> None:
    for name in dir(ragkit):
        assert getattr(ragkit, name) is not None
    assert getattr(ragkit, "__all__") == dir(ragkit)  # noqa: B009 - computed at run time
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        getattr(ragkit, "Nothing")  # noqa: B009 - mypy knows that it is missing


def test_sequential_threads_share_a_connection(tmp_path: Path, docs: Path) -> None:
    with KnowledgeBase.open(tmp_path / "kb", make_pipeline()) as kb:
        kb.index(docs)
        kb.search("hedge")
        before = _open_files(tmp_path)
        for _ in range(30):
            thread = Thread(target=kb.search, args=("hedge",))
            thread.start()
            thread.join()
        assert _open_files(tmp_path) == before


def test_the_number_of_idle_connections_is_limited(tmp_path: Path, docs: Path) -> None:
    with KnowledgeBase.open(tmp_path / "kb", make_pipeline()) as kb:
        kb.index(docs)
        kb.search("hedge")
        with ExitStack() as stack:
            reader = kb._read_side.reader(kb.principal)
            views = [stack.enter_context(reader.snapshot()) for _ in range(2 * MAX_IDLE_CONNECTIONS)]
            assert len({id(view.connection) for view in views}) == len(views)
        assert sum(_is_open(view.connection) for view in views) == MAX_IDLE_CONNECTIONS


def test_an_iterator_that_outlives_its_knowledge_base_ends_without_an_error(tmp_path: Path, docs: Path) -> None:
    with KnowledgeBase.open(tmp_path / "kb", make_pipeline()) as kb:
        kb.index(docs)
        with kb.session() as session, session.snapshot() as view:
            kb.close()
            documents = view.documents.select()
            assert next(documents)[0].endswith("garden.md")
    del documents  # an error that is only printed fails the test
    gc.collect()


def test_a_snapshot_works_after_close_and_then_closes_its_connection(tmp_path: Path, docs: Path) -> None:
    with KnowledgeBase.open(tmp_path / "kb", make_pipeline()) as kb:
        kb.index(docs)
        with kb.session() as session, session.snapshot() as view:
            kb.close()
            assert len(list(view.documents.select())) == 3
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            next(iter(view.documents.select()))


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return False
    return True


def _open_files(folder: Path) -> int:
    paths = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sum(path.is_relative_to(folder) for path in paths)


def test_masks_and_columns_of_filters_are_bounded(tmp_path: Path, docs: Path) -> None:
    with KnowledgeBase.open(tmp_path / "kb", make_pipeline()) as kb:
        kb.index(docs)
        for number in range(3 * MAX_FILTER_MASKS):
            assert kb.search("hedge", where={f"field{number}": number}) == []
        assert [hit.chunk.title for hit in kb.search("cut", where={"year": 2019})] == ["House"]
        with kb.session() as session, session.snapshot() as snapshot:
            assert len(snapshot.arrays.filter_masks) == MAX_FILTER_MASKS
            assert list(snapshot.arrays.metadata_index._built_columns) == ["year"]


def test_a_cached_filter_does_not_answer_for_another(tmp_path: Path, docs: Path) -> None:
    (docs / "flags.md").write_text("---\nopen: true\nyear: 1\n---\nThe gate is open.\n")
    with KnowledgeBase.open(tmp_path / "kb", make_pipeline()) as kb:
        kb.index(docs)
        assert len(kb.search("gate", where={"open": True})) == 1
        assert kb.search("gate", where={"open": 1}) == []
        assert kb.search("gate", where={"year": "2024-01-01"}) == []
        for invalid in ({"year": date(2024, 1, 1)}, {"year": 2024, 7: 1}):
            with pytest.raises(InvalidFilter):
                kb.search("gate", where=invalid)  # type: ignore[arg-type]


def test_more_hits_than_sqlite_has_variables(tmp_path: Path, docs: Path) -> None:
    with KnowledgeBase.open(tmp_path / "kb", make_pipeline()) as kb:
        kb.index(docs)
        assert len(kb.search("hedge", top_k=33_000)) == 3
        with kb.session() as session, session.snapshot() as snapshot:
            keys = snapshot.arrays.chunk_keys.tolist() * 11_000
            assert len(snapshot.chunks(keys)) == 33_000


def test_a_repair_keeps_the_score_calibration(tmp_path: Path, docs: Path) -> None:
    with KnowledgeBase.open(tmp_path / "kb", make_pipeline()) as kb:
        kb.index(docs)
        with kb.session() as session:
            calibration = session.stored_calibration()
        assert calibration is not None
    [vectors] = (tmp_path / "kb").glob("vectors-*.f32")
    vectors.unlink()
    catalog = tmp_path / "kb" / CATALOG_FILE
    with closing(sqlite3.connect(catalog)) as connection:
        [stored] = connection.execute("SELECT value FROM meta WHERE key = 'calibration'").fetchone()
    with KnowledgeBase.open(tmp_path / "kb", make_pipeline()) as kb:
        assert kb.verify(repair=True).is_sound
        with kb.session() as session:
            assert session.stored_calibration() == calibration
    with closing(sqlite3.connect(catalog)) as connection:
        assert connection.execute("SELECT value FROM meta WHERE key = 'calibration'").fetchone() == (stored,)


def test_a_new_knowledge_base_has_the_settings_of_the_file_beside_it(tmp_path: Path) -> None:
    """As on the command line in that folder: a loader or an embedder that the file names is not left out."""
    (tmp_path / "ragkit.yaml").write_text("split: {name: fixed, chunk_size: 20, chunk_overlap: 0}\n")
    (tmp_path / "garden.txt").write_text("The hedge is cut in August.\n")
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert kb.pipeline.splitters[0].name == "fixed"
        kb.index(tmp_path / "garden.txt")
    (tmp_path / "ragkit.yaml").write_text("split: {name: recursive}\n")
    with KnowledgeBase.open(tmp_path / "kb") as built, KnowledgeBase.open(tmp_path / "new" / "kb") as elsewhere:
        assert built.pipeline.splitters[0].name == "fixed"
        assert elsewhere.pipeline == Pipeline.default()
    with KnowledgeBase.open(tmp_path / "second", "default") as named:
        assert named.pipeline.splitters[0].name == "recursive"


def test_a_new_knowledge_base_in_a_repository_has_the_settings_of_its_root(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "ragkit.yaml").write_text("split: {name: fixed}\n")
    with KnowledgeBase.open(tmp_path / "var" / "kb") as kb:
        assert kb.pipeline.splitters[0].name == "fixed"


def test_an_invalid_file_beside_a_new_knowledge_base_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "ragkit.yaml").write_text("splti: {}\n")
    with pytest.raises(PipelineError, match="unknown section 'splti'"):
        KnowledgeBase.open(tmp_path / "kb")
