"""Fuzz target of uploads: names, types and bodies of files that a server receives, and addresses of pages."""

from __future__ import annotations

import asyncio
import atexit
import os
import tempfile
from functools import cache
from pathlib import Path

import httpx2

from ragkit.errors import LoadError, UnsupportedFormat
from ragkit.index.sources.web_pages import is_url, normalize_url
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.load.detect import detect_loader
from ragkit.load.files.secret_files import has_private_key
from ragkit.load.options import ZipOptions
from ragkit.load.router import LoaderRoute, Router
from ragkit.pipeline.settings import Pipeline
from ragkit.server.http_errors import RequestRejected
from ragkit.server.settings import ServerLimits, ServerSettings
from ragkit.server.state.upload_names import MAX_NAME_BYTES, MAX_PARTS, safe_name
from ragkit.server.state.uploads import UploadFolder
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
MAX_NAME_CHARS = 2000
REFUSALS = (400, 415, 422)


@cache
def _server() -> tuple[httpx2.Client, UploadFolder]:
    """A server with an empty knowledge base, and its folder of uploads."""
    os.environ["XDG_CONFIG_HOME"] = place = tempfile.mkdtemp()
    kb = KnowledgeBase.open(Path(place) / "kb", Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n"))
    served = Served(kb, ServerSettings(port=0, limits=LIMITS))
    client = served.client()
    atexit.register(client.close)
    return client, served.app.state.service.uploads


@cache
def _archives() -> Router:
    return Router((LoaderRoute("archive", ZipOptions()),))


def uploads(data: bytes) -> None:
    """A file is stored under a safe name below the folder with the bytes that were sent, or refused in one line."""
    reader = Reader(data)
    kind, name = reader.choice(TYPES), reader.text()
    body = reader.bytes(reader.left)
    safe = _check_name(name)
    _check_url(name)
    _check_archive(body)
    client, uploaded = _server()
    try:
        answer = client.post("/documents", params={"name": name, "index": "false"}, content=body,
                             headers={"content-type": kind})  # fmt: skip
    except httpx2.InvalidURL:
        return  # longer than this client sends
    files = [path for path in uploaded.folder.rglob("*") if path.is_file()]
    if safe is None or not _is_indexable(name, kind, safe, body):
        assert answer.status_code in REFUSALS, (answer.status_code, answer.text)
        assert not files, files
        return
    assert answer.status_code == 200, (answer.status_code, answer.text)
    assert [path.relative_to(uploaded.folder).as_posix() for path in files] == [safe]
    assert files[0].read_bytes() == body
    asyncio.run(uploaded.delete_until(10**18))


def _is_indexable(name: str, kind: str, safe: str, body: bytes) -> bool:
    if len(name) > MAX_NAME_CHARS or kind.startswith("multipart/") or not body or has_private_key(body[:4096]):
        return False
    try:
        detect_loader(body, safe)
    except UnsupportedFormat:
        return False
    except LoadError:
        return True  # the job says that it is damaged
    return True


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
