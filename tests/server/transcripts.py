"""A proxy between a client and the server that writes what both send, as text.

RAGKIT_TRANSCRIPTS=DIR has the tests of clients write a file each, and `python -m tests.server.transcripts URL FILE`
stands before a server for any other client.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2

FOLDER = os.environ.get("RAGKIT_TRANSCRIPTS")
"""Read at once: knowledge bases of tests are without variables of ragkit."""
HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
SHOWN_HEADERS = {"content-type", "retry-after", "user-agent", "x-request-id"}
MAX_CHARS = 700
"""Characters of a string that are shown."""
MAX_ITEMS = 8
FIRST, LAST = 8, 6
"""Events of a stream that are shown."""


class Recorder:
    """A proxy on `url` for the server at `target`. A context manager."""

    def __init__(self, target: str, file: Path) -> None:
        self._target, self._file, self._lock = target, file, threading.Lock()
        self._number = 0
        file.parent.mkdir(parents=True, exist_ok=True)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                """Nothing."""

            def handle_any(handler: BaseHTTPRequestHandler) -> None:  # noqa: N805 - the recorder is `self`
                self._forward(handler)

            do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = do_OPTIONS = do_HEAD = handle_any  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Recorder:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _forward(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in HOP_BY_HOP}
        started, pieces = time.monotonic(), list[bytes]()
        with httpx2.stream(
            handler.command, f"{self._target}{handler.path}", content=body, headers=headers, timeout=600
        ) as response:
            handler.send_response(response.status_code)
            for name, value in response.headers.multi_items():
                if name.lower() not in HOP_BY_HOP:
                    handler.send_header(name, value)
            handler.send_header("connection", "close")
            handler.end_headers()
            first = 0.0
            for piece in response.iter_raw():
                first = first or time.monotonic() - started
                pieces.append(piece)
                handler.wfile.write(piece)
                handler.wfile.flush()
        handler.close_connection = True
        seconds = f"{first:.2f} s to the first byte, {time.monotonic() - started:.2f} s in all"
        with self._lock, self._file.open("a") as file:
            self._number += 1
            shown = "".join(f"{n}: {v}\n" for n, v in handler.headers.items() if n.lower() in SHOWN_HEADERS)
            file.write(f"===== {self._number}  {handler.command} {handler.path}\n{shown}{_shorten(body)}\n")
            shown = "".join(f"{n}: {v}\n" for n, v in response.headers.items() if n.lower() in SHOWN_HEADERS)
            file.write(f"----- {response.status_code} ({seconds})\n{shown}{_shorten(b''.join(pieces))}\n\n")


def _shorten(body: bytes) -> str:
    """A body of JSON indented, a stream as its first and last events, long strings and rows of numbers cut."""
    text = body.decode(errors="replace").strip()
    if text.startswith(("data: ", "event: ")):
        events = [_shorten_event(event) for event in re.split(r"\n\n+", text)]
        left_out = [f"... {len(events) - FIRST - LAST} more events ..."] if len(events) > FIRST + LAST else []
        return "\n".join([*events[:FIRST], *left_out, *events[max(FIRST, len(events) - LAST) :]])
    try:
        return json.dumps(_cut(json.loads(text)), indent=2, ensure_ascii=False)
    except ValueError:
        return text[:MAX_CHARS]


def _shorten_event(event: str) -> str:
    head, _, data = event.partition("data: ")
    try:
        return f"{head}data: {json.dumps(_cut(json.loads(data)), ensure_ascii=False)}"
    except ValueError:
        return event


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_CHARS:
        return f"{value[:MAX_CHARS]}... ({len(value)} characters)"
    if isinstance(value, list):
        left_out = [f"... ({len(value)} items)"] if len(value) > MAX_ITEMS else []
        shown = [*value[:3], *left_out, value[-1]] if left_out else value
        return [_cut(item) for item in shown]
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items()}
    return value


@contextmanager
def recorded(url: str, client: str) -> Iterator[str]:
    """The address that a client uses instead of `url`: of a recorder, if transcripts are wanted."""
    if not FOLDER:
        yield url
        return
    with Recorder(url, Path(FOLDER) / f"{client}.txt") as recorder:
        yield recorder.url


def _main(url: str, file: str) -> None:
    with Recorder(url, Path(file)) as recorder:
        sys.stdout.write(f"{recorder.url}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    _main(*sys.argv[1:])
