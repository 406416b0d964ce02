"""Editors neither overwrite, delete nor learn of what they may not read, and their jobs stand in nobody's way."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ragkit.cli.commands.serve import create_application
from ragkit.index.access.rules import User
from ragkit.index.access.tokens import create_token
from ragkit.index.catalog.lock import WriterLock
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server.settings import ServerLimits, ServerSettings
from tests.server.api.test_limits import code_of
from tests.server.parts import Served
from tests.server.state.test_uploads import upload, wait_for_jobs

SETTINGS = ServerSettings(port=0, limits=ServerLimits(requests_per_minute=None))
HIDDEN = b"---\naccess: [bob]\n---\n# Plans\n\nThe secret okapi house is built in June.\n"
OPEN = b"# Garden\n\nThe hedge is cut in May.\n"
MAIL = (
    b"From: a@example.org\nSubject: Hello\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n"
    b"--b\nContent-Type: text/plain\n\nThe letter comes with a plan.\n"
    b"--b\nContent-Type: text/markdown\nContent-Disposition: attachment; filename=plan.secret.md\n\n"
    b"The secret okapi plan.\n--b--\n"
)


@dataclass
class People:
    """An owner and two editors of one knowledge base."""

    base: Path
    owner: httpx2.Client
    eve: httpx2.Client
    ann: httpx2.Client


@pytest.fixture
def people(base: Path) -> Iterator[People]:
    """Eve and Ann are editors who may read what everyone may read; `*.secret.md` only Bob may."""
    tokens: dict[str, str] = {}
    with KnowledgeBase.open(base) as kb:
        settings = kb.location.access.read().with_rule("*.secret.md", ["user:bob"])
        for name in ("olga", "eve", "ann"):
            tokens[name], stored = create_token()
            settings = settings.with_user(User(name, (), "owner" if name == "olga" else "editor", (stored,)))
        kb.location.access.update(lambda _: settings)
        served = Served(kb, SETTINGS, create_application({"": kb}, SETTINGS))
        clients = [served.client(headers={"authorization": f"Bearer {tokens[n]}"}) for n in ("olga", "eve", "ann")]
        try:
            yield People(base, *clients)
        finally:
            for client in clients:
                client.close()
            served.stop()


def names(client: httpx2.Client) -> list[str]:
    """The uploads that a client sees."""
    rows = client.get("/documents", params={"limit": 200}).json()["documents"]
    return sorted(row["source"].partition("uploads/")[2] for row in rows if "uploads/" in row["source"])


def without_ids(answer: httpx2.Response) -> Any:
    """A response without what differs from one request to the next."""
    data = answer.json()
    return {**data, "job": {**(data["job"] or {}), "id": "", "created": ""}}


@pytest.mark.parametrize("name", ["plans.md", "x.secret.md", "hr/board.md"])
def test_an_upload_over_a_hidden_file_looks_like_one_where_there_is_none(people: People, name: str) -> None:
    with WriterLock(people.base):  # the answers show the same state of the jobs
        upload(people.owner, "any.md", OPEN)
        without = upload(people.ann, name, OPEN)
    wait_for_jobs(people.owner)
    upload(people.owner, name, HIDDEN)
    wait_for_jobs(people.owner)
    assert name not in names(people.eve)
    with WriterLock(people.base):
        upload(people.owner, "any.md", OPEN)
        over = upload(people.eve, name, OPEN)
    assert over.status_code == without.status_code == 200
    shown = json.loads(json.dumps(without_ids(without)).replace("@ann", "@eve"))
    assert without_ids(over) == shown and shown["replaced"] is False
    wait_for_jobs(people.owner)
    assert (people.base / "uploads" / name).read_bytes() == HIDDEN
    assert (people.base / "uploads" / "@eve" / name).read_bytes() == OPEN
    assert name in names(people.owner)


def test_an_editor_replaces_what_they_may_read(people: People) -> None:
    upload(people.owner, "garden.md", OPEN)
    wait_for_jobs(people.owner)
    sent = upload(people.eve, "garden.md", b"# Garden\n\nThe hedge is cut in June.\n").json()
    assert (sent["name"], sent["replaced"]) == ("garden.md", True)
    again = upload(people.eve, "other.md", OPEN).json()
    assert (again["name"], again["replaced"]) == ("@eve/other.md", False)
    wait_for_jobs(people.owner)
    assert upload(people.eve, "other.md", OPEN).json()["replaced"] is True
    wait_for_jobs(people.owner)
    assert names(people.ann) == ["@eve/other.md", "garden.md"]


def test_a_file_that_became_hidden_while_it_was_replaced_stays(people: People) -> None:
    upload(people.owner, "garden.md", OPEN)
    wait_for_jobs(people.owner)
    with WriterLock(people.base):
        upload(people.owner, "garden.md", HIDDEN)  # not indexed yet: its front matter is not known
        assert upload(people.eve, "garden.md", OPEN).json()["name"] == "@eve/garden.md"
    assert (people.base / "uploads" / "garden.md").read_bytes() == HIDDEN


def test_nobody_uploads_into_the_folder_of_another(people: People) -> None:
    sent = [upload(client, "@eve/a.md", OPEN, index="false").json()["name"] for client in (people.owner, people.ann)]
    assert sent == ["_@eve/a.md", "@ann/_@eve/a.md"]
    assert not (people.base / "uploads" / "@eve").exists()


def test_an_editor_removes_what_they_may_read_and_nothing_else(people: People) -> None:
    upload(people.owner, "plans.md", HIDDEN, index="false")
    upload(people.owner, "letter.eml", MAIL, index="false")
    upload(people.owner, "garden.md", OPEN)
    wait_for_jobs(people.owner)
    assert names(people.eve) == ["garden.md", "letter.eml"]
    rows = {row["source"]: row["id"] for row in people.owner.get("/documents").json()["documents"]}
    hidden = next(key for source, key in rows.items() if source.endswith("plans.md"))
    letter = next(key for source, key in rows.items() if source.endswith("letter.eml"))
    assert code_of(people.eve.delete(f"/documents/{hidden}")) == (404, "document_not_found")
    assert code_of(people.eve.delete(f"/documents/{letter}")) == (403, "not_owner")
    for source in people.eve.get("/sources").json()["sources"]:
        people.eve.delete(f"/sources/{source['id']}")
    wait_for_jobs(people.owner)
    left = people.owner.get("/documents").json()["documents"]
    assert names(people.eve) == ["letter.eml"]
    assert {row["source"].rpartition("/uploads/")[2] for row in left} == {
        "plans.md", "letter.eml", "letter.eml/plan.secret.md"
    }  # fmt: skip
    stored = {path.name for path in (people.base / "uploads").iterdir()}
    assert stored == {"plans.md", "letter.eml"}


def test_an_editor_sees_their_own_jobs_without_the_files_of_others(people: People) -> None:
    upload(people.owner, "okapi.docx", b"PK\x03\x04 this is no archive", index="false")
    owned = upload(people.owner, "plans.md", HIDDEN).json()["job"]["id"]
    wait_for_jobs(people.owner)
    upload(people.eve, "broken.docx", b"PK\x03\x04 this is no archive", index="false")
    people.eve.post("/jobs", json={"retry_failed": True})
    wait_for_jobs(people.owner)
    [job] = people.eve.get("/jobs").json()["jobs"]
    assert [failure["source"].rpartition("/")[2] for failure in job["failures"]] == ["broken.docx"]
    assert (job["report"], job["progress"]) == (None, None)
    for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel"), ("POST", "/resume")):
        assert code_of(people.eve.request(method, f"/jobs/{owned}{path}")) == (404, "job_not_found")
    for path in ("/jobs", f"/jobs/{job['id']}", f"/jobs/{job['id']}/events", "/sources", "/status", "/documents"):
        assert "okapi" not in people.eve.get(path).text and "plans" not in people.eve.get(path).text
    assert people.eve.get("/sources").json()["uploads"]["files"] == 1
    assert people.owner.get("/sources").json()["uploads"]["files"] == 3
    assert len(people.owner.get("/jobs").json()["jobs"]) == 2


def test_the_queue_of_one_editor_blocks_nobody_else(people: People) -> None:
    with WriterLock(people.base):
        [key] = [source["id"] for source in people.eve.get("/sources").json()["sources"]]
        [row, *_] = people.eve.get("/documents").json()["documents"]
        asked = []
        for _ in range(60):
            asked += [people.eve.post("/jobs", json={"sources": [key]}), people.eve.delete(f"/documents/{row['id']}")]
        assert [answer.status_code for answer in asked] == [200] * 101 + [503, 200] * 9 + [503]
        assert code_of(upload(people.eve, "a.md", OPEN)) == (503, "overloaded")
        assert upload(people.ann, "b.md", OPEN).status_code == 200
        sent = upload(people.owner, "c.md", OPEN).json()["job"]["id"]
    for _ in range(1000):
        if people.owner.get(f"/jobs/{sent}").json()["status"] == "done":
            break
        time.sleep(0.02)
    waiting = [job for job in people.owner.get("/jobs?limit=200").json()["jobs"] if job["status"] == "queued"]
    assert people.owner.get(f"/jobs/{sent}").json()["status"] == "done" and len(waiting) > 50, "people take turns"
    for job in waiting:
        people.owner.post(f"/jobs/{job['id']}/cancel")
    assert not (people.base / "uploads" / "@eve").exists()
