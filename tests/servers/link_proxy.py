"""A TCP proxy in front of a server, which breaks its connections in the ways of networks."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

FAULTS = ("cut", "stall", "stall answers", "delay", "half-close", "reorder")
"""What `LinkProxy.fault` can be, beside "".

cut: connections are reset, and new ones too. stall: nothing passes, and nothing is closed. stall answers:
requests pass, answers do not. delay: each packet waits. half-close: the server's side ends its half. reorder:
connections are made in another order than they were asked for.
"""
DELAY_SECONDS = 0.15
KEEPALIVE_SECONDS = 15.0
"""After so long both ends of a vanished connection are closed: else PostgreSQL would keep them until it has no room."""


class LinkProxy:
    """Forwards connections on `port` to a Unix socket, or another address. A context manager."""

    def __init__(self, target: Path | tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self.fault = ""
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._waiting: list[socket.socket] = []
        self._all: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> LinkProxy:
        for work in (self._accept, self._connect_in_any_order):
            self._threads.append(threading.Thread(target=work, daemon=True))
            self._threads[-1].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()
        for end in self._all:
            _reset(end)

    def set_fault(self, fault: str) -> None:
        """Break the link so; "": mend it. Connections that stalled stay as they are: their packets are lost."""
        self.fault = fault
        with self._lock:
            pairs = list(self._pairs)
            if fault == "cut":
                self._pairs.clear()
            if not fault:  # a stalled connection that goes on would hide that nobody noticed
                self._pairs = []
        if fault == "cut":
            for pair in pairs:
                for end in pair:
                    _reset(end)
        elif fault == "half-close":
            for client, _ in pairs:
                with suppress(OSError):
                    client.shutdown(socket.SHUT_WR)

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._all.append(client)
            if self.fault == "cut":
                _reset(client)
            else:
                with self._lock:
                    self._waiting.append(client)

    def _connect_in_any_order(self) -> None:
        while not self._closed:
            time.sleep(DELAY_SECONDS if self.fault == "reorder" else 0.005)
            with self._lock:
                waiting, self._waiting = self._waiting, []
            if self.fault == "reorder":
                random.shuffle(waiting)
            for client in waiting:
                self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.socket(socket.AF_UNIX if isinstance(self._target, Path) else socket.AF_INET)
            self._all.append(server)
            server.connect(str(self._target) if isinstance(self._target, Path) else self._target)
        except OSError:
            _reset(client)
            return
        is_lost = threading.Event()
        with self._lock:
            self._pairs.append((client, server))
        for source, target, is_answer in ((client, server, False), (server, client, True)):
            forward = self._forward(source, target, is_lost, is_answer=is_answer)
            threading.Thread(target=forward, daemon=True).start()

    def _forward(
        self, source: socket.socket, target: socket.socket, is_lost: threading.Event, *, is_answer: bool
    ) -> Callable[[], None]:
        def run() -> None:
            with suppress(OSError):
                while data := source.recv(65536):
                    if self.fault == "delay":
                        time.sleep(DELAY_SECONDS)
                    if self.fault == "stall" or (self.fault == "stall answers" and is_answer):
                        is_lost.set()  # TCP would send it again; a machine that vanished does not
                    if is_lost.is_set() and (is_answer or self.fault != "stall answers"):
                        continue
                    target.sendall(data)
            if is_lost.is_set():  # nobody is told of the end of a connection that vanished: keepalives find out
                time.sleep(KEEPALIVE_SECONDS)
            for end in (source, target):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

        return run


def _reset(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        end.shutdown(socket.SHUT_RDWR)
    end.close()
