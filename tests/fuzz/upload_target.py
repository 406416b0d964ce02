"""Fuzz target of uploads: names, types and bodies of files that a server receives, and addresses of pages."""

from __future__ import annotations

import atexit
import os
import tempfile
from functools import cache
from pathlib import Path

import httpx2

from ragkit.errors import LoadError
from ragkit.index.web_pages import is_url, normalize_url
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.load.options import ArchiveOptions
from ragkit.load.router import LoaderRoute, Router
from ragkit.pipeline.settings import Pipeline
from ragkit.server.http_errors import RequestRejected
from ragkit.server.settings import ServerLimits, ServerSettings
from ragkit.server.upload_names import MAX_NAME_BYTES, MAX_PARTS, safe_name
from tests.fuzz.reader import Reader
from tests.server.parts import Served

TYPES = (
    "application/octet-stream",
    "multipart/form-data; boundary=b",
    "text/plain",
    "application/zip",
    "",
    "a/b; \x7f",
)
LIMITS = ServerLimits(requests_per_minute=None)


@cache
def _server() -> tuple[httpx2.Client, Path]:
    """A server with an empty knowledge base, and its folder of uploads."""
    os.environ["XDG_CONFIG_HOME"] = place = tempfile.mkdtemp()
    kb = KnowledgeBase.open(Path(place) / "kb", Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n"))
    served = Served(kb, ServerSettings(port=0, limits=LIMITS))
    client = served.client()
    atexit.register(client.close)
    return client, kb.path / "uploads"


@cache
def _archives() -> Router:
    return Router((LoaderRoute("archive", ArchiveOptions()),))


def uploads(data: bytes) -> None:
    """A file is stored under a safe name below the folder with the bytes that were sent, or refused in one line."""
    reader = Reader(data)
    kind, name = reader.choice(TYPES), reader.text()
    body = reader.bytes(reader.left)
    safe = _check_name(name)
    _check_url(name)
    _check_archive(body)
    client, folder = _server()
    answer = client.post("/v1/documents", params={"name": name, "index": "false"}, content=body,
                         headers={"content-type": kind})  # fmt: skip
    files = [path for path in folder.rglob("*") if path.is_file()]
    if answer.status_code != 200:
        assert 400 <= answer.status_code < 500, (answer.status_code, answer.text)
        assert not files, files
        return
    assert safe and not kind.startswith("multipart/")
    assert [path.relative_to(folder).as_posix() for path in files] == [safe]
    assert files[0].read_bytes() == body
    files[0].unlink()


def _check_name(name: str) -> str | None:
    """Its safe name; None if it is refused."""
    try:
        safe = safe_name(name)
    except RequestRejected:
        return None
    parts = safe.split("/")
    assert 1 <= len(parts) <= MAX_PARTS
    for part in parts:
        assert part and not part.startswith((".", " ")) and not part.endswith((".", " ")), part
        assert len(part.encode()) <= MAX_NAME_BYTES
        assert not set(part) & set('\\<>:"|?*\0'), part
        assert part.isprintable(), part
    assert safe_name(safe) == safe, (safe, safe_name(safe))
    return safe


def _check_url(text: str) -> None:
    if not is_url(text):
        return
    try:
        url = normalize_url(text)
    except LoadError as error:
        assert "\n" not in error.reason
        return
    assert normalize_url(url) == url, (url, normalize_url(url))


def _check_archive(body: bytes) -> None:
    """The names of an archive's files stay below the archive."""
    try:
        _, document = _archives().load(body, "/x/a.zip")
    except LoadError as error:
        assert error.reason and "\n" not in error.reason, error.reason
        return
    for part in document.parts:
        assert part.source.startswith("/x/a.zip"), part.source
        assert ".." not in part.source.removeprefix("/x/a.zip").split("/"), part.source
