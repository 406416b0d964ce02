"""A knowledge base in PostgreSQL does what one in a directory does, for several machines."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from ragkit.embed.base import Rows
from ragkit.embed.hashing import HashingEmbedder
from ragkit.errors import DatabaseFailed, InvalidOption, KnowledgeBaseLocked, NotAKnowledgeBase, SettingsMismatch
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.postgres import PostgresCatalog
from ragkit.index.replica import WRITER_FOLDER
from ragkit.index.report import IndexEvent, TextsEmbedded
from ragkit.knowledge_base.database_location import DatabaseLocation
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.records import Document
from tests import reads

HASHING = "embed: {name: hashing, dimension: 64}\nsplit: {name: recursive, chunk_size: 30, chunk_overlap: 0}\n"
PIPELINE = Pipeline.from_yaml(HASHING)
QUESTIONS = ("which oil does pump 3 need", "valve", "who holds the key of the red door", "nothing of this")
WORDS = ("pump", "valve", "oil", "door", "key", "red", "leaks", "needs", "holds", "seven", "gasket", "shed")

Open = Callable[..., KnowledgeBase]


@pytest.fixture
def machine(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens the knowledge base as a program on the machine of this name does; each has a cache of its own."""
    opened: list[KnowledgeBase] = []

    def open_on(name: str = "one", pipeline: Pipeline | None = PIPELINE, options: str = "") -> KnowledgeBase:
        monkeypatch.setenv("RAGKIT_CACHE", str(tmp_path / f"cache-{name}"))
        opened.append(KnowledgeBase.open(database_url + options, pipeline))
        return opened[-1]

    yield open_on
    for kb in opened:
        kb.close()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(8):
        (folder / f"pump{number}.md").write_text(
            f"# Pump {number}\n\nPump {number} needs oil {number * 7}.\n\nValve.\n"
        )
    return folder


def contents(kb: KnowledgeBase) -> list[object]:
    """Everything that a reader sees."""
    with kb.session() as session, session.snapshot() as snapshot:
        chunks = [(key, *map(str, (chunk,))) for key, chunk in _chunks(kb)]
        return [snapshot.arrays.generation, *reads.documents(kb), *chunks]


def _chunks(kb: KnowledgeBase) -> Iterator[tuple[int, object]]:
    with kb.session() as session, session.snapshot() as snapshot:
        keys = snapshot.arrays.chunk_keys.tolist()
        yield from zip(keys, snapshot.chunks(keys), strict=True)


def scores(kb: KnowledgeBase) -> list[list[tuple[str, float]]]:
    """The hits of some questions in every mode, with their scores."""
    return [
        [(hit.chunk.id, hit.score) for hit in kb.search(question, mode=mode)]
        for question in QUESTIONS
        for mode in ("dense", "lexical", "hybrid")
    ]


def assert_same(one: KnowledgeBase, other: KnowledgeBase) -> None:
    assert contents(one) == contents(other)
    if reads.documents(one):
        for ours, theirs in zip(scores(one), scores(other), strict=True):
            assert [name for name, _ in ours] == [name for name, _ in theirs]
            np.testing.assert_allclose([score for _, score in ours], [score for _, score in theirs], rtol=1e-6)


class CrashError(Exception):
    """What a run of a test ends with."""


def play(seed: int, folder: Path, bases: list[Callable[[], KnowledgeBase]]) -> Iterator[None]:
    """A random history of changes and runs, the same for every knowledge base; yields after each run."""
    chance = random.Random(seed)
    for _ in range(5):
        for _ in range(chance.randrange(1, 5)):
            _change_files(chance, folder)
        action, crash_after = chance.random(), chance.randrange(1, 8) if chance.random() < 0.3 else 0
        named = [folder] if chance.random() < 0.8 else sorted(folder.rglob("*.md"))[:3] or [folder]
        added = Document(_sentence(chance), {"source": f"note {chance.randrange(3)}"})
        for open_base in bases:
            with open_base() as kb, suppress(CrashError, NotAKnowledgeBase):
                if action < 0.1:
                    kb.remove(named[0])
                elif action < 0.2:
                    kb.add(added)
                elif action < 0.25:
                    kb.clear()
                else:
                    kb.index(*named, options=IndexOptions(on_event=_crash_at(crash_after)))
        yield


