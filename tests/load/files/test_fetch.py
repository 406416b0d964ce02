"""Fetching a page: public addresses only, limited time and size, every redirect checked."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address

import pytest

from ragkit.errors import InvalidOption, LoadError, LoadLimitExceeded
from ragkit.load.document_loader import DocumentLoader
from ragkit.load.files.fetch import FetchOptions, FetchResult, fetch_url, is_public_address
from tests.load import sample_files

OPEN = FetchOptions(timeout_s=10, max_mb=1, allow_private=True)


class Site(BaseHTTPRequestHandler):
    """A web site with all kinds of responses."""

    protocol_version = "HTTP/1.1"
    requested_paths: list[str]

    def do_GET(self) -> None:
        self.requested_paths.append(self.path)
        name = self.path.split("?")[0].strip("/")
        getattr(self, f"page_{name}", self.page_missing)()

    def send(self, body: bytes, kind: str = "text/html", status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def page_hello(self) -> None:
        self.send("<h1>Grüße</h1>".encode(), "text/html; charset=utf-8")

    def page_report(self) -> None:
        self.send(sample_files.pdf([["words"]]), "application/pdf")

    def page_table(self) -> None:
        self.send(b"a,b\n1,2\n", "text/csv")

    def page_moved(self) -> None:
        self.send(b"", status=302, Location="/hello?from=moved")

    def page_round(self) -> None:
        self.send(b"", status=301, Location="/round")

    def page_file(self) -> None:
        self.send(b"", status=302, Location="file:///etc/passwd")

    def page_meta(self) -> None:
        self.send(b"", status=307, Location="http://169.254.169.254/latest/meta-data")

    def page_huge(self) -> None:
        self.send(b"x" * 2_000_000)

    def page_packed(self) -> None:
        self.send(b"\x1f\x8b\x08", Content_Encoding="gzip")

    def page_slow(self) -> None:
        self.send_response(200)
        self.end_headers()
        for _ in range(100):
            self.wfile.write(b"x")
            time.sleep(0.1)

    def page_missing(self) -> None:
        self.send(b"no", status=404)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


class Quiet(ThreadingHTTPServer):
    """Ignores clients that close the connection."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing."""


@pytest.fixture
def site() -> Iterator[str]:
    Site.requested_paths = []
    with Quiet(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_page_is_fetched_with_its_media_type(site: str) -> None:
    assert fetch_url(f"{site}/hello", OPEN) == FetchResult(f"{site}/hello", "<h1>Grüße</h1>".encode(), "text/html")


def test_redirects_are_followed(site: str) -> None:
    assert fetch_url(f"{site}/moved", OPEN).url == f"{site}/hello?from=moved"
    assert Site.requested_paths == ["/moved", "/hello?from=moved"]


def test_private_addresses_are_rejected_by_default(site: str) -> None:
    with pytest.raises(LoadError, match=r"127\.0\.0\.1 has a non-public address .*: set allow_private=True"):
        fetch_url(f"{site}/hello")
    assert Site.requested_paths == []


@pytest.mark.parametrize(
    "host",
    (
        *("127.0.0.1", "localhost", "0.0.0.0", "10.1.2.3", "192.168.0.1", "169.254.169.254", "[::1]", "127.1"),
        *("0177.0.0.1", "0x7f.1", "[::]", "[::ffff:7f00:1]", "[2002:7f00:1::]", "0"),
        *("2130706433", "0x7f000001", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[fe80::1]", "100.64.0.1"),
    ),
)
def test_every_spelling_of_a_private_address_is_rejected(host: str) -> None:
    with pytest.raises(LoadError, match="has a non-public address"):
        fetch_url(f"http://{host}:9/")


def test_a_redirect_to_a_private_address_is_not_followed(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragkit.load.files.fetch.is_public_address", lambda address: str(address) == "127.0.0.1")
    with pytest.raises(LoadError, match=r"169\.254\.169\.254 has a non-public address"):
        fetch_url(f"{site}/meta", FetchOptions(timeout_s=10))
    assert Site.requested_paths == ["/meta"]


def test_a_host_is_resolved_once_and_the_checked_address_is_used(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    port = int(site.rpartition(":")[2])
    answers = [[(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]]
    monkeypatch.setattr("ragkit.load.files.fetch.is_public_address", lambda address: True)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers.pop())  # a second lookup fails
    assert fetch_url(f"http://rebound.example:{port}/hello", FetchOptions(timeout_s=10)).media_type == "text/html"
    assert answers == []


def test_one_private_address_among_public_ones_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 80)) for host in ("8.8.8.8", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
    with pytest.raises(LoadError, match=r"mixed\.example has a non-public address \(10\.0\.0\.1\)"):
        fetch_url("http://mixed.example/")


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("::ffff:8.8.8.8", True),
        ("::ffff:10.0.0.1", False),
        ("2002:7f00:1::", False),
        ("64:ff9b::808:808", True),
        ("64:ff9b::a00:1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("fc00::1", False),
    ],
)
def test_an_embedded_address_is_checked(address: str, public: bool) -> None:
    assert is_public_address(ip_address(address)) is public


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("round", "more than 5 redirects"),
        ("file", "not an http or https URL"),
        ("packed", "the server sent an unrequested Content-Encoding"),
        ("nothing", "the server returned 404 Not Found"),
    ],
)
def test_an_error_response_is_an_error(site: str, page: str, reason: str) -> None:
    with pytest.raises(LoadError, match=reason):
        fetch_url(f"{site}/{page}", OPEN)


