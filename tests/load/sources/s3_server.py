"""An S3-compatible store in this process, for tests: signed requests, listings in pages, and errors on demand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote_plus, unquote, urlsplit

from ragkit.load.sources.s3 import S3Credentials, sign_request


@dataclass
class Bucket:
    """The bucket `manuals` in the region `eu-central-1`. Tests change it, also while a client lists it."""

    url: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    credentials: S3Credentials = field(default_factory=lambda: S3Credentials("key", "secret"))
    page_size: int = 5
    exists: bool = True
    errors: dict[str, int] = field(default_factory=dict)
    """Object, or '' for the listing -> the status of every answer."""
    bodies: list[str] = field(default_factory=list)
    """The objects that were sent."""
    on_page: Callable[[], None] = lambda: None
    """Called after each page of a listing."""

    def sent(self) -> list[str]:
        """The objects that were sent since the last call, sorted."""
        bodies, self.bodies = sorted(self.bodies), []
        return bodies

    def page(self, query: dict[str, list[str]]) -> bytes:
        """One page of a listing; its token is the last key of the page before."""
        prefix, after = query["prefix"][0] if "prefix" in query else "", query.get("continuation-token", [""])[0]
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        entries = "".join(
            f"<Contents><Key>{quote_plus(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>&quot;{md5(self.objects[key]).hexdigest()}&quot;</ETag><Size>{len(self.objects[key])}</Size></Contents>"
            for key in keys[: self.page_size]
        )
        more = len(keys) > self.page_size
        token = f"<NextContinuationToken>{keys[self.page_size - 1]}</NextContinuationToken>" if more else ""
        head = f"<EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>{token}"
        namespace = "http://s3.amazonaws.com/doc/2006-03-01/"
        return f"<ListBucketResult xmlns='{namespace}'>{head}{entries}</ListBucketResult>".encode()


@contextmanager
def serve() -> Iterator[Bucket]:
    """A store on a free port of this machine."""
    bucket = Bucket()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            key = unquote(urlsplit(self.path).path).removeprefix("/manuals/")
            if not self._is_signed():
                return self._answer(403)
            if not bucket.exists or (key and key not in bucket.objects):
                return self._answer(404)
            if key in bucket.errors:
                return self._answer(bucket.errors[key])
            if key:
                bucket.bodies.append(key)
                return self._answer(200, bucket.objects[key])
            query = parse_qs(urlsplit(self.path).query)
            assert query["list-type"] == ["2"]
            self._answer(200, bucket.page(query))
            return bucket.on_page()

        def _is_signed(self) -> bool:
            """Whether the signature is that of the request as it arrived."""
            now = datetime.strptime(self.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            url = f"http://{self.headers['host']}{self.path}"
            expected = sign_request(url, bucket.credentials, "eu-central-1", now)
            return self.headers["Authorization"] == expected["Authorization"]

        def _answer(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        bucket.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield bucket
        finally:
            server.shutdown()
            thread.join()
