"""Jobs: progress, failures, cancellation, kills, confirmation of costs, order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from ragkit.index.progress import RunProgress
from ragkit.index.report import FileRead, PlanCreated, TextsEmbedded
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.server.state.jobs import JobProgress, JobStopped
from tests.server.api.test_limits import code_of, wait_until
from tests.server.conftest import HASHING
from tests.server.held_embedder import FILES, HELD, HeldEmbedder, held_embedder
from tests.server.parts import Served, events, limited, process, serving
from tests.server.state.test_uploads import upload, wait_for_jobs
from tests.wire_embed.server import WireServer


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldEmbedder]:
    """An embedder that answers when the test lets it."""
    with held_embedder(monkeypatch) as held:
        yield held


@pytest.fixture
def pond(base: Path, embedder: HeldEmbedder) -> Path:
    """A knowledge base of no documents for this embedder, with files in its folder of uploads."""
    path, empty = base.parent / "pond", base.parent / "empty"
    empty.mkdir()
    with KnowledgeBase.open(path, Pipeline.from_yaml(HELD)) as kb:
        kb.index(empty)
    folder = path / "uploads"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number}.md").write_text(f"# File {number}\n\nThe newt number {number} lives in the pond.\n")
    return path


def wait_for_progress(client: httpx2.Client, job: str, files_read: int = 264) -> None:
    """Wait until so many files were read: the job then waits for the embedder."""
    wait_until(lambda: (client.get(f"/jobs/{job}").json()["progress"] or {}).get("files_read") == files_read)


def test_the_progress_of_a_job_is_streamed_to_its_end(pond: Path, embedder: HeldEmbedder) -> None:
    with serving(pond) as (_, client):
        job = client.post("/jobs").json()["id"]
        received = []
        with client.stream("GET", f"/jobs/{job}/events") as stream:
            for name, data in events(stream):
                received.append((name, data))
                if data["progress"] and data["progress"]["files_read"] == 264:
                    embedder.answer(8)
                elif data["progress"] and data["progress"]["files_read"] == FILES:
                    embedder.release()
        assert [name for name, _ in received[:-1]] == ["progress"] * (len(received) - 1)
        name, last = received[-1]
        assert (name, last["status"], last["report"]["files"]["added"]) == ("done", "done", FILES)
        seen = [data["progress"]["files_read"] for _, data in received if data["progress"]]
        assert seen == sorted(seen) and {264, FILES} <= set(seen)
        assert last["progress"]["chunks"] == last["progress"]["embedded"] == FILES
        with client.stream("GET", f"/jobs/{job}/events") as stream:
            assert [name for name, _ in events(stream)] == ["done"]


def test_a_failing_file_is_explained_while_the_others_are_indexed(base: Path) -> None:
    with serving(base) as (_, client):
        upload(client, "broken.docx", b"PK\x03\x04 this is no archive", index="false")
        upload(client, "pond.md", index="false")
        client.post("/jobs")
        [job] = wait_for_jobs(client)
    [failure] = job["failures"]
    assert failure["source"].endswith("broken.docx")
    assert (bool(failure["error"]), bool(failure["hint"])) == (True, True)
    assert (job["report"]["files"]["added"], job["report"]["files"]["failed"]) == (1, 1)


def test_a_job_is_cancelled_and_resumed(pond: Path, embedder: HeldEmbedder) -> None:
    with serving(pond) as (_, client):
        job = client.post("/jobs").json()["id"]
        wait_for_progress(client, job)
        assert client.post(f"/jobs/{job}/cancel").json()["cancelling"] is True
        embedder.answer(8)
        [stopped] = wait_for_jobs(client)
        assert (stopped["status"], stopped["progress"]["files_read"]) == ("cancelled", 264)
        assert client.post(f"/jobs/{job}/resume").json()["status"] == "queued"
        embedder.release()
        [resumed] = wait_for_jobs(client)
        assert resumed["status"] == "done"
        assert client.get("/sources").json()["sources"][-1]["files"] == FILES
        assert code_of(client.post(f"/jobs/{job}/resume")) == (409, "job_not_ended")
    assert embedder.newts == [1] * FILES, "what was embedded before is kept"


def test_a_job_survives_the_kill_of_its_server(pond: Path, embedder: HeldEmbedder) -> None:
    with process(pond) as server, server.client() as client:
        job = client.post("/jobs").json()["id"]
        wait_for_progress(client, job)
        embedder.answer(8)
        wait_for_progress(client, job, FILES)
        server.kill()
    embedder.release()
    with process(pond) as again, again.client() as client:
        [resumed] = wait_for_jobs(client)
        assert (resumed["id"], resumed["status"], resumed["attempts"]) == (job, "done", 2)
        assert client.get("/sources").json()["sources"][-1]["files"] == FILES
        hit = client.post("/v1/search", json={"query": "newt number 123"}).json()["hits"][0]
        assert "123" in hit["text"]
    with KnowledgeBase.open(pond) as kb:
        assert kb.verify().is_sound


@pytest.mark.slow
def test_a_stopped_server_leaves_its_job_to_the_next_one(pond: Path, embedder: HeldEmbedder) -> None:
    with process(pond) as server, server.client() as client:
        job = client.post("/jobs").json()["id"]
        wait_for_progress(client, job)
        server.process.send_signal(signal.SIGTERM)
        embedder.release()
        log = server.stopped()
    assert server.process.returncode == 0
    assert "Traceback" not in log
    with process(pond) as again, again.client() as client:
        [resumed] = wait_for_jobs(client)
    assert (resumed["id"], resumed["status"]) == (job, "done")


def test_a_server_starts_without_a_knowledge_base_and_creates_one(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(HASHING)
    with process(tmp_path / "kb", "--config", str(tmp_path / "pipeline.yaml")) as server, server.client() as client:
        assert client.get("/health").status_code == 200
        assert code_of(client.get("/ready")) == (503, "knowledge_base_unavailable")
        assert client.get("/sources").json()["exists"] is False
        assert code_of(client.post("/jobs")) == (409, "no_source")
        assert code_of(client.post("/v1/search", json={"query": "x"})) == (503, "knowledge_base_unavailable")
        upload(client, "pond.md", b"The newt lives in the pond.\n")
        wait_for_jobs(client)
        wait_until(lambda: client.get("/ready").status_code == 200)
        answer = client.post("/chat", json={"message": "Where does the newt live?"}).json()
    assert answer["message"]["citations"][0]["source"].endswith("pond.md")


def test_a_folder_of_other_files_is_not_taken_for_an_empty_knowledge_base(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from ragkit.cli import cli
    from ragkit.errors import NotAKnowledgeBase

    (tmp_path / "photo.jpg").touch()
    result = CliRunner().invoke(cli, ["serve", "--kb", str(tmp_path), "--port", "0"])
    assert isinstance(result.exception, NotAKnowledgeBase)


def test_a_paid_embedder_is_estimated_and_confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = WireServer("openai")
    with wire.running():
        for name, value in wire.environment.items():
            monkeypatch.setenv(name, value)
        pipeline = Pipeline.from_yaml("embed: {name: openai, model: text-embedding-3-small}\n")
        served = Served(KnowledgeBase.open(tmp_path / "kb", pipeline), limited(index_usd=1e-6))
        try:
            with served.client() as client:
                upload(client, "pond.md", b"The newt lives in the pond. " * 100, index="false")
                client.post("/jobs", json={"dry_run": True})
                [estimated] = wait_for_jobs(client)
                assert (estimated["kind"], estimated["status"]) == ("dry_run", "done")
                assert 1e-6 < estimated["estimate_usd"] < 1e-3
                assert client.get("/sources").json()["exists"] is False
                job = client.post("/jobs").json()["id"]
                waiting = wait_for_jobs(client)[0]
                assert (waiting["status"], waiting["error"]["code"]) == ("needs_confirmation", "needs_confirmation")
                assert waiting["estimate_usd"] == pytest.approx(estimated["estimate_usd"])
                assert sum(wire.answered.values()) == 0
                client.post(f"/jobs/{job}/resume", json={"max_cost_usd": 0.5})
                assert wait_for_jobs(client)[0]["status"] == "done"
                assert sum(wire.answered.values()) > 0
        finally:
            served.stop()
            served.kb.close()


def test_a_document_is_indexed_again_although_it_has_not_changed(base: Path) -> None:
    with serving(base) as (_, client):
        upload(client, "pond.md")
        wait_for_jobs(client)
        rows = client.get("/documents").json()["documents"]
        [document] = [row for row in rows if row["source"].endswith("pond.md")]
        assert client.post(f"/documents/{document['id']}/index").status_code == 200
        job = wait_for_jobs(client)[0]
        assert job["report"]["files"]["updated"] == 1
        assert len(client.get("/documents").json()["documents"]) == len(rows)
        assert code_of(client.post("/documents/none/index")) == (404, "document_not_found")


def test_jobs_run_one_after_another_beside_another_writer(base: Path) -> None:
    with serving(base) as (_, client), KnowledgeBase.open(base) as other:
        from ragkit.index.catalog.lock import WriterLock

        with WriterLock(other.path):
            job = upload(client, "pond.md").json()["job"]["id"]
            wait_until(lambda: (client.get(f"/jobs/{job}").json()["progress"] or {}).get("phase") == "waiting")
            assert upload(client, "lake.md").json()["job"]["status"] == "queued"
            third = upload(client, "sea.md").json()["job"]
        jobs = wait_for_jobs(client)
    assert [item["status"] for item in jobs] == ["done", "done"]
    assert third["id"] == jobs[0]["id"], "a job that waits serves both uploads"


def test_searches_go_on_while_a_job_runs(pond: Path, embedder: HeldEmbedder) -> None:
    with serving(pond) as (_, client):
        job = client.post("/jobs").json()["id"]
        wait_for_progress(client, job)
        embedder.answer(8)
        wait_for_progress(client, job, FILES)
        for _ in range(4):
            assert client.post("/v1/search", json={"query": "what lives in the pond"}).json()["hits"]
        assert client.get(f"/jobs/{job}").json()["status"] == "running"
        embedder.release()
        assert wait_for_jobs(client)[0]["status"] == "done"


def test_the_remaining_time_is_estimated_from_files_and_chunks() -> None:
    now = 0.0
    progress = JobProgress(run=RunProgress(lambda: now))
    progress.handle_event(PlanCreated(10, 1000, 0))
    assert progress.to_json()["progress"]["seconds_left"] is None  # type: ignore[index,call-overload]
    for number in range(5):
        now += 2.0
        progress.handle_event(FileRead(f"{number}.md", 4, 100, pending_texts=4 * (number + 1)))
    now = 12.0
    progress.handle_event(TextsEmbedded(20, 100, 0))
    assert progress.to_json()["progress"]["seconds_left"] == 10  # type: ignore[index,call-overload]
    progress.stop.set()
    with pytest.raises(JobStopped, match="the job was stopped"):
        progress.handle_event(TextsEmbedded(1, 1, 0))
