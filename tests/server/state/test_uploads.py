"""Uploads: hostile names and contents, quotas, interrupted and killed uploads, who may change what."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ragkit.server.http_errors import RequestRejected
from ragkit.server.settings import ServerSettings
from ragkit.server.state.upload_names import MAX_NAME_BYTES, safe_name
from tests.server.api.test_limits import code_of, wait_until
from tests.server.hostile import NAMES, contents
from tests.server.parts import SECONDS, Served, limited, process, serving

TEXT = b"The newt lives in the pond.\n"
TOKENS = ("the-token-of-the-owner", "the-token-of-a-reader")


def upload(client: httpx2.Client, name: str, content: bytes | Iterator[bytes] = TEXT, **params: Any) -> httpx2.Response:
    return client.post("/documents", params={"name": name, **params}, content=content)


def wait_for_jobs(client: httpx2.Client) -> list[dict[str, Any]]:
    """Wait until all jobs have ended; latest first."""
    deadline = time.monotonic() + 2 * SECONDS
    while True:
        jobs: list[dict[str, Any]] = client.get("/jobs").json()["jobs"]
        if not [job for job in jobs if job["status"] in ("queued", "running")]:
            return jobs
        assert time.monotonic() < deadline, jobs[-1]
        time.sleep(0.05)


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_an_uploaded_file_is_indexed_found_and_deleted(base: Path) -> None:
    with serving(base) as (_, client):
        received = upload(client, "animals/newt.md").json()
        assert (received["name"], received["bytes"], received["replaced"]) == ("animals/newt.md", len(TEXT), False)
        [job] = wait_for_jobs(client)
        assert (job["id"], job["status"], job["report"]["files"]["added"]) == (received["job"]["id"], "done", 1)
        hit = client.post("/v1/search", json={"query": "newt", "top_k": 1}).json()["hits"][0]
        assert hit["text"] == TEXT.decode().strip()
        assert upload(client, "animals/newt.md", b"The newt sleeps in winter.").json()["replaced"] is True
        wait_for_jobs(client)
        hit = client.post("/v1/search", json={"query": "newt", "top_k": 1}).json()["hits"][0]
        assert hit["text"] == "The newt sleeps in winter."
        assert client.delete(f"/documents/{hit['document_id']}").json()["kind"] == "remove"
        wait_for_jobs(client)
        assert not [row for row in client.get("/documents").json()["documents"] if "newt" in row["source"]]
        assert client.get("/sources").json()["uploads"]["bytes"] == 0
    assert files_below(base / "uploads") == set()


@pytest.mark.parametrize("name", NAMES, ids=[ascii(name)[:40] for name in NAMES])
def test_hostile_names_stay_below_the_folder_of_uploads(name: str, tmp_path: Path) -> None:
    try:
        safe = safe_name(name)
    except RequestRejected as error:
        assert error.response.status == 400
        return
    folder = tmp_path / "kb" / "uploads"
    path = folder / safe
    path.parent.mkdir(parents=True)
    path.write_bytes(TEXT)
    assert path.resolve() == path and files_below(tmp_path) == {f"kb/uploads/{safe}"}
    parts = safe.split("/")
    assert all(0 < len(part.encode()) <= MAX_NAME_BYTES and part.isprintable() for part in parts)
    assert not [part for part in parts if part[0] in ".~ " or part[-1] in ". " or set(part) & set('<>:"|?*\\')]
    assert safe_name(safe) == safe


def test_hostile_names_over_http_leave_everything_else_alone(base: Path) -> None:
    with serving(base) as (_, client):
        before = files_below(base.parent) - {"kb/server.sqlite", "kb/server.sqlite-wal", "kb/server.sqlite-shm"}
        responses = [upload(client, name, index="false") for name in NAMES]
        assert {response.status_code for response in responses} <= {200, 400, 409}
        received = {response.json()["name"] for response in responses if response.status_code == 200}
        assert files_below(base / "uploads") == received
        added = {name for name in files_below(base.parent) - before if not name.startswith("kb/server.")}
        assert added == {f"kb/uploads/{name}" for name in received}
        assert client.get("/sources").json()["uploads"]["files"] == len(received)
    assert len(NAMES) >= 60


def test_hostile_contents_neither_run_nor_leave_their_folder_nor_stop_the_server(base: Path, tmp_path: Path) -> None:
    hostile = contents(tmp_path / "ran")
    assert len(hostile) >= 40
    with serving(base) as (_, client):
        statuses = {name: upload(client, name, data, index="false").status_code for name, data in hostile.items()}
        assert set(statuses.values()) <= {200, 400, 415}
        refused = {name for name, status in statuses.items() if status != 200}
        assert {"exe.pdf", "elf.txt", "pickle.txt", "bomb.gz", "archive.zip", "key.txt"} <= refused
        client.post("/jobs")
        [job] = wait_for_jobs(client)
        assert job["status"] == "done"
        assert {Path(failure["source"]).name for failure in job["failures"]} >= {"bomb.docx", "lol.docx"}
        assert all(failure["error"] for failure in job["failures"])
        stored = sum(path.stat().st_size for path in (base / "uploads").rglob("*"))
        assert stored <= sum(map(len, hostile.values())) and files_below(base / "uploads.partial") == set()
        for row in client.get("/documents", params={"limit": 200}).json()["documents"]:
            shown = client.get(f"/documents/{row['id']}")
            assert shown.headers["content-type"] == "application/json"
            assert "root:" not in shown.text
            for part in ("html", "pages/1", "file"):
                original = client.get(f"/documents/{row['id']}/{part}")
                assert original.status_code in (200, 404, 409, 415), original.text
                types = {"html": "application/json", "pages/1": "image/png", "file": "application/octet-stream"}
                if original.status_code == 200:
                    assert original.headers["content-type"] == types[part]
                    assert original.headers["x-content-type-options"] == "nosniff"
        assert client.get("/health").status_code == 200
    assert not (tmp_path / "ran").exists()
    assert not list(base.parent.rglob("evil*"))


def test_files_and_quotas_are_limited(base: Path) -> None:
    settings = limited(upload_bytes=1000, upload_files=3)
    with serving(base, settings=settings) as (served, client):
        object.__setattr__(served.app.state.service.uploads, "max_file_bytes", 600)
        assert code_of(upload(client, "a.md", b"x" * 601, index="false")) == (413, "request_too_large")
        assert code_of(upload(client, "a.md", iter([b"x" * 400] * 3), index="false")) == (413, "request_too_large")
        assert upload(client, "a.md", b"x" * 600, index="false").status_code == 200
        assert code_of(upload(client, "b.md", b"x" * 401, index="false")) == (507, "quota_exceeded")
        assert code_of(upload(client, "b.md", b"", index="false")) == (400, "empty")
        for name in ("b.md", "c.md"):
            assert upload(client, name, b"x", index="false").status_code == 200
        assert code_of(upload(client, "d.md", b"x", index="false")) == (507, "quota_exceeded")
        assert code_of(upload(client, "a.md/b.md", b"x", index="false")) == (507, "quota_exceeded")
        usage = client.get("/sources").json()["uploads"]
        assert (usage["files"], usage["bytes"]) == (3, 602)
    assert files_below(base / "uploads") == {"a.md", "b.md", "c.md"}


def test_a_full_disk_refuses_uploads(base: Path) -> None:
    with serving(base, settings=limited(free_disk_bytes=10**18)) as (_, client):
        assert code_of(upload(client, "a.md")) == (507, "disk_full")
        assert client.get("/sources").json()["uploads"]["bytes"] == 0
    assert files_below(base / "uploads.partial") == set()


def test_uploads_at_the_same_time_keep_the_quota(base: Path) -> None:
    statuses: list[int] = []

    def send(served: Served, number: int) -> None:
        with served.client() as client:
            statuses.append(upload(client, f"{number}.md", b"x" * 1000, index="false").status_code)

    with serving(base, settings=limited(upload_bytes=5500, max_uploads=64)) as (served, _):
        threads = [threading.Thread(target=send, args=(served, number)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
    assert sorted(statuses) == [200] * 5 + [507] * 15
    assert len(files_below(base / "uploads")) == 5


@pytest.mark.parametrize("name", ["e\u200d\u0301.txt", "~.~a.txt", "a\u200b. /b.txt", "\u1100\u200d\u1161.txt"])
def test_a_safe_name_stays_as_it_is(name: str) -> None:
    assert safe_name(safe_name(name)) == safe_name(name)


def test_a_name_cannot_be_a_file_and_a_folder(base: Path) -> None:
    with serving(base) as (_, client):
        assert upload(client, "a.md", index="false").status_code == 200
        assert code_of(upload(client, "a.md/b.md", index="false")) == (409, "name_taken")
        assert upload(client, "c/d.md", index="false").status_code == 200
        assert code_of(upload(client, "c", index="false")) == (409, "name_taken")


def test_links_in_the_folder_of_uploads_lead_nowhere(base: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (base / "uploads").mkdir()
    (base / "uploads" / "link").symlink_to(outside)
    with serving(base) as (_, client):
        assert code_of(upload(client, "link/a.md", index="false")) == (409, "name_taken")
    assert list(outside.iterdir()) == []


def start_upload(address: tuple[str, int], length: int) -> socket.socket:
    """An upload of which half is sent."""
    sock = socket.create_connection(address, timeout=SECONDS)
    head = f"POST /documents?name=half.md HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n"
    sock.sendall(head.encode() + b"x" * (length // 2))
    return sock


def test_an_interrupted_upload_leaves_nothing(base: Path) -> None:
    with serving(base) as (served, client):
        sock = start_upload(served.address, 5_000_000)
        wait_until(lambda: files_below(base / "uploads.partial") != set())
        sock.close()
        wait_until(lambda: client.get("/sources").json()["uploads"]["bytes"] == 0)
    assert files_below(base / "uploads.partial") == files_below(base / "uploads") == set()


def test_a_slow_upload_is_ended(base: Path) -> None:
    with serving(base, settings=limited(body_seconds=0.3)) as (served, client):
        sock = start_upload(served.address, 5_000_000)
        assert b"408" in sock.recv(1000).split(b"\r\n")[0]
        sock.close()
        assert client.get("/sources").json()["uploads"]["bytes"] == 0


def test_a_server_killed_during_an_upload_leaves_nothing(base: Path) -> None:
    with process(base) as server:
        host, port = server.url.removeprefix("http://").split(":")
        sock = start_upload((host, int(port)), 5_000_000)
        wait_until(lambda: files_below(base / "uploads.partial") != set())
        server.kill()
        sock.close()
    assert files_below(base / "uploads") == set()
    with process(base) as again, again.client() as client:
        uploads = client.get("/sources").json()["uploads"]
        assert (uploads["files"], uploads["bytes"]) == (0, 0)
        assert files_below(base / "uploads.partial") == set()
        assert upload(client, "half.md").status_code == 200
        assert wait_for_jobs(client)[0]["status"] == "done"


def test_only_the_first_token_may_change_the_knowledge_base(base: Path) -> None:
    with serving(base, settings=ServerSettings(port=0, tokens=TOKENS)) as (_, client):
        owner, reader = ({"authorization": f"Bearer {token}"} for token in TOKENS)
        changes = [
            ("POST", "/documents?name=a.md"), ("DELETE", "/documents/x"), ("POST", "/documents/x/index"),
            ("POST", "/sources"), ("DELETE", "/sources/x"), ("POST", "/jobs"), ("POST", "/jobs/x/cancel"),
            ("POST", "/jobs/x/resume"),
        ]  # fmt: skip
        for method, path in changes:
            body = {"url": "http://x.example"} if (method, path) == ("POST", "/sources") else None
            assert client.request(method, path, json=body).status_code == 401
            assert code_of(client.request(method, path, headers=reader, json=body)) == (403, "not_owner")
        assert client.get("/sources", headers=reader).json()["can_change"] is False
        assert client.get("/jobs", headers=reader).json()["jobs"] == []
        assert client.get("/sources", headers=owner).json()["can_change"] is True
        assert client.post("/documents?name=a.md", content=TEXT, headers=owner).status_code == 200
        wait_until(lambda: client.get("/jobs", headers=owner).json()["jobs"][0]["status"] == "done")


def test_files_with_a_multipart_body_are_refused(base: Path) -> None:
    with serving(base) as (_, client):
        sent = client.post("/documents?name=a.md", files={"file": ("a.md", TEXT)})
        assert code_of(sent) == (415, "unsupported_type")


def test_folders_are_added_below_the_roots_of_the_start_only(base: Path, tmp_path: Path) -> None:
    (tmp_path / "root" / "notes").mkdir(parents=True)
    (tmp_path / "root" / "notes" / "pond.md").write_bytes(TEXT)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret.md").write_bytes(b"swordfish")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "other")
    rooted = replace(ServerSettings(port=0), roots=(str(tmp_path / "root"),))
    with serving(base, settings=rooted) as (_, client):
        assert client.get("/sources").json()["roots"] == [str(tmp_path / "root")]
        for path in ("other", "root/link", "root/../other", "root/none", "other/secret.md"):
            refused = client.post("/sources", json={"path": str(tmp_path / path)})
            assert code_of(refused) == (403, "path_not_allowed")
        for path in ("root/notes", "", "/", "a\0b", os.path.relpath(tmp_path / "root" / "notes")):
            assert code_of(client.post("/sources", json={"path": path})) == (403, "path_not_allowed")
        assert client.post("/sources", json={"path": str(tmp_path / "root" / "notes")}).status_code == 200
        assert wait_for_jobs(client)[0]["report"]["files"]["added"] == 1
        sources = client.get("/sources").json()["sources"]
        [added] = [source for source in sources if source["source"].endswith("root/notes")]
        assert (added["kind"], added["files"]) == ("path", 1)
        assert client.delete(f"/sources/{added['id']}").status_code == 200
        wait_for_jobs(client)
        assert len(client.get("/sources").json()["sources"]) == len(sources) - 1
    assert (tmp_path / "root" / "notes" / "pond.md").exists()
    with serving(base) as (_, client):
        assert code_of(client.post("/sources", json={"path": str(tmp_path)})) == (403, "path_not_allowed")
        assert code_of(client.post("/sources", json={"url": "file:///etc/passwd"})) == (400, "invalid_value")
        assert code_of(client.post("/sources", json={})) == (400, "invalid_value")


def test_a_url_of_this_machine_is_not_fetched(base: Path) -> None:
    with serving(base) as (served, client):
        assert client.post("/sources", json={"url": f"{served.url}/status"}).status_code == 200
        [job] = wait_for_jobs(client)
    assert [failure["error"] for failure in job["failures"]] != []
    assert "private" in str(job["failures"]) or "loopback" in str(job["failures"])
