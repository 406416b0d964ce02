"""Sources on servers, S3, WebDAV, IMAP and PostgreSQL: what they may not lose, and not fetch twice."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psycopg
import pytest
from cheroot.wsgi import Server
from wsgidav.wsgidav_app import WsgiDAVApp

from ragkit.load.sources.s3 import S3Credentials, sign_request
from tests.cli.conftest import Ragkit, hashing, ragkit, workplace
from tests.knowledge_base.test_sources import configure, files, sources_of
from tests.load.sources import imap_server, s3_server
from tests.load.sources.imap_server import Mailbox
from tests.load.sources.s3_server import Bucket
from tests.servers.postgres import Postgres

__all__ = ["hashing", "ragkit", "workplace"]

MOTO_PYTHON = os.environ.get("RAGKIT_MOTO_PYTHON", ".venv-moto/bin/python")


def pump(number: int, text: str = "runs") -> str:
    return f"# Pump {number}\n\nPump {number} {text}."


# S3


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A store with twelve objects, listed in pages of five; ragkit.yaml names it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    with s3_server.serve() as found:
        found.objects = {f"docs/{number:02}.md": pump(number).encode() for number in range(12)}
        yield found


def configure_bucket(bucket: Bucket) -> None:
    place = f"bucket: manuals, prefix: docs, region: eu-central-1, endpoint: '{bucket.url}'"
    configure(f"  - {{name: s3, {place}}}\n")


def test_objects_of_a_bucket_are_fetched_by_etag(ragkit: Ragkit, workplace: Path, bucket: Bucket) -> None:
    configure_bucket(bucket)
    bucket.objects["docs/id_rsa"] = b"secret"
    first = ragkit("index", "--json")
    assert files(first) == {"added": 12, "skipped": 1}
    assert first.json["skipped"] == [{"source": "s3://manuals/docs/id_rsa", "reason": "looks like a secret"}]
    assert len(bucket.sent()) == 12
    bucket.objects["docs/00.md"] = pump(0, "was replaced").encode()
    bucket.objects["docs/new name.md"] = bucket.objects.pop("docs/01.md")
    del bucket.objects["docs/02.md"]
    assert files(ragkit("index", "--json")) == {"added": 1, "updated": 1, "removed": 2, "unchanged": 9, "skipped": 1}
    assert bucket.sent() == ["docs/00.md", "docs/new name.md"]
    [line] = ragkit("sources", "--json").lines
    assert (line["documents"], line["last_run"]["fetched"]) == (11, 2)
    assert "s3://manuals/docs/new%20name.md" in sources_of(ragkit)
    assert files(ragkit("index", "--json")) == {"unchanged": 11, "skipped": 1}
    assert bucket.sent() == []


def test_a_bucket_that_is_gone_empty_or_busy_loses_no_documents(
    ragkit: Ragkit, workplace: Path, bucket: Bucket
) -> None:
    configure_bucket(bucket)
    ragkit("index", "-q")
    bucket.sent()
    objects = dict(bucket.objects)
    for trouble in ("empty", "gone", "503", "503 after a page"):
        bucket.objects = {} if trouble == "empty" else dict(objects)
        bucket.exists = trouble != "gone"
        bucket.errors = {"": 503} if trouble == "503" else {}
        if trouble == "503 after a page":
            bucket.on_page = lambda: bucket.errors.update({"": 503})
        result = ragkit("index", "--accept-deletions", "--json", code=7)
        assert files(result) == {"unchanged": 12, "failed": 1}, trouble
    bucket.errors = {"docs/03.md": 503}
    bucket.on_page = lambda: None
    bucket.objects["docs/03.md"] = pump(3, "was replaced").encode()
    assert files(ragkit("index", "--json", code=7)) == {"unchanged": 12, "failed": 1}
    bucket.errors = {}
    assert files(ragkit("index", "--json")) == {"updated": 1, "unchanged": 11}
    assert bucket.sent() == ["docs/03.md"]


def test_an_object_that_is_renamed_while_the_bucket_is_listed_keeps_its_document(
    ragkit: Ragkit, workplace: Path, bucket: Bucket
) -> None:
    configure_bucket(bucket)
    ragkit("index", "-q")
    bucket.sent()

    def rename() -> None:  # to a name on a page that was listed already
        if "docs/11.md" in bucket.objects:
            bucket.objects["docs/00a.md"] = bucket.objects.pop("docs/11.md")

    bucket.on_page = rename
    assert files(ragkit("index", "--json")) == {"added": 1, "removed": 1, "unchanged": 11}
    assert bucket.sent() == ["docs/00a.md"]


@pytest.mark.slow
def test_1010_objects_of_moto_are_listed_and_fetched_by_etag(
    ragkit: Ragkit, workplace: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    python = request.config.rootpath / MOTO_PYTHON
    with moto(python) as url:
        put(url, "manuals")
        for number in range(1010):
            put(url, f"manuals/docs/{number}.md", pump(number).encode())
        configure(f"  - {{name: s3, bucket: manuals, prefix: docs, endpoint: '{url}'}}\n")
        assert files(ragkit("index", "--json")) == {"added": 1010}
        put(url, "manuals/docs/0.md", pump(0, "was replaced").encode())
        put(url, "manuals/docs/new%20name.md", pump(2000).encode())
        put(url, "manuals/docs/1.md", method="DELETE")
        assert files(ragkit("index", "--json")) == {"added": 1, "updated": 1, "removed": 1, "unchanged": 1008}
        assert ragkit("sources", "--json").lines[0]["last_run"]["fetched"] == 2


@contextmanager
def moto(python: Path) -> Iterator[str]:
    """The address of a moto server, in its own environment: it needs an older `python-dateutil` than other packages."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    code = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    process = subprocess.Popen([python, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def put(url: str, path: str, data: bytes = b"", method: str = "PUT") -> None:
    """Write or delete an object, or create a bucket."""
    headers = sign_request(f"{url}/{path}", S3Credentials("key", "secret"), "us-east-1", datetime.now(UTC))
    headers["Content-Type"] = "text/markdown"  # urllib's default is a form, whose body moto takes for its fields
    urllib.request.urlopen(urllib.request.Request(f"{url}/{path}", data, headers, method=method)).close()