def test_a_response_above_the_limit_is_rejected(site: str) -> None:
    with pytest.raises(LoadLimitExceeded, match="larger than 1 MB: raise max_mb"):
        fetch_url(f"{site}/huge", OPEN)


def test_a_slow_response_times_out(site: str) -> None:
    started = time.monotonic()
    with pytest.raises(LoadLimitExceeded, match=r"timed out after 0\.5 seconds"):
        fetch_url(f"{site}/slow", FetchOptions(timeout_s=0.5, allow_private=True))
    assert time.monotonic() - started < 3


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://x.org/a", "gopher://x", "/etc/passwd", "http://", "http://[::1", "http://x:y/"]
)
def test_urls_of_other_schemes_are_rejected(url: str) -> None:
    with pytest.raises(LoadError, match="not an http or https URL: write it as https://host/path"):
        fetch_url(url, OPEN)


def test_a_url_with_a_password_is_rejected_without_showing_it() -> None:
    with pytest.raises(LoadError, match="the URL contains a password") as caught:
        fetch_url("http://ann:canary@example.org/", OPEN)
    assert "canary" not in str(caught.value)


def test_an_unreachable_host_is_an_error() -> None:
    with pytest.raises(LoadError, match="unreachable"):
        fetch_url("http://nowhere.invalid/", OPEN)
    with pytest.raises(LoadError, match=r"unreachable \(.*refused"):
        fetch_url("http://127.0.0.1:9/", OPEN)


def test_a_limit_of_zero_is_rejected() -> None:
    with pytest.raises(InvalidOption, match=r"timeout_s must be > 0 \(got 0\)"):
        FetchOptions(timeout_s=0)
    with pytest.raises(InvalidOption, match=r"max_mb must be > 0 \(got 0\)"):
        FetchOptions(max_mb=0)


@pytest.mark.parametrize(
    ("page", "text", "kind"), [("hello", "Grüße", "html"), ("report", "words", "pdf"), ("table", "a: 1; b: 2", "csv")]
)
def test_the_format_of_a_url_is_detected(site: str, page: str, text: str, kind: str) -> None:
    [document] = DocumentLoader.from_url(f"{site}/{page}", allow_private=True)
    assert (document.text, document.format, document.source) == (text, kind, f"{site}/{page}")
