"""What was acknowledged stays: removals take what was seen when they were asked for, never what has its name later."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ragkit.index.catalog.lock import WriterLock
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests import reads
from tests.server.api.test_limits import code_of
from tests.server.conftest import HASHING
from tests.server.parts import limited, serving
from tests.server.state.test_replicas import replica
from tests.server.state.test_uploads import upload, wait_for_jobs

FIRST, SECOND = b"The otter sleeps in winter.\n", b"The badger digs in spring.\n"


@contextmanager
def jobs_wait(base: Path) -> Iterator[None]:
    """Another process writes to the knowledge base: jobs wait for the end of the block."""
    with WriterLock(base):
        yield


def listed(client: httpx2.Client) -> dict[str, str]:
    """The ids of the uploads that are listed, by name."""
    rows = client.get("/documents", params={"limit": 200}).json()["documents"]
    return {row["source"].partition("uploads/")[2]: row["id"] for row in rows if "uploads/" in row["source"]}


def texts(client: httpx2.Client) -> list[str]:
    """The uploads that a search finds."""
    body: dict[str, Any] = {"query": "otter badger winter spring", "mode": "lexical", "top_k": 50}
    hits = client.post("/v1/search", json=body).json()["hits"]
    return sorted(hit["text"].strip() for hit in hits if "uploads/" in hit["source"])


def expect(client: httpx2.Client, base: Path, content: bytes | None) -> None:
    """Wait for the jobs: the file, the list and the search have this content, or nothing."""
    assert {job["status"] for job in wait_for_jobs(client)} == {"done"}
    path = base / "uploads" / "plan.md"
    assert (path.read_bytes() if path.exists() else None) == content
    assert list(listed(client)) == (["plan.md"] if content else [])
    assert texts(client) == ([content.decode().strip()] if content else [])


@pytest.mark.parametrize("second", [SECOND, FIRST], ids=["another version", "the same content again"])
@pytest.mark.parametrize("what", ["document", "source"])
def test_what_is_uploaded_after_a_removal_stays(base: Path, second: bytes, what: str) -> None:
    with serving(base) as (_, client):
        upload(client, "plan.md", FIRST)
        wait_for_jobs(client)
        with jobs_wait(base):
            client.post("/jobs")
            key = client.get("/sources").json()["uploads"]["id"]
            path = f"/documents/{listed(client)['plan.md']}" if what == "document" else f"/sources/{key}"
            assert client.delete(path).status_code == 200
            assert upload(client, "plan.md", second).json()["replaced"] is True
        expect(client, base, second)
        [plan] = listed(client).values()
        client.delete(f"/documents/{plan}")
        expect(client, base, None)


def test_the_removal_of_an_earlier_version_leaves_the_file_that_took_its_place(base: Path) -> None:
    with serving(base) as (_, client):
        upload(client, "plan.md", FIRST)
        wait_for_jobs(client)
        seen = listed(client)["plan.md"]
        with jobs_wait(base):
            upload(client, "plan.md", SECOND)
            client.delete(f"/documents/{seen}")
        expect(client, base, SECOND)


def test_an_upload_after_a_removal_is_not_served_by_the_job_before_it(base: Path) -> None:
    with serving(base) as (_, client):
        upload(client, "plan.md", FIRST)
        wait_for_jobs(client)
        seen = listed(client)["plan.md"]
        with jobs_wait(base):
            jobs = [upload(client, "other.md").json()["job"]["id"] for _ in range(2)]
            client.delete(f"/documents/{seen}")
            jobs.append(upload(client, "plan.md", FIRST).json()["job"]["id"])
        assert jobs[2] not in jobs[:2]
        client.delete(f"/documents/{listed(client).get('other.md', 'none')}")
        wait_for_jobs(client)
        assert (base / "uploads" / "plan.md").read_bytes() == FIRST and "plan.md" in listed(client)


def test_a_file_that_was_changed_by_hand_is_not_deleted_for_the_one_that_was_seen(base: Path) -> None:
    with serving(base) as (_, client):
        upload(client, "plan.md", FIRST)
        wait_for_jobs(client)
        (base / "uploads" / "plan.md").write_bytes(SECOND)
        client.delete(f"/documents/{listed(client)['plan.md']}")
        wait_for_jobs(client)
        client.post("/jobs")
        expect(client, base, SECOND)


def test_uploads_keep_their_numbers_when_a_server_starts_again(base: Path) -> None:
    with serving(base) as (_, client):
        upload(client, "plan.md", FIRST)
        wait_for_jobs(client)
    with serving(base) as (_, client), jobs_wait(base):
        client.delete(f"/documents/{listed(client)['plan.md']}")
    with serving(base) as (_, client):
        expect(client, base, None)


def test_a_document_that_is_indexed_again_is_found_all_the_time(base: Path) -> None:
    with serving(base) as (_, client):
        upload(client, "plan.md", FIRST)
        wait_for_jobs(client)
        with jobs_wait(base):
            job = client.post(f"/documents/{listed(client)['plan.md']}/index").json()["id"]
            client.post(f"/jobs/{job}/cancel")
        assert [job["status"] for job in wait_for_jobs(client)] == ["cancelled", "done"]
        assert texts(client) == [FIRST.decode().strip()]


def test_servers_on_one_database_index_and_delete_the_uploads_of_each_other(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "garden.md").write_text("The hedge is cut in August.\n")
    with KnowledgeBase.open(database_url, Pipeline.from_yaml(HASHING)) as kb:
        kb.index(tmp_path / "docs")
    with ExitStack() as stack:
        servers = [replica(stack, tmp_path / name, database_url) for name in ("first", "second")]
        first, second = (stack.enter_context(server.client()) for server in servers)
        upload(first, "plan.md", FIRST)
        wait_for_jobs(second)
        with KnowledgeBase.open(database_url) as kb:
            assert [hit.text for hit in kb.search("otter", 1)] == [FIRST.decode().strip()]
            seen = reads.list_documents(kb, "", 10, "plan.md")[0].id
        [stored] = tmp_path.glob("first/**/plan.md")
        assert second.delete(f"/documents/{seen}").status_code in (200, 404)  # its copy may be a second behind
        while (plan := listed(first).get("plan.md")) is not None:
            second.delete(f"/documents/{plan}")
            wait_for_jobs(second)
        assert not stored.exists()
        first.post("/jobs")
        wait_for_jobs(first)
        assert listed(first) == {}


def test_a_source_that_is_added_again_between_two_removals_is_removed(base: Path) -> None:
    with serving(base) as (_, client):
        key = client.get("/sources").json()["sources"][0]["id"]
        with jobs_wait(base):
            client.post("/jobs", json={"dry_run": True})
            jobs = [client.delete(f"/sources/{key}"), client.post("/jobs"), client.delete(f"/sources/{key}")]
        assert len({job.json()["id"] for job in jobs}) == 3
        wait_for_jobs(client)
        assert client.get("/sources").json()["sources"] == []


def test_an_upload_without_room_for_its_job_is_not_stored(base: Path) -> None:
    with serving(base) as (_, client), jobs_wait(base):
        key = client.get("/sources").json()["sources"][0]["id"]
        started = []
        for _ in range(60):  # a removal stands between the others, which are one otherwise
            started += [client.post("/jobs", json={"sources": [key]}), client.delete(f"/sources/{key}")]
        assert [answer.status_code for answer in started] == [200] * 101 + [503, 200] * 9 + [503]
        assert code_of(upload(client, "plan.md", FIRST)) == (503, "overloaded")
        assert not (base / "uploads" / "plan.md").exists(), "what is refused is not stored"


def test_a_disk_that_is_almost_full_refuses_an_upload_before_it_is_sent(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = shutil.disk_usage(base)._replace(free=10**9)  # others write to the real one meanwhile
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk)
    with serving(base, settings=limited(free_disk_bytes=10**9 - 20_000_000)) as (_, client):
        refused = client.post(
            "/documents?name=large.md", content=b"x" * 40_000_000, headers={"content-length": str(40_000_000)}
        )
        assert code_of(refused) == (507, "disk_full")
        assert not (base / "uploads.partial").exists()
        assert upload(client, "small.md", FIRST, index="false").status_code == 200
