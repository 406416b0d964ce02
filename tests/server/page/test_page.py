"""The files of the web UI and their headers."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

import ragkit.server.page.static_files
from ragkit.server.page.static_files import MEDIA_TYPES, load_static_files, static_routes

STATIC = Path(ragkit.server.page.static_files.__file__).parent / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@pytest.fixture
def client() -> Iterator[TestClient]:
    """The routes of the page alone."""
    with TestClient(Starlette(routes=list(static_routes()))) as result:
        yield result


def test_every_file_is_sent_with_a_policy_that_blocks_external_resources(client: TestClient) -> None:
    for file in load_static_files():
        answer = client.get("/" if file.name == "index.html" else f"/static/{file.name}")
        assert answer.status_code == 200
        assert answer.content == next(STATIC.rglob(file.name)).read_bytes()
        assert answer.headers["content-security-policy"].startswith(POLICY)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-dns-prefetch-control"] == "off"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_files_are_cached_and_compressed(client: TestClient) -> None:
    first = client.get("/static/app.js", headers={"accept-encoding": "gzip"})
    assert first.headers["content-encoding"] == "gzip"
    [app] = [item for item in load_static_files() if item.name == "app.js"]
    assert gzip.decompress(app.gzip_body) == app.body == first.content
    again = client.get("/static/app.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/static/", "/static/../page.py", "/static/..%2fpage.py", "/static/%2e%2e/page.py", "/static/index.html/x"]
)
def test_only_the_files_of_the_page_are_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def text_files() -> list[Path]:
    """The files of the page but its face."""
    return [file for file in STATIC.rglob("*.*") if file.suffix in MEDIA_TYPES and file.suffix != ".woff2"]


def test_the_page_is_small() -> None:
    sizes = {file.name: len(file.gzip_body) for file in load_static_files()}
    languages = {name: size for name, size in sizes.items() if name.startswith("words-")}  # a browser loads one
    assert sum(sizes.values()) - sum(languages.values()) + max(languages.values()) < 120_000, sizes
    texts = [file for file in load_static_files() if file.name not in languages and file.media_type != "font/woff2"]
    assert max(len(file.body.splitlines()) for file in texts) <= 400


def test_the_page_has_no_inline_script_or_style_and_no_external_requests() -> None:
    index = (STATIC / "index.html").read_text("utf-8")
    assert not re.search(r"\s(style|on[a-z]+)\s*=", index)
    assert re.findall(r"<script(?![^>]*\ssrc=)", index) == []
    assert "<style" not in index
    for file in text_files():
        text = file.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert re.findall(r"(?:src|href|url\(|import|from)\W{0,3}(?:https?:)?//\w", text) == [], file.name


def test_no_string_is_parsed_as_html_or_script() -> None:
    sinks = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|setHTML"
        r"|\beval\b|new Function"
    )
    for file in STATIC.glob("*.js"):
        assert re.findall(sinks, file.read_text("utf-8")) == [], file.name


def test_every_referenced_file_exists() -> None:
    names = {file.name for file in load_static_files()}
    for file in text_files():
        for name in re.findall(r'(?:from "\./|static/)([a-z]+\.[a-z]+)', file.read_text("utf-8")):
            assert name in names, f"{file.name} names {name}"
