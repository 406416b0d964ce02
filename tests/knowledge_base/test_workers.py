"""Workers embed the texts of runs of other processes: each text once, whoever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from ragkit.errors import DatabaseFailed, KnowledgeBaseLocked, ProviderError
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.postgres import EmbedderState, PostgresCatalog
from ragkit.index.catalog.postgres_queue import MAX_WORKER_TRIES, EmbeddingQueue, LeasedBatch
from ragkit.index.embedding_worker import EmbeddingWorker, run_worker
from ragkit.index.report import TextsEmbedded
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.pipeline.settings import Pipeline
from tests import reads
from tests.wire_embed.dialects import EmbeddingRequest
from tests.wire_embed.server import Fault, WireServer

TEXT = (
    "embed: {name: openai, model: text-embedding-3-small, dimensions: 48,"
    " batch_size: 16, concurrency: 1, attempts: 1}\n"
    "split: {name: recursive, chunk_size: 60, chunk_overlap: 0}\n"
)
NOTES = 500
Workers = list[subprocess.Popen[str]]


def slow(number: int, request: EmbeddingRequest) -> Fault | None:
    return Fault("slow", seconds=0.02)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    """An embedding service of 20 ms."""
    with WireServer("openai", slow).running() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(NOTES):
        (folder / f"n{number}.md").write_text(f"Note {number}: hook {number * 7} holds the key of door {number}.\n")
    (tmp_path / "pipeline.yaml").write_text(TEXT)
    return folder


@pytest.fixture
def workers(
    tmp_path: Path, database_url: str, service: WireServer, folder: Path
) -> Iterator[list[subprocess.Popen[str]]]:
    """Two workers in processes of their own."""
    started = [start_worker(tmp_path, database_url) for _ in range(2)]
    wait_for_workers(database_url, 2)
    yield started
    for worker in started:
        worker.kill()
        worker.communicate()


def start_worker(place: Path, address: str) -> subprocess.Popen[str]:
    arguments = ["worker", "--kb", address, "--pipeline", str(place / "pipeline.yaml"), "--json"]
    return subprocess.Popen([sys.executable, "-m", "ragkit", *arguments], stdout=subprocess.PIPE, text=True)


def components() -> PipelineComponents:
    return PipelineComponents(Pipeline.from_yaml(TEXT))


def queue_of(database: PostgresCatalog) -> EmbeddingQueue:
    return EmbeddingQueue(database, components().embedder.fingerprint)


def wait_for_workers(address: str, count: int) -> None:
    with closing(PostgresCatalog(DatabaseUrl.parse(address))) as database:
        database.create()
        deadline = time.monotonic() + 60
        while queue_of(database).count_workers() < count:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def stop(worker: subprocess.Popen[str]) -> int:
    """End a worker; returns the number of texts that it embedded."""
    worker.send_signal(signal.SIGTERM)
    out, _ = worker.communicate(timeout=30)
    assert worker.returncode == 0
    embedded: int = json.loads(out)["embedded"]
    return embedded


def index(address: str, folder: Path, **options: Any) -> Any:
    with KnowledgeBase.open(address, Pipeline.from_yaml(TEXT)) as kb:
        return kb.index(folder, options=IndexOptions(**options))


def assert_same_as_a_directory(address: str, folder: Path, tmp_path: Path) -> None:
    with KnowledgeBase.open(address) as shared, KnowledgeBase.open(tmp_path / "kb", Pipeline.from_yaml(TEXT)) as own:
        own.index(folder)
        assert len(reads.documents(shared)) == NOTES
        assert sorted(chunk.id for chunk in reads.chunks(shared)) == sorted(chunk.id for chunk in reads.chunks(own))
        for question in ("who holds the key of door 7", "hook 42"):
            assert [hit.chunk.id for hit in shared.search(question)] == [hit.chunk.id for hit in own.search(question)]


def tokens_in_ledger(address: str) -> int:
    with KnowledgeBase.open(address) as kb:
        return kb.ledger.total_spending().embedding_tokens


def answered_twice(service: WireServer) -> list[str]:
    return [text for (kind, text), times in service.answered.items() if times > 1 and "Note" in text]


def test_workers_and_the_run_embed_each_text_once(
    workers: Workers, database_url: str, folder: Path, service: WireServer, tmp_path: Path
) -> None:
    report = index(database_url, folder)
    assert (report.files["added"], report.embedded) == (NOTES, NOTES)
    assert answered_twice(service) == []
    embedded = [stop(worker) for worker in workers]
    assert min(embedded) > 0
    assert sum(embedded) <= NOTES
    assert service.most_under_way > 1
    # what workers paid is in the report of the run, and what the run itself paid is there once
    assert report.usage["embedding_tokens"] == service.tokens == tokens_in_ledger(database_url)
    with closing(PostgresCatalog(DatabaseUrl.parse(database_url))) as database:
        assert database.run(lambda c: c.execute("SELECT count(*) FROM batches").fetchone()) == (0,)
        assert queue_of(database).count_workers() == 0
    assert_same_as_a_directory(database_url, folder, tmp_path)


def test_a_run_without_workers_puts_nothing_into_the_queue(
    database_url: str, folder: Path, service: WireServer
) -> None:
    index(database_url, folder)
    with closing(PostgresCatalog(DatabaseUrl.parse(database_url))) as database:
        row = database.run(lambda c: c.execute("SELECT last_value, is_called FROM batches_key_seq").fetchone())
    assert row == (1, False)


@pytest.mark.slow
def test_the_batches_of_a_killed_worker_are_embedded_by_others(
    workers: Workers, database_url: str, folder: Path, service: WireServer, tmp_path: Path
) -> None:
    killed = threading.Timer(0.0, workers[0].kill)

    def kill(event: object) -> None:
        if isinstance(event, TextsEmbedded) and not killed.is_alive() and workers[0].poll() is None:
            killed.run()

    report = index(database_url, folder, on_event=kill)
    assert workers[0].wait(10) == -signal.SIGKILL
    assert report.embedded == NOTES
    # lost with the worker: a request that was answered and not saved yet, and the next one under way
    assert len(answered_twice(service)) <= 2 * 16
    assert_same_as_a_directory(database_url, folder, tmp_path)


RUN = """
import sys
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
KnowledgeBase.open(sys.argv[1], sys.argv[2]).index(sys.argv[3])
"""


@pytest.mark.slow
def test_what_workers_embed_for_a_killed_run_is_kept_for_the_next_one(
    workers: Workers, database_url: str, folder: Path, service: WireServer, tmp_path: Path
) -> None:
    arguments = [sys.executable, "-c", RUN, database_url, str(tmp_path / "pipeline.yaml"), str(folder)]
    environment = {**os.environ, "RAGKIT_CACHE": str(tmp_path / "cache-killed")}
    with subprocess.Popen(arguments, env=environment) as run:
        while len(service.requests) < 5:
            time.sleep(0.01)
        run.kill()
    time.sleep(1)
    report = index(database_url, folder)
    assert report.embedded < NOTES
    # lost with the run: a request that was answered and not saved yet, and the next one under way
    assert len(answered_twice(service)) <= 2 * 16
    assert_same_as_a_directory(database_url, folder, tmp_path)


@pytest.mark.slow
def test_lost_connections_of_workers_and_of_the_run_are_opened_again(
    workers: Workers, database_url: str, folder: Path, service: WireServer, tmp_path: Path
) -> None:
    url = DatabaseUrl.parse(database_url)
    kills: list[int] = []

    def disconnect(event: object) -> None:
        if isinstance(event, TextsEmbedded) and len(kills) < 3:
            with psycopg.connect(url.dsn, autocommit=True, application_name="test") as connection:
                query = (
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ragkit'"
                    " AND state = 'idle' AND (query LIKE '%%batches%%' OR query LIKE '%%COMMIT%%')"
                )
                kills.append(len(connection.execute(query).fetchall()))

    report = index(database_url, folder, on_event=disconnect)
    assert sum(kills) > 0
    assert (report.files["added"], report.files["failed"]) == (NOTES, 0)
    assert_same_as_a_directory(database_url, folder, tmp_path)


def test_a_batch_that_workers_cannot_embed_is_an_error_of_the_run(
    database_url: str, folder: Path, service: WireServer
) -> None:
    service.faults = lambda number, request: Fault("status", 400, "no such model") if number > 20 else None
    url = DatabaseUrl.parse(database_url)
    stop_event = threading.Event()
    with EmbeddingWorker(url, components().embedder) if prepared(url) else pytest.fail() as worker:
        thread = threading.Thread(target=run_worker, args=(worker, stop_event))
        thread.start()
        try:
            with pytest.raises(ProviderError, match="no such model"):
                index(database_url, folder)
        finally:
            stop_event.set()
            thread.join()
    service.faults = lambda number, request: None
    report = index(database_url, folder)
    assert report.embedded <= NOTES - 5 * 16
    assert answered_twice(service) == []


def prepared(url: DatabaseUrl) -> bool:
    with closing(PostgresCatalog(url)) as database:
        database.create()
    return True


def test_a_worker_of_another_embedder_takes_nothing_and_says_so(
    database_url: str, caplog: pytest.LogCaptureFixture, service: WireServer
) -> None:
    url = DatabaseUrl.parse(database_url)
    prepared(url)
    with closing(PostgresCatalog(url)) as database:
        queue_of(database).put([b"1" * 16], ["a text"])
        other = PipelineComponents(Pipeline.from_yaml("embed: {name: hashing}\n")).embedder
        with EmbeddingWorker(url, other) as worker:
            assert run_worker(worker, threading.Event(), 0.3) == 0
        assert queue_of(database).lease("me") is not None
    assert caplog.text.count("texts wait for the embedder") == 1


def test_a_batch_is_leased_to_one_worker_until_it_falls_silent(database_url: str, service: WireServer) -> None:
    url = DatabaseUrl.parse(f"{database_url.replace('lease=3', 'lease=1')}")
    prepared(url)
    with closing(PostgresCatalog(url)) as database:
        queue = queue_of(database)
        queue.put([b"1" * 16], ["a text"])
        batch = queue.lease("one")
        assert batch is not None
        assert (batch.texts, batch.hashes) == (["a text"], [b"1" * 16])
        for _ in range(4):
            queue.report("one")
            time.sleep(0.4)
            assert queue.lease("other") is None
        time.sleep(1)
        assert queue.lease("other") is not None
        queue.add_cost(batch, 10, 0.5)
        queue.finish(batch)
        queue.add_cost(batch, 2, 0.25)  # of the one that fell silent
        queue.finish(batch)
        finished = queue.take_finished(batch.key)
        assert finished is not None
        assert (finished.tokens, finished.cost_usd) == (12, 0.75)
        assert queue.take_finished(batch.key) is None


def test_a_batch_that_fails_again_and_again_is_left_to_the_run(database_url: str, service: WireServer) -> None:
    url = DatabaseUrl.parse(database_url)
    prepared(url)
    with closing(PostgresCatalog(url)) as database:
        queue = queue_of(database)
        queue.put([b"1" * 16], ["a text"])
        for _ in range(MAX_WORKER_TRIES):
            batch = queue.lease("one")
            assert batch is not None
            queue.fail(batch, "no such model")
        assert queue.lease("one") is None
        assert queue.lease("the run", is_writer=True) is not None


def share_notes(database: PostgresCatalog, count: int = 64) -> LeasedBatch:
    """Put a batch of so many texts into the queue of a new knowledge base."""
    database.create()
    texts = [f"Note {number}: hook {number * 7} holds the key of door {number}." for number in range(count)]
    hashes = [blake2b(text.encode(), digest_size=16).digest() for text in texts]
    return LeasedBatch(queue_of(database).put(hashes, texts), hashes, texts)


def requests_with_notes(service: WireServer) -> list[EmbeddingRequest]:
    return [request for request in service.requests if "Note" in request.texts[0]]


def take_lease(database: PostgresCatalog) -> None:
    """As a writer that found the lease of the other one expired, and has ended."""
    database.run(lambda c: c.execute("UPDATE ragkit SET token = token + 1, lease_until = NULL"))


def read_batch(database: PostgresCatalog, batch: LeasedBatch) -> Any:
    """Who works on it, whether it is finished, the tokens that were paid for it."""
    query = "SELECT worker, finished, tokens FROM batches WHERE key = %s"
    return database.run(lambda c: c.execute(query, (batch.key,)).fetchone())


def test_a_worker_that_lost_its_batch_to_another_one_stops(database_url: str, service: WireServer) -> None:
    url = DatabaseUrl.parse(database_url)
    with closing(PostgresCatalog(url)) as database:
        batch = share_notes(database)

        def take_over(number: int, request: EmbeddingRequest) -> Fault | None:
            if len(requests_with_notes(service)) == 2:
                query = "UPDATE batches SET worker = 'other', lease_until = clock_timestamp() + interval '1 hour'"
                database.run(lambda c: c.execute(query))
            return None

        service.faults = take_over
        with EmbeddingWorker(url, components().embedder) as worker:
            worker.work()
        assert len(requests_with_notes(service)) == 2
        # it keeps what was under way, and tells its cost
        assert len(database.find_vectors(components().embedder.fingerprint, batch.hashes)) == 2 * 16
        assert read_batch(database, batch) == ("other", False, service.tokens)


def test_a_worker_stops_when_the_run_has_ended(database_url: str, service: WireServer) -> None:
    url = DatabaseUrl.parse(database_url)
    with closing(PostgresCatalog(url)) as database:
        batch = share_notes(database)

        def clear(number: int, request: EmbeddingRequest) -> Fault | None:
            if len(requests_with_notes(service)) == 3:
                queue_of(database).clear()
            return None

        service.faults = clear
        with EmbeddingWorker(url, components().embedder) as worker:
            worker.work()
            assert worker.work() == 0
        assert len(requests_with_notes(service)) == 3
        assert len(database.find_vectors(components().embedder.fingerprint, batch.hashes)) == 3 * 16
    assert tokens_in_ledger(database_url) == service.tokens  # no run takes the batch and tells its cost


def test_a_worker_does_not_embed_what_another_one_stored_meanwhile(database_url: str, service: WireServer) -> None:
    url = DatabaseUrl.parse(database_url)
    with closing(PostgresCatalog(url)) as database:
        batch = share_notes(database)
        stored = batch.hashes[20:40]

        def store(number: int, request: EmbeddingRequest) -> Fault | None:
            if len(requests_with_notes(service)) == 1:
                rows = np.eye(len(stored), 48, dtype=np.float32)
                state = EmbedderState(components().embedder.fingerprint, 48, None)
                database.save_vectors(state, stored, rows)
            return None

        service.faults = store
        with EmbeddingWorker(url, components().embedder) as worker:
            worker.work()
        sent = [text for request in requests_with_notes(service) for text in request.texts]
        assert sorted(sent) == sorted(batch.texts[:20] + batch.texts[40:])
        assert read_batch(database, batch) == (None, True, service.tokens)


def test_what_was_paid_for_a_batch_that_failed_is_counted(database_url: str, service: WireServer) -> None:
    url = DatabaseUrl.parse(database_url)

    def fail_third(number: int, request: EmbeddingRequest) -> Fault | None:
        return Fault("status", 400, "no such model") if len(requests_with_notes(service)) == 3 else None

    service.faults = fail_third
    with closing(PostgresCatalog(url)) as database:
        batch = share_notes(database)
        with EmbeddingWorker(url, components().embedder) as worker:
            with pytest.raises(ProviderError, match="no such model"):
                worker.work()
            paid = service.tokens
            assert read_batch(database, batch) == (None, False, paid)
            assert worker.work() == 64
        assert read_batch(database, batch) == (None, True, service.tokens)
        assert service.tokens > paid > 0
    assert tokens_in_ledger(database_url) == service.tokens
    assert answered_twice(service) == []


def test_a_run_that_cannot_start_leaves_no_worker(
    database_url: str, folder: Path, service: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(queue: EmbeddingQueue) -> None:
        raise DatabaseFailed(database_url, "the connection was lost", "try again")

    before = set(threading.enumerate())
    monkeypatch.setattr(EmbeddingQueue, "clear", fail)
    with pytest.raises(DatabaseFailed, match="the connection was lost"):
        index(database_url, folder)
    assert "ragkit-worker" not in {thread.name for thread in set(threading.enumerate()) - before}
    monkeypatch.undo()
    with closing(PostgresCatalog(DatabaseUrl.parse(database_url))) as database:
        assert queue_of(database).count_workers() == 0


def test_a_run_that_lost_its_lease_embeds_nothing_more(database_url: str, folder: Path, service: WireServer) -> None:
    url = DatabaseUrl.parse(database_url)

    def take_over(number: int, request: EmbeddingRequest) -> Fault | None:
        if len(requests_with_notes(service)) == 3:
            with closing(PostgresCatalog(url)) as database:
                take_lease(database)
        return Fault("slow", seconds=0.3)

    service.faults = take_over
    with pytest.raises(KnowledgeBaseLocked, match="which took over"):
        index(database_url, folder)
    sent = len(requests_with_notes(service))
    assert sent <= 4  # the fourth was sent when the answer to the third one was stored
    service.faults = lambda number, request: None
    assert index(database_url, folder).embedded == NOTES - 16 * sent
    assert answered_twice(service) == []


def test_a_run_that_lost_its_lease_ends_and_leaves_the_batches_of_the_other_one(
    database_url: str, folder: Path, service: WireServer
) -> None:
    url = DatabaseUrl.parse(database_url)
    with closing(PostgresCatalog(url)) as database:
        database.create()
        of_the_other: list[LeasedBatch] = []

        def take_over(number: int, request: EmbeddingRequest) -> Fault | None:
            if len(requests_with_notes(service)) == 2 and not of_the_other:
                take_lease(database)
                queue_of(database).clear()
                of_the_other.append(share_notes(database))
            return None

        service.faults = take_over
        with EmbeddingWorker(url, components().embedder):  # so that the run shares its texts
            with pytest.raises(KnowledgeBaseLocked, match="which took over"):
                index(database_url, folder)
            assert len(requests_with_notes(service)) == 2
            assert read_batch(database, of_the_other[0]) == (None, False, 0)