def _crash_at(number: int) -> Callable[[IndexEvent], None]:
    left = [number]

    def handle(event: IndexEvent) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise CrashError

    return handle


def _sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randrange(3, 40))) + "."


def _change_files(chance: random.Random, folder: Path) -> None:
    files = sorted(folder.rglob("*.md"))
    change = chance.random()
    if not files or change < 0.5:
        path = folder / chance.choice(("", "deep")) / f"n{chance.randrange(12)}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {_sentence(chance)}\n\n{_sentence(chance)}\n\n{_sentence(chance)}\n")
    elif change < 0.7:
        chance.choice(files).rename(folder / f"moved{chance.randrange(12)}.md")
    elif change < 0.85:
        chance.choice(files).unlink()
    else:
        chance.choice(files).write_text("")


def check_histories(seeds: range, tmp_path: Path, machine: Open) -> None:
    for seed in seeds:
        folder, directory = tmp_path / f"files{seed}", tmp_path / f"kb{seed}"
        folder.mkdir()
        chance = random.Random(seed)

        def open_database(chance: random.Random = chance, seed: int = seed) -> KnowledgeBase:
            return machine(f"{seed}-{chance.randrange(2)}", options=f"&schema=history{seed}")

        def open_directory(directory: Path = directory) -> KnowledgeBase:
            return KnowledgeBase.open(directory, PIPELINE)

        for step, _ in enumerate(play(seed, folder, [open_directory, open_database])):
            with open_directory() as one, open_database() as other:
                if one.path.joinpath("index.sqlite").exists():
                    try:
                        assert_same(one, other)
                    except AssertionError as error:
                        error.add_note(f"history {seed}, step {step}")
                        raise
        shutil.rmtree(folder)


def test_no_copy_keeps_a_vector_of_what_another_machine_cleared(machine: Open, docs: Path) -> None:
    names = ("one", "two", "reader")
    embedded = machine("one").index(docs).embedded
    for name in names:
        assert machine(name).search("pump")
    machine("two").clear()
    for name in names:
        kb = machine(name)
        with pytest.raises(NotAKnowledgeBase, match="holds no documents"):
            kb.search("pump")
        assert _vectors_of(kb.path) == 0
    assert machine("one").index(docs).embedded == embedded
    for name in names:
        assert machine(name).search("pump")


def _vectors_of(directory: Path) -> int:
    with closing(sqlite3.connect(directory / "index.sqlite")) as connection:
        return int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0])


@pytest.mark.slow
def test_three_histories_give_the_same_content_scores_and_generations_as_a_directory(
    tmp_path: Path, machine: Open
) -> None:
    check_histories(range(3), tmp_path, machine)


@pytest.mark.slow
def test_500_histories_give_the_same_content_scores_and_generations_as_a_directory(
    tmp_path: Path, machine: Open
) -> None:
    check_histories(range(1000, 1500), tmp_path, machine)


def test_another_machine_sees_what_was_published(docs: Path, tmp_path: Path, machine: Open) -> None:
    one = machine("one")
    assert one.index(docs).files["added"] == 8
    other = machine("other", pipeline=None)
    assert other.status().documents == 8
    assert_same(one, other)
    (docs / "pump3.md").write_text("# Pump 3\n\nIt was replaced by a siphon.\n")
    assert other.index(docs).embedded == 1
    assert one.location.refresh()
    assert "siphon" in one.search("siphon")[0].text
    assert_same(one, other)
    assert one.path != other.path
    assert tmp_path in one.path.parents


