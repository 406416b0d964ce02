"""A web site in this process, for tests: pages with ETags, counted requests, and errors on demand."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Site:
    """The pages of the site by path, and what was asked of it."""

    def __init__(self) -> None:
        self.url = ""
        self.pages: dict[str, tuple[str, str]] = {}
        """Path -> (media type, text)."""
        self.errors: dict[str, int] = {}
        """Path -> the status of every answer."""
        self.bodies: Counter[str] = Counter()
        """Path -> how often its body was sent."""
        self.requests: Counter[str] = Counter()
        self.with_etags = True

    def put(self, path: str, text: str, media_type: str = "text/html; charset=utf-8") -> None:
        """Add or replace a page."""
        self.pages[path] = (media_type, text)

    def fetched(self, *, but: tuple[str, ...] = ()) -> list[str]:
        """The pages whose bodies were sent since the last call, sorted."""
        sent = sorted(path for path in self.bodies if path not in but)
        self.bodies.clear()
        return sent


@contextmanager
def serve() -> Iterator[Site]:
    """A site on a free port of this machine."""
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.requests[self.path] += 1
            kind, text = site.pages.get(self.path, ("", ""))
            status = site.errors.get(self.path, 200 if kind else 404)
            body = text.encode() if status == 200 else b""
            etag = f'"{md5(body).hexdigest()}"'
            if status == 200 and site.with_etags and self.headers.get("If-None-Match") == etag:
                status, body = 304, b""
            self.send_response(status)
            if status in (200, 304) and site.with_etags:
                self.send_header("ETag", etag)
            if status == 200:
                site.bodies[self.path] += 1
                self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()
