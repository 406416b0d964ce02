"""Runs the server: listening socket, uvicorn, worker processes."""

from __future__ import annotations

import os
import resource
import signal
import socket
import tempfile
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess

from ragkit.server.connections import ConnectionTable, LimitedProtocol
from ragkit.server.malloc_trim import limit_arenas
from ragkit.server.metrics import MULTIPROC_DIR_ENV
from ragkit.server.settings import ServerLimits, ServerSettings

BACKLOG = 2048
"""Maximum connections that wait to be accepted."""
WANTED_FILES = 16_384
"""Open files that the server allows itself, if its user may have so many."""
HEALTHCHECK_SECONDS = 30
"""How long a process of several may take to answer the one that started it."""
SHUTDOWN_MARGIN_S = 5.0
"""Seconds after the shutdown timeout of answers, to send the last responses."""


def create_socket(settings: ServerSettings) -> socket.socket:
    """The listening socket. Raises OSError if the address is in use or not of this machine."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # the protocol is named since asyncio turns off Nagle's algorithm for sockets of TCP only: with it, each response on
    # an open connection waits 40 ms for the acknowledgement of its headers
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # the kernel closes connections, and frees their buffers, if the client does not read in time
        milliseconds = round(settings.limits.send_seconds * 1000)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    try:
        sock.bind((settings.host, settings.port))
        sock.listen(BACKLOG)  # from now on, clients wait until the application is ready
    except OSError:
        sock.close()
        raise
    sock.set_inheritable(True)
    return sock


def socket_url(sock: socket.socket) -> str:
    """The URL of the server on a socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def create_config(app: ASGIApp, settings: ServerSettings) -> uvicorn.Config:
    """The uvicorn configuration for an application."""
    return uvicorn.Config(app, **_uvicorn_options(settings.limits))


def raise_file_limit() -> None:
    """Allow this process WANTED_FILES open files, or as many as its user may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, WANTED_FILES) if hard != resource.RLIM_INFINITY else WANTED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run(app: ASGIApp, settings: ServerSettings, sock: socket.socket, *, last: bool = False) -> int:
    """Serve in this process until SIGINT, SIGTERM or SIGHUP. Returns how many of them came.

    With `last`, the process exits afterwards, and further signals are ignored while it does.
    """
    limit_arenas()
    raise_file_limit()
    server, came = uvicorn.Server(create_config(app, settings)), list[int]()

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        server.should_exit = True

    # A signal may come before uvicorn handles signals. At the end, uvicorn raises the one that stopped it again, which
    # must not kill the process.
    previous = {number: signal.signal(number, stop) for number in stop_signals()}
    try:
        server.run(sockets=[sock])
    finally:
        for number, handler in previous.items():
            signal.signal(number, signal.SIG_IGN if last else handler)
    return len(came)


def run_workers(factory: str, settings: ServerSettings, sock: socket.socket, workers: int) -> None:
    """Serve with several processes. `factory` is the `module:function` that creates the application."""
    limit_arenas()
    raise_file_limit()  # its processes inherit it
    with tempfile.TemporaryDirectory(prefix="ragkit-metrics-") as directory:
        os.environ[MULTIPROC_DIR_ENV] = directory
        options = _uvicorn_options(settings.limits)
        # uvicorn kills a process that does not answer in time: one that starts on a busy machine is no dead one
        config = uvicorn.Config(
            factory, factory=True, workers=workers, timeout_worker_healthcheck=HEALTHCHECK_SECONDS, **options
        )
        _Workers(config, sockets=[sock]).run()


def stop_signals() -> list[signal.Signals]:
    """The signals that stop the server in good order: a closed terminal as well, unless `nohup` ignores that."""
    hangup = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *hangup]


class _Workers(Multiprocess):
    """uvicorn's supervisor. When it stops, it closes its own copy of the listening socket.

    Otherwise the kernel would go on to accept connections that no process serves. A closed terminal stops it.
    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        ignored = signal.SIGHUP not in stop_signals()
        super().__init__(config, sockets)
        if ignored:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def handle_hup(self) -> None:
        """Stop; uvicorn would start its processes again."""
        self.handle_term()

    def terminate_all(self) -> None:
        """Stop all processes."""
        for sock in self.sockets:
            sock.close()
        super().terminate_all()


def split_limits(limits: ServerLimits, workers: int, *, one_rate: bool = False) -> ServerLimits:
    """The limits of each of `workers` processes, so that together they keep `limits`.

    `one_rate`: they count requests together, in a database.
    """
    if workers == 1:
        return limits
    rate = limits.requests_per_minute
    return replace(
        limits,
        max_running=max(1, limits.max_running // workers),
        max_waiting=limits.max_waiting // workers,
        max_searches=max(1, limits.max_searches // workers),
        max_embeddings=max(1, limits.max_embeddings // workers),
        max_uploads=max(1, limits.max_uploads // workers),
        max_drawings=max(1, limits.max_drawings // workers),
        max_connections=max(1, limits.max_connections // workers),
        requests_per_minute=rate if one_rate or rate is None else max(1, rate // workers),
    )


def _file_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return WANTED_FILES if soft == resource.RLIM_INFINITY else soft


def _fit_to_files(limits: ServerLimits) -> ServerLimits:
    """The limits with as many connections as the process may have open files, with room for files and new ones."""
    return replace(limits, max_connections=min(limits.max_connections, _file_limit() // 2))


def _uvicorn_options(limits: ServerLimits) -> dict[str, Any]:
    return {
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,  # forwarded headers are not trusted
        "ws": "none",
        # fixed, whatever is installed: only h11 limits the size of headers, and uvloop raises errors when clients
        # disconnect
        "http": partial(LimitedProtocol, table=ConnectionTable(_fit_to_files(limits))),
        "loop": "asyncio",
        "lifespan": "on",
        "timeout_keep_alive": limits.idle_seconds,
        "backlog": min(BACKLOG, _file_limit() // 4),  # so many are accepted at once, before a limit applies
        "timeout_graceful_shutdown": round(limits.shutdown_seconds + SHUTDOWN_MARGIN_S),
        "h11_max_incomplete_event_size": 32_768,
    }