def test_a_follower_pulls_what_is_published_without_being_asked(docs: Path, machine: Open) -> None:
    writer = machine("one")
    writer.index(docs)
    reader = machine("other", pipeline=None)
    reader.location.follow()
    (docs / "new.md").write_text("The siphon is in the cellar.\n")
    writer.index(docs)
    deadline = time.monotonic() + 10
    while len(reads.documents(reader)) < 9 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert reader.search("siphon", mode="lexical")[0].source.endswith("new.md")


def test_an_open_reader_keeps_working_while_its_copy_is_fetched_again(docs: Path, machine: Open) -> None:
    kb = machine()
    kb.index(docs)
    before = scores(kb)
    assert isinstance(kb.location, DatabaseLocation)
    kb.location.replica.refetch(kb.location.database)
    kb.location.refresh()
    assert scores(kb) == before
    (docs / "new.md").write_text("The siphon is in the cellar.\n")
    machine("other").index(docs)
    kb.location.refresh()
    assert len(reads.documents(kb)) == 9


def test_a_damaged_copy_is_fetched_again(docs: Path, machine: Open) -> None:
    kb = machine()
    kb.index(docs)
    before = scores(kb)
    kb.close()
    vectors = next(kb.path.glob("vectors-*.f32"))
    body = bytearray(vectors.read_bytes())
    body[-7] ^= 0x55
    vectors.write_bytes(body)
    with machine() as again:
        assert not again.verify().is_sound
        report = again.verify(repair=True)
        assert report.is_sound
        assert report.repaired == ("the local copy was fetched from the database again",)
        assert scores(again) == before
    (kb.path / "index.sqlite").write_bytes(b"not a database")
    with machine() as again:
        assert scores(again) == before


def test_a_damaged_copy_is_fetched_again_before_a_run_writes(docs: Path, machine: Open) -> None:
    kb = machine()
    kb.index(docs)
    before = scores(kb)
    kb.close()
    shutil.rmtree(kb.path / WRITER_FOLDER)  # the next run copies the copy of the readers
    vectors = next(kb.path.glob("vectors-*.f32"))
    body = bytearray(vectors.read_bytes())
    body[-7] ^= 0x55
    vectors.write_bytes(body)
    with machine() as again:
        (docs / "new.md").write_text("A new page about a kettle.")
        assert again.index(docs).files["added"] == 1
        (docs / "new.md").unlink()
        again.index(docs, options=IndexOptions(accept_deletions=True))
        assert scores(again) == before
        assert again.verify().is_sound


def test_a_database_that_was_restored_to_an_earlier_state_is_fetched_again(docs: Path, machine: Open) -> None:
    writer, reader = machine("one"), machine("other")
    writer.index(docs)
    assert isinstance(writer.location, DatabaseLocation)
    url = writer.location.url
    with psycopg.connect(url.dsn, autocommit=True) as connection:
        saved = connection.execute(f'SELECT version FROM "{url.schema}".ragkit'.encode()).fetchone()
        assert saved
        (docs / "new.md").write_text("The siphon is in the cellar.\n")
        writer.index(docs)
        reader.location.refresh()
        assert len(reads.documents(reader)) == 9
        for table in ("files", "documents", "chunks", "meta", "roots"):
            connection.execute(f'DELETE FROM "{url.schema}".{table} WHERE version > %s'.encode(), saved)
        connection.execute(f'UPDATE "{url.schema}".ragkit SET version = %s'.encode(), saved)
    reader.location.refresh()
    assert len(reads.documents(reader)) == 8
    assert not reader.search("siphon cellar", mode="lexical")