# WebDAV


class Dav:
    """A WebDAV server, user `anna`: its folder, the bodies that it sent, and paths that it answers with 503."""

    def __init__(self, folder: Path) -> None:
        self.url = ""
        self.folder = folder
        folder.mkdir()
        self.bodies: Counter[str] = Counter()
        self.busy: set[str] = set()
        users = {"*": {"anna": {"password": "geheim"}}}
        self._application = WsgiDAVApp(
            {
                "provider_mapping": {"/": str(folder)},
                "simple_dc": {"user_mapping": users},
                "verbose": 0,
                "logging": {"enable": False},
            }
        )

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Answer a request."""
        path = unquote(environ["PATH_INFO"])
        if path in self.busy:
            start_response("503 Busy", [("Content-Length", "0")])
            return [b""]
        if environ["REQUEST_METHOD"] == "GET":
            self.bodies[path] += 1
        return self._application(environ, start_response)

    def sent(self) -> list[str]:
        """The files that were sent since the last call, sorted."""
        bodies = sorted(self.bodies)
        self.bodies.clear()
        return bodies


@pytest.fixture
def dav(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dav]:
    """A server with six files in two folders; ragkit.yaml names it."""
    monkeypatch.setenv("DAV_PASSWORD", "geheim")
    found = Dav(tmp_path / "dav")
    for name in ("sub dir", "other"):
        (found.folder / name).mkdir()
        for number in range(3):
            (found.folder / name / f"{number}.md").write_text(pump(number, f"is in {name}"))
    server = Server(("127.0.0.1", 0), found)
    server.prepare()
    thread = threading.Thread(target=server.serve)
    thread.start()
    found.url = f"http://127.0.0.1:{server.bind_addr[1]}/"
    try:
        yield found
    finally:
        server.stop()
        thread.join()


def configure_dav(dav: Dav) -> None:
    configure(f"  - {{name: webdav, url: '{dav.url}', user: anna, password_env: DAV_PASSWORD}}\n")


def test_files_of_a_webdav_folder_are_fetched_by_etag(
    ragkit: Ragkit, workplace: Path, dav: Dav, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_dav(dav)
    monkeypatch.delenv("DAV_PASSWORD")
    assert "DAV_PASSWORD is not set" in ragkit("index", "--json", code=7).json["failures"][0]["error"]
    monkeypatch.setenv("DAV_PASSWORD", "geheim")
    assert files(ragkit("index", "--json")) == {"added": 6}
    dav.sent()
    (dav.folder / "sub dir/0.md").rename(dav.folder / "zero.md")
    (dav.folder / "sub dir/1.md").write_text(pump(1, "was replaced"))
    assert files(ragkit("index", "--json")) == {"added": 1, "updated": 1, "removed": 1, "unchanged": 4}
    assert dav.sent() == ["/sub dir/1.md", "/zero.md"]
    assert f"{dav.url}zero.md" in sources_of(ragkit)
    monkeypatch.setenv("DAV_PASSWORD", "wrong")
    assert files(ragkit("index", "--json", code=7)) == {"unchanged": 6, "failed": 1}


def test_folders_of_webdav_that_answer_503_lose_no_documents(ragkit: Ragkit, workplace: Path, dav: Dav) -> None:
    configure_dav(dav)
    ragkit("index", "-q")
    dav.sent()
    (dav.folder / "sub dir/0.md").unlink()
    for busy in ("/", "/other/"):
        dav.busy = {busy}
        result = ragkit("index", "--accept-deletions", "--json", code=7)
        assert files(result) == {"unchanged": 6, "failed": 1}
    dav.busy = set()
    assert files(ragkit("index", "--json")) == {"removed": 1, "unchanged": 5}
    assert dav.sent() == []


# IMAP


def test_mails_of_an_imap_folder_are_fetched_once(
    ragkit: Ragkit, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "geheim")
    with imap_server.serve() as box:
        box.mails = {uid: f"Subject: Pump {uid}\r\n\r\nPump {uid} leaks.\r\n".encode() for uid in range(1, 10)}
        place = f"host: 127.0.0.1, port: {box.port}, tls: false, user: anna, password_env: MAIL_PASSWORD"
        configure(f"  - {{name: imap, {place}}}\n")
        assert files(ragkit("index", "--json")) == {"added": 9}
        [hit] = ragkit("search", "pump 3 leaks", "-k", "1", "--json").json["hits"]
        assert hit["source"] == "imap://anna@127.0.0.1/INBOX/7/3"
        box.sent()
        _lose_nothing(ragkit, box)
        del box.mails[2]
        box.deleted = {3}
        box.mails[20] = b"Subject: New\r\n\r\nA new gasket.\r\n"
        assert files(ragkit("index", "--json")) == {"added": 1, "removed": 2, "unchanged": 7}
        assert box.sent() == [20]
        assert box.read_only


def _lose_nothing(ragkit: Ragkit, box: Mailbox) -> None:
    """Runs in which the server fails, and one with an empty folder."""
    mails = dict(box.mails)
    for trouble in ("refused", "hangs up", "empty"):
        box.refused = "FETCH" if trouble == "refused" else ""
        box.mails = {} if trouble == "empty" else dict(mails)
        if trouble == "hangs up":
            box.mails = {30: b"Subject: x\r\n\r\nNew.\r\n", **mails}
            box.hang_up_after = 0
        assert files(ragkit("index", "--accept-deletions", "--json", code=7)) == {"unchanged": 9, "failed": 1}, trouble
    box.mails, box.hang_up_after = mails, None
    assert box.sent() == []


# PostgreSQL


def test_rows_of_a_postgresql_query_are_documents(ragkit: Ragkit, workplace: Path) -> None:
    server = Postgres()
    server.start()
    try:
        with psycopg.connect(server.dsn, autocommit=True) as database:
            database.execute("CREATE TABLE parts (id INT PRIMARY KEY, body TEXT, price NUMERIC, changed TIMESTAMPTZ)")
            for number in range(6):
                database.execute("INSERT INTO parts VALUES (%s, %s, %s, now())", (number, f"Valve {number}", number))
            columns = "query: SELECT * FROM parts, text: [body], metadata: [price], changed: changed"
            configure(f"  - {{name: sql, label: parts, database: '{server.dsn}', {columns}}}\n")
            assert files(ragkit("index", "--json")) == {"added": 6}
            database.execute("UPDATE parts SET body = 'Valve of steel', changed = now() WHERE id = 2")
            database.execute("DELETE FROM parts WHERE id = 0")
        assert files(ragkit("index", "--json")) == {"updated": 1, "removed": 1, "unchanged": 4}
        assert ragkit("sources", "--json").lines[0]["last_run"]["fetched"] == 1
    finally:
        server.stop()
