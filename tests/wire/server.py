"""An HTTP/1.1 server on loopback that answers with a script, logs what it was sent, and fails as it is told.

It knows nothing of any service: a `Dialect` says how a service's answers look on the wire.
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
class Called:
    """A tool call that a model makes."""

    name: str
    arguments: Mapping[str, Any]
    id: str = "call_1"


@dataclass(frozen=True)
class Turn:
    """What the model answers."""

    text: Sequence[str] = ()
    """In these pieces."""
    calls: Sequence[Called] = ()
    thought: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    stop: str = ""
    """The service's own word for why it stops; empty: its word for an answer that is complete."""
    arguments: str = ""
    """Arguments of the only call as they are written, where they are no JSON."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong with an answer. Without a status the answer is `turn`, and it goes wrong on its way."""

    status: int = 0
    message: str = "scripted"
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    turn: Turn = Turn(("hello",))
    first_byte_after_s: float = 0.0
    cut_after: int | None = None
    """Pieces that are sent before the connection is cut: in mid-stream, without an end."""
    half_after: int | None = None
    """Whole pieces that are sent; the next one is half of itself, and then the answer ends as if all were well."""
    stop_after: int | None = None
    """Pieces that are sent; then the answer ends as if all were well."""
    pause_s: float = 0.0
    """Between two pieces."""


@dataclass(frozen=True)
class Seen:
    """A request."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any
    """What its JSON says."""


class Dialect(Protocol):
    """How a service speaks."""

    def streams(self, seen: Seen) -> bool:
        """Whether a stream is asked for."""

    def wrong(self, seen: Seen) -> str:
        """What is wrong with the request, as the service would find; '' for nothing."""

    def whole(self, turn: Turn) -> Any:
        """An answer in one piece, as JSON."""

    def pieces(self, turn: Turn) -> list[bytes]:
        """An answer as a stream."""

    def refusal(self, fault: Fault) -> Any:
        """An error, as JSON."""

    stream_type: str
    """The media type of a stream."""


class WireServer:
    """Answers request number n with entry number n of `script`. Use it in `with`."""

    def __init__(self, dialect: Dialect, script: Sequence[Turn | Fault]) -> None:
        self.dialect, self.script = dialect, list(script)
        self.seen: list[Seen] = []
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

    def next(self, seen: Seen) -> Turn | Fault:
        """What is answered to a request."""
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
        """A client that is gone is no error; anything else is one of the server, and is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # handed on as it came

    def hang_up(self) -> None:
        """Close what clients keep open for their next request."""
        for one in list(self.connections):
            try:
                one.shutdown(socket.SHUT_RDWR)
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
        """Nothing: the requests are in `seen`."""

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        raw = self.rfile.read(length)
        if len(raw) < length:  # the client has hung up before it had said all
            self.close_connection = True
            return
        seen = Seen(self.path, {key.lower(): value for key, value in self.headers.items()}, json.loads(raw))
        entry = self.server.wire.next(seen)
        fault = entry if isinstance(entry, Fault) else Fault(turn=entry)
        time.sleep(fault.first_byte_after_s)
        try:
            self._answer(seen, fault)
        except OSError:
            self.server.wire.hung_up.set()
            self.close_connection = True

    def _answer(self, seen: Seen, fault: Fault) -> None:
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


def halves(text: str) -> list[str]:
    """A text in two pieces, as services cut arguments anywhere."""
    return [text[: len(text) // 2], text[len(text) // 2 :]]