def test_an_unreachable_database_leaves_the_local_copy(
    docs: Path, machine: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kb = machine()
    kb.index(docs)
    before = scores(kb)
    assert isinstance(kb.location, DatabaseLocation)
    kb.location.database.close()
    monkeypatch.setattr(psycopg.Connection, "connect", _fail_to_connect)
    kb.location.refresh()
    assert scores(kb) == before
    assert "cannot be used (no route to host): start the database, or correct the address" in caplog.text
    with pytest.raises(DatabaseFailed, match="start the database"):
        machine("other", pipeline=None)


def _fail_to_connect(*args: object, **kwargs: object) -> object:
    raise psycopg.OperationalError("no route to host")


def test_a_directory_moves_into_a_database_and_back_without_embedding(
    docs: Path, tmp_path: Path, machine: Open, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with KnowledgeBase.open(tmp_path / "kb", PIPELINE) as directory:
        directory.index(docs)
        directory.add(Document("The siphon is in the cellar.", {"source": "note"}))
        monkeypatch.setattr(HashingEmbedder, "embed_texts", _refuse_to_embed)
        assert directory.copy_to(database_url).embedding_tokens == 0
        monkeypatch.undo()
        with machine("other", pipeline=None) as copied:
            assert_same(directory, copied)
            assert copied.index(docs).embedded == 0
            monkeypatch.setattr(HashingEmbedder, "embed_texts", _refuse_to_embed)
            copied.copy_to(tmp_path / "back")
            monkeypatch.undo()
            with pytest.raises(InvalidOption, match="it holds 9 documents"):
                directory.copy_to(database_url)
            assert directory.copy_to(database_url, overwrite=True).chunks == 9
            copied.location.refresh()
            assert_same(directory, copied)
    with KnowledgeBase.open(tmp_path / "back") as back, KnowledgeBase.open(tmp_path / "kb") as directory:
        assert_same(directory, back)
        assert back.verify().is_sound
        assert back.index(docs).embedded == 0
        assert reads.document(back, "note") is not None
        with pytest.raises(InvalidOption, match="a directory without a knowledge base"):
            directory.copy_to(tmp_path / "back")


def _refuse_to_embed(self: HashingEmbedder, texts: object) -> Rows:
    raise AssertionError("nothing may be embedded")


def test_several_knowledge_bases_share_a_database(docs: Path, machine: Open) -> None:
    with machine(options="&schema=alpha1") as alpha, machine(options="&schema=beta1") as beta:
        alpha.index(docs)
        beta.add(Document("Only here.", {"source": "note"}))
        alpha.location.refresh()
        assert (len(reads.documents(alpha)), len(reads.documents(beta))) == (8, 1)


def test_documents_with_nul_and_control_characters_survive(machine: Open) -> None:
    text = "a\x00b \x1a \x1aZ \x1aS end of the note"
    with machine() as kb, machine("other") as other:
        kb.add(Document(text, {"source": "odd\x1a", "key": "\x00 and \x1aZ"}))
        other.location.refresh()
        found = reads.document(other, "odd\x1a")
        assert found is not None
        assert found.text == text
        assert found.metadata["key"] == "\x00 and \x1aZ"
        assert other.verify().is_sound


def test_added_documents_and_their_removal_reach_other_machines(machine: Open) -> None:
    with machine("one") as one, machine("other") as other:
        one.add(Document("The siphon is in the cellar.", {"source": "note"}))
        other.add(Document("The hoist is in the attic.", {"source": "memo"}))
        one.location.refresh()
        assert [source for source, _, _ in reads.documents(one)] == ["memo", "note"]
        assert other.remove("note") == 1
        one.location.refresh()
        assert [source for source, _, _ in reads.documents(one)] == ["memo"]
        assert one.index("kb.add").files["unchanged"] == 1


def test_files_of_another_machine_do_not_count_as_deleted(docs: Path, tmp_path: Path, machine: Open) -> None:
    with machine("one") as one:
        one.index(docs)
    docs.rename(tmp_path / "elsewhere")
    with machine("other") as other:
        assert other.status().stale == 0
        assert reads.freshness(other, 10).removed == 0
        assert not reads.is_stale(other, str(docs / "pump1.md"))


def test_settings_that_differ_from_those_in_the_database_are_refused(docs: Path, machine: Open) -> None:
    machine().index(docs)
    with pytest.raises(
        SettingsMismatch, match=r"postgresql://postgres@/postgres\?.* was built with different settings"
    ):
        machine("other", Pipeline.from_yaml(HASHING.replace("64", "32")))


def test_a_store_in_files_of_one_machine_is_refused(docs: Path, machine: Open) -> None:
    kb = machine(pipeline=Pipeline.from_yaml(HASHING + "store: {name: faiss}\n"))
    with pytest.raises(InvalidOption, match="or a store on a server"):
        kb.index(docs)


def test_a_schema_of_another_application_is_refused(docs: Path, database_url: str, machine: Open) -> None:
    with psycopg.connect(DatabaseUrl.parse(database_url).dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS shop")
        connection.execute("CREATE TABLE IF NOT EXISTS shop.orders (id integer)")
    with machine(options="&schema=shop") as kb, pytest.raises(NotAKnowledgeBase, match="'orders' of another appl"):
        kb.index(docs)


def test_an_older_program_refuses_a_newer_format(docs: Path, database_url: str, machine: Open) -> None:
    machine().index(docs)
    url = DatabaseUrl.parse(database_url)
    with psycopg.connect(url.dsn, autocommit=True) as connection:
        connection.execute(f'UPDATE "{url.schema}".ragkit SET format = 99'.encode())
    with pytest.raises(NotAKnowledgeBase, match="has format version 99, but this version of ragkit supports up to"):
        machine("other")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("at", ["transaction", "call"])
def test_an_interrupt_amid_a_command_leaves_no_locks(docs: Path, machine: Open, database_url: str, at: str) -> None:
    machine("one").index(docs)
    with closing(PostgresCatalog(DatabaseUrl.parse(database_url))) as database:

        def interrupted(connection: psycopg.Connection[Any]) -> None:
            connection.execute("BEGIN" if at == "call" else "SELECT 1")
            connection.execute("UPDATE ragkit SET token = token")
            connection.pgconn.send_query(b"SELECT 1")
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            if at == "call":
                database.run(interrupted)
            else:
                with database._transaction() as connection:
                    interrupted(connection)
        with closing(PostgresCatalog(DatabaseUrl.parse(database_url))) as other:
            other.run(lambda c: c.execute("SET lock_timeout = '10s'"))
            other.run(lambda c: c.execute("UPDATE ragkit SET token = token"))
        assert database.state() is not None  # over a new connection


def test_a_second_writer_waits_for_the_first(docs: Path, machine: Open) -> None:
    first, second = machine("one"), machine("other")
    at_work, order = threading.Event(), []

    def handle(event: IndexEvent) -> None:
        at_work.set()
        time.sleep(0.2)

    def run() -> None:
        first.index(docs, options=IndexOptions(on_event=handle))
        order.append("first")

    thread = threading.Thread(target=run)
    thread.start()
    assert at_work.wait(20)
    report = second.index(docs)
    order.append("second")
    thread.join()
    assert order == ["first", "second"]
    assert (report.embedded, report.files["unchanged"]) == (0, 8)
    third = machine("three", options="&wait=0")
    with _lease(third), pytest.raises(KnowledgeBaseLocked, match=r"is locked by process \d+ on "):
        third.index(docs)


@contextmanager
def _lease(kb: KnowledgeBase) -> Iterator[None]:
    assert isinstance(kb.location, DatabaseLocation)
    with closing(PostgresCatalog(kb.location.url)) as database:
        lease = database.acquire_lease()
        yield
        database.release_lease(lease)


def test_a_writer_that_lost_its_lease_publishes_nothing(docs: Path, machine: Open) -> None:
    first, second = machine("one"), machine("other")
    first.index(docs)
    (docs / "new.md").write_text("The siphon is in the cellar.\n")
    assert isinstance(first.location, DatabaseLocation)
    url = first.location.url

    def lose(event: IndexEvent) -> None:
        with psycopg.connect(url.dsn, autocommit=True) as connection:
            connection.execute(f'UPDATE "{url.schema}".ragkit SET token = token + 1, lease_until = NULL'.encode())

    with pytest.raises(KnowledgeBaseLocked, match="which took over"):
        first.index(docs, options=IndexOptions(on_event=lose))
    assert len(reads.documents(second)) == 8
    assert second.index(docs).files["added"] == 1
    first.location.refresh()
    assert_same(first, second)
    assert first.index(docs).files["unchanged"] == 9


KILLED = """
import sys, time
from ragkit.index.report import TextsEmbedded
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
import ragkit.index.build as build
build.EMBED_BATCH_SIZE = 20
left = int(sys.argv[3])
def handle(event):
    global left
    if isinstance(event, TextsEmbedded):
        left -= 1
        if left == 0:
            print("embedded", flush=True)
            time.sleep(60)
KnowledgeBase.open(sys.argv[1], sys.argv[4]).index(sys.argv[2], options=IndexOptions(on_event=handle))
"""


@pytest.mark.parametrize("batches", [1, 3])
def test_a_killed_writer_leaves_nothing_half_seen_and_nothing_is_embedded_twice(
    batches: int, tmp_path: Path, database_url: str, machine: Open
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "first.md").write_text("The first document, which is published.\n")
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(HASHING)
    reader = machine("reader", Pipeline.load(pipeline))
    reader.index(folder)
    for number in range(100):
        (folder / f"n{number}.md").write_text(f"Note {number}: hook {number * 7} holds the key of door {number}.\n")
    arguments = [sys.executable, "-c", KILLED, database_url, str(folder), str(batches), str(pipeline)]
    environment = {**os.environ, "RAGKIT_CACHE": str(tmp_path / "cache-killed")}
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "embedded\n"
        os.kill(writer.pid, signal.SIGKILL)
    reader.location.refresh()
    assert len(reads.documents(reader)) == 1
    embedded = 0

    def count(event: IndexEvent) -> None:
        nonlocal embedded
        embedded += event.texts if isinstance(event, TextsEmbedded) else 0

    started = time.monotonic()
    report = machine("other", None).index(folder, options=IndexOptions(on_event=count))
    assert time.monotonic() - started < 60  # took over when the lease of 3 s had expired
    assert (report.files["added"], report.embedded) == (100, embedded)
    assert embedded <= 100 - batches * 20
    reader.location.refresh()
    assert len(reads.documents(reader)) == 101
    with KnowledgeBase.open(tmp_path / "kb", Pipeline.load(pipeline)) as directory:
        directory.index(folder)
        assert sorted(chunk.id for chunk in reads.chunks(directory)) == sorted(
            chunk.id for chunk in reads.chunks(reader)
        )


def test_copies_are_grouped_on_every_machine(docs: Path, machine: Open) -> None:
    text = (
        "Travellers hand the original receipts of business journeys to their accounting department, which repays"
        " hotels, trains and restaurants."
    )
    for name in "abc":
        (docs / f"{name}.md").write_text(f"{text}\n")
    writer = machine("one")
    writer.index(docs)
    reader = machine("two", pipeline=None)
    for kb in (writer, reader):
        hit = kb.search("Who repays hotels and trains?")[0]
        assert {Path(source).name for source in (hit.source, *hit.also_in)} == {"a.md", "b.md", "c.md"}
    (docs / "b.md").unlink()
    writer.index(docs)
    reader.location.refresh()
    hit = reader.search("Who repays hotels and trains?")[0]
    assert {Path(source).name for source in (hit.source, *hit.also_in)} == {"a.md", "c.md"}
