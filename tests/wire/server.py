"""A scripted HTTP/1.1 server on loopback that records requests and injects faults.

It is independent of services: a `Dialect` defines the wire format of a service.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol


@dataclass(frozen=True)
class ToolCallTurn:
    """A tool call of the model."""

    name: str
    arguments: Mapping[str, Any]
    id: str = "call_1"


@dataclass(frozen=True)
class Turn:
    """A turn of the model."""

    text: Sequence[str] = ()
    """The text, in chunks."""
    calls: Sequence[ToolCallTurn] = ()
    thought: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    stop: str = ""
    """The stop reason in the vocabulary of the service; empty: that of a complete answer."""
    arguments: str = ""
    """The raw arguments of the only call, if they are not valid JSON."""


@dataclass(frozen=True)
class Fault:
    """A fault of a response. Without a status, the transfer of `turn` fails."""

    status: int = 0
    message: str = "scripted"
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    turn: Turn = Turn(("hello",))
    first_byte_after_s: float = 0.0
    cut_after: int | None = None
    """Number of chunks after which the connection is closed without an end of the stream."""
    half_after: int | None = None
    """Number of complete chunks; then half a chunk is sent and the response ends regularly."""
    stop_after: int | None = None
    """Number of chunks after which the response ends regularly."""
    pause_s: float = 0.0
    """Seconds between two chunks."""


@dataclass(frozen=True)
class RecordedRequest:
    """A recorded request."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any
    """The parsed JSON."""


class Dialect(Protocol):
    """The wire format of a service."""

    def streams(self, seen: RecordedRequest) -> bool:
        """Whether the request asks for a stream."""

    def wrong(self, seen: RecordedRequest) -> str:
        """The service's validation error for the request; '' if it is valid."""

    def whole(self, turn: Turn) -> Any:
        """A complete response as JSON."""

    def pieces(self, turn: Turn) -> list[bytes]:
        """The chunks of a streamed response."""

    def refusal(self, fault: Fault) -> Any:
        """An error, as JSON."""

    stream_type: str
    """The media type of a stream."""


class WireServer:
    """Answers request number n with entry number n of `script`. Use it in `with`."""

    def __init__(self, dialect: Dialect, script: Sequence[Turn | Fault]) -> None:
        self.dialect, self.script = dialect, list(script)
        self.seen: list[RecordedRequest] = []
        self.hung_up = threading.Event()
        """Set when a client closes its connection in the middle of an answer."""
        self.lock = threading.Lock()
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> WireServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.hang_up()

    def next(self, seen: RecordedRequest) -> Turn | Fault:
        """The scripted turn or fault for a request."""
        with self.lock:
            self.seen.append(seen)
            wrong = self.dialect.wrong(seen)
            if wrong:
                return Fault(400, f"the test's server finds: {wrong}")
            if len(self.seen) > len(self.script):
                return Fault(400, f"the script has {len(self.script)} turns and was asked for one more")
            return self.script[len(self.seen) - 1]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, wire: WireServer) -> None:
        self.wire = wire
        self.connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A disconnected client is not an error; other exceptions are printed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # handed on as it came

    def hang_up(self) -> None:
        """Close the keep-alive connections of clients."""
        for item in list(self.connections):
            try:
                item.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.request)

    def finish(self) -> None:
        super().finish()
        self.server.connections.discard(self.request)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the requests are in `seen`."""

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        raw = self.rfile.read(length)
        if len(raw) < length:  # the client disconnected before the end of its request
            self.close_connection = True
            return
        seen = RecordedRequest(self.path, {key.lower(): value for key, value in self.headers.items()}, json.loads(raw))
        entry = self.server.wire.next(seen)
        fault = entry if isinstance(entry, Fault) else Fault(turn=entry)
        time.sleep(fault.first_byte_after_s)
        try:
            self._answer(seen, fault)
        except OSError:
            self.server.wire.hung_up.set()
            self.close_connection = True

    def _answer(self, seen: RecordedRequest, fault: Fault) -> None:
        dialect = self.server.wire.dialect
        if fault.status:
            self._whole(fault.status, dialect.refusal(fault), fault)
        elif dialect.streams(seen):
            self._stream(dialect.pieces(fault.turn), dialect.stream_type, fault)
        else:
            self._whole(200, dialect.whole(fault.turn), fault)

    def _whole(self, status: int, body: Any, fault: Fault) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if fault.half_after is not None:
            data = data[: len(data) // 2]
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if isinstance(body, bytes) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if fault.cut_after is not None:
            self.wfile.write(data[: len(data) // 2])
            self._cut()
            return
        self.wfile.write(data)

    def _stream(self, pieces: list[bytes], media_type: str, fault: Fault) -> None:
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, piece in enumerate(pieces):
            if fault.cut_after == number:
                self._cut()
                return
            if fault.stop_after == number:
                break
            if fault.half_after == number:
                self._chunk(piece[: len(piece) // 2])
                break
            self._chunk(piece)
            time.sleep(fault.pause_s)
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _cut(self) -> None:
        self.close_connection = True
        self.request.shutdown(socket.SHUT_RDWR)


def events(bodies: Sequence[tuple[str, Any]]) -> list[bytes]:
    """Server-sent events: (name or '', data)."""
    return [
        (f"event: {name}\n" if name else "").encode()
        + b"data: "
        + (data if isinstance(data, str) else json.dumps(data)).encode()
        + b"\n\n"
        for name, data in bodies
    ]


def split_in_half(text: str) -> list[str]:
    """A text in two parts: services split arguments anywhere."""
    return [text[: len(text) // 2], text[len(text) // 2 :]]
