"""`ragkit index URL`: web pages as sources."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.conftest import HASHING, Ragkit

OPEN = ("--set", "load.allow_private=true")


class Pages(BaseHTTPRequestHandler):
    """A web server with the pages of a test."""

    pages: dict[str, tuple[str, str]]

    def do_GET(self) -> None:
        kind, text = self.pages.get(self.path, ("text/plain", ""))
        self.send_response(200 if text else 404)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def site() -> Iterator[str]:
    Pages.pages = {
        "/guide?page=1": (
            "text/html; charset=utf-8",
            "<h1>Retries</h1><p>A request is sent again after two seconds.</p>",
        ),
        "/notes.md": ("text/plain", "# Keys\n\nThe key is read from ACME_KEY.\n"),
    }
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_page_is_searched_shown_cited_and_removed_by_its_url(ragkit: Ragkit, hashing: Path, site: str) -> None:
    url = f"{site}/guide?page=1"
    report = ragkit("index", f"{url}#top", f"{site}/notes.md", *OPEN, "--json").json
    assert report["files"]["added"] == 2 and report["failures"] == []
    [first, *_] = ragkit("search", "sent again after two seconds", "--json").json["hits"]
    assert (first["source"], first["heading"]) == (url, ["Retries"])
    assert "two seconds" in ragkit("show", url).out
    answer = ragkit("ask", "When is a request sent again?", "--json").json
    assert url in {item["source"] for item in answer["citations"]}
    assert {(item["verified"], item["stale"]) for item in answer["citations"]} == {(True, False)}
    assert "sources changed" not in ragkit("search", "key").err
    assert ragkit("remove", url, "--json").json["removed"] == 1
    assert [row["source"] for row in ragkit("list", "--chunks", "--json").lines] == [f"{site}/notes.md"]
    assert [path.name for path in Path(".ragkit/web").iterdir()] == [
        f"http%3A%2F%2F127.0.0.1%3A{site[17:]}%2Fnotes.md=.md"
    ]


def test_only_a_page_that_changed_is_read_again(ragkit: Ragkit, hashing: Path, site: str) -> None:
    urls = (f"{site}/guide?page=1", f"{site}/notes.md")
    ragkit("index", *urls, *OPEN)
    again = ragkit("index", *urls, *OPEN, "--json").json
    assert again["files"]["unchanged"] == 2 and again["embedded"] == 0
    Pages.pages["/notes.md"] = ("text/plain", "# Keys\n\nThe key is read from ACME_TOKEN.\n")
    changed = ragkit("index", *urls, *OPEN, "--json").json
    assert (changed["files"]["updated"], changed["files"]["unchanged"]) == (1, 1)
    assert "ACME_TOKEN" in ragkit("show", urls[1]).out


def test_a_page_that_cannot_be_fetched_stays_unchanged(ragkit: Ragkit, hashing: Path, site: str) -> None:
    urls = (f"{site}/guide?page=1", f"{site}/notes.md")
    ragkit("index", *urls, *OPEN)
    del Pages.pages["/notes.md"]
    report = ragkit("index", *urls, f"{site}/never", *OPEN, "--json", code=7).json
    assert report["files"]["unchanged"] == 2 and report["files"]["removed"] == 0 and report["files"]["failed"] == 2
    assert [item["source"] for item in report["failures"]] == [urls[1], f"{site}/never"]
    assert {item["error"] for item in report["failures"]} == {"the server returned 404 Not Found"}
    assert "ACME_KEY" in ragkit("show", urls[1]).out


def test_a_page_on_a_private_address_is_not_fetched_unasked(ragkit: Ragkit, hashing: Path, site: str) -> None:
    result = ragkit("index", f"{site}/notes.md", code=7)
    assert "127.0.0.1 has a non-public address" in result.err + result.out
    assert "--set load.allow_private=true" in result.err + result.out


def test_a_dry_run_fetches_and_changes_nothing(ragkit: Ragkit, hashing: Path, site: str) -> None:
    url = f"{site}/notes.md"
    dry = ragkit("index", url, *OPEN, "--dry-run", "--json").json
    assert dry["files"]["added"] == 1 and not Path(".ragkit").exists()
    ragkit("index", url, *OPEN)
    Pages.pages["/notes.md"] = ("text/plain", "# Keys\n\nOther words.\n")
    dry = ragkit("index", url, *OPEN, "--dry-run", "--json").json
    assert dry["files"]["updated"] == 1
    assert "sources changed" not in ragkit("search", "key").err
    assert "ACME_KEY" in ragkit("show", url).out


def test_a_damaged_knowledge_base_is_built_again_from_the_copies(ragkit: Ragkit, hashing: Path, site: str) -> None:
    ragkit("index", f"{site}/notes.md", *OPEN)
    Pages.pages.clear()
    Path(".ragkit/index.sqlite").write_bytes(b"nothing")
    ragkit("verify", "--repair")
    assert [row["source"] for row in ragkit("list", "--chunks", "--json").lines] == [f"{site}/notes.md"]


def test_a_password_in_a_url_is_not_printed(ragkit: Ragkit, hashing: Path) -> None:
    refused = ragkit("index", "https://bob:hunter2@example.org/x", code=7)
    assert "https://bob:(hidden)@example.org/x: the URL contains a password" in refused.err
    as_json = ragkit("index", "https://bob:hunter2@example.org/x", "--json", code=7)
    assert as_json.json["failures"][0]["source"] == "https://bob:(hidden)@example.org/x"
    assert "hunter2" not in refused.out + refused.err + as_json.out + as_json.err


def test_watch_does_not_take_a_url(ragkit: Ragkit, hashing: Path) -> None:
    assert "does not support URLs" in ragkit("index", "https://example.org/", "--watch", code=2).err


def test_clear_deletes_the_copies_too(ragkit: Ragkit, hashing: Path, site: str) -> None:
    ragkit("index", f"{site}/notes.md", *OPEN)
    ragkit("clear", "--yes")
    assert not Path(".ragkit/web").exists()
    assert HASHING in Path("ragkit.yaml").read_text()
