"""A server that embeds texts in the wire format of a service, with injected faults. It counts its responses."""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Literal

from ragkit.embed.hashing import HashingEmbedder
from ragkit.embed.options import HashingOptions
from tests.wire_embed.dialects import DIALECTS, WIDTHS, EmbeddingRequest, tokens_of


@dataclass(frozen=True)
class Fault:
    """A fault of one request."""

    kind: Literal["status", "slow", "cut", "half", "half json"]
    """`cut`: the connection is closed without a byte; `half`: in the middle of the response; `half json`: the
    response is complete for HTTP, but its JSON is truncated."""
    status: int = 500
    message: str = "something went wrong"
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0


Faults = Callable[[int, EmbeddingRequest], Fault | None]
"""(number of the request from 1, request) -> fault, or None."""


class WireServer:
    """One service on a port of the loopback interface."""

    def __init__(self, service: str, faults: Faults = lambda number, request: None) -> None:
        self.dialect = DIALECTS[service]
        self.faults = faults
        self.requests: list[EmbeddingRequest] = []
        self.complaints: list[str] = []
        """Errors in requests."""
        self.answered: Counter[tuple[str, str]] = Counter()
        """(kind, text) -> number of complete responses."""
        self.bills: list[int] = []
        """Tokens of each completely answered request."""
        self.silent = Event()
        """While set, requests are read but not answered."""
        self.silent_after = 0
        """Number of requests after which the server stops responding; 0: never."""
        self.under_way = self.most_under_way = 0
        self._lock = Lock()
        self._rows: dict[int, HashingEmbedder] = {}

    @contextmanager
    def running(self) -> Iterator[WireServer]:
        """Serve in the background. Errors in requests are raised at the end."""
        http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        http.daemon_threads = True
        self.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield self
        finally:
            self.silent.clear()
            http.shutdown()
            http.server_close()
            thread.join()
        assert self.complaints == []

    @property
    def tokens(self) -> int:
        """Tokens of all completely answered requests."""
        return sum(self.bills)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for the SDK of the service."""
        return {name: value.format(url=self.url) for name, value in self.dialect.environment.items()}

    def begin(self, request: EmbeddingRequest) -> Fault | None:
        """Record a request; returns its fault."""
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
            if self.silent_after and number > self.silent_after:
                self.silent.set()
        return self.faults(number, request)

    def count(self, request: EmbeddingRequest) -> None:
        """Record a complete response."""
        with self._lock:
            self.answered.update((request.kind, text) for text in request.texts)
            self.bills.append(tokens_of(request.texts))

    def body(self, request: EmbeddingRequest) -> bytes:
        """The whole answer."""
        width = request.dimensions or WIDTHS.get(request.model, 48)
        with self._lock:
            embedder = self._rows.setdefault(width, HashingEmbedder(HashingOptions(width)))
        rows = embedder.embed_texts(request.texts)
        return json.dumps(self.dialect.answer(request, rows * 3, tokens_of(request.texts))).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                raw = self.rfile.read(length)
                if len(raw) < length:  # the client was killed
                    self.close_connection = True
                    return
                headers = {name.lower(): value for name, value in self.headers.items()}
                try:
                    request = server.dialect.read(self.path, headers, json.loads(raw))
                except (AssertionError, KeyError, ValueError) as error:
                    server.complaints.append(f"{self.path}: {error!r}")
                    self._send(400, server.dialect.failure(400, f"wrong request: {error}"))
                    return
                with server._lock:
                    server.under_way += 1
                    server.most_under_way = max(server.most_under_way, server.under_way)
                try:
                    self._answer(request)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True
                finally:
                    with server._lock:
                        server.under_way -= 1

            def _answer(self, request: EmbeddingRequest) -> None:
                fault = server.begin(request)
                if server.silent.is_set():
                    while server.silent.is_set():
                        time.sleep(0.01)
                    self.close_connection = True
                    return
                if fault is not None and fault.kind != "slow":
                    self._fail(request, fault)
                    return
                if fault is not None:
                    time.sleep(fault.seconds)
                # counted before it is sent, so that clients find it counted
                body = server.body(request)
                server.count(request)
                self._send_bytes(200, body)

            def _fail(self, request: EmbeddingRequest, fault: Fault) -> None:
                if fault.kind == "status":
                    self._send(fault.status, server.dialect.failure(fault.status, fault.message), fault.headers)
                    return
                body = server.body(request)
                half = body[: len(body) // 2]
                if fault.kind == "half json":
                    self._send_bytes(200, half)
                    return
                if fault.kind == "half":
                    self._head(200, len(body))
                    self.wfile.write(half)
                    self.wfile.flush()
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

            def _send(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
                self._send_bytes(status, json.dumps(body).encode(), headers)

            def _send_bytes(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
                self._head(status, len(body), headers)
                self.wfile.write(body)

            def _head(self, status: int, length: int, headers: Mapping[str, str] | None = None) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(length))
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        return Handler
