"""The server as processes: the socket, uvicorn, and how many of them there are."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from dataclasses import replace
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess

from ragkit.server.malloc_trim import limit_arenas
from ragkit.server.metrics import MULTIPROC_DIR_ENV
from ragkit.server.settings import ServerLimits, ServerSettings

BACKLOG = 2048
"""Connections that may wait to be accepted."""
SHUTDOWN_MARGIN_S = 5.0
"""After the answers have had their time to end: until what was said of it has reached the clients."""


def create_socket(settings: ServerSettings) -> socket.socket:
    """The socket that it listens on. Raises OSError when the address is in use, or not of this machine."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # a client that takes nothing of what waits for it is let go by the kernel, with its buffers
        milliseconds = round(settings.limits.send_seconds * 1000)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    try:
        found.bind((settings.host, settings.port))
        found.listen(BACKLOG)  # who asks from now on waits until the application is ready
    except OSError:
        found.close()
        raise
    found.set_inheritable(True)
    return found


def socket_url(sock: socket.socket) -> str:
    """Where a page is found that is served from a socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def create_config(app: ASGIApp, settings: ServerSettings) -> uvicorn.Config:
    """How uvicorn serves an application."""
    return uvicorn.Config(app, **_uvicorn_options(settings.limits))


def run(app: ASGIApp, settings: ServerSettings, sock: socket.socket, *, last: bool = False) -> None:
    """Serve in this process until it is told to stop (SIGINT, SIGTERM).

    With `last`, the process has nothing else to do: whoever tells it once more, while it ends, changes nothing.
    """
    limit_arenas()
    # uvicorn raises the signal that stopped it once more, when all is done: that must not end the process
    before = {number: signal.signal(number, _ignore_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        uvicorn.Server(create_config(app, settings)).run(sockets=[sock])
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if last else handler)


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    """Nothing is left to do."""


def run_workers(factory: str, settings: ServerSettings, sock: socket.socket, workers: int) -> None:
    """Serve with several processes, each of which gets its application from `factory`, a `module:function`."""
    limit_arenas()
    with tempfile.TemporaryDirectory(prefix="ragkit-metrics-") as shared:
        os.environ[MULTIPROC_DIR_ENV] = shared
        config = uvicorn.Config(factory, factory=True, workers=workers, **_uvicorn_options(settings.limits))
        Multiprocess(config, sockets=[sock]).run()


def split_limits(limits: ServerLimits, workers: int) -> ServerLimits:
    """The limits of one of several workers: together they keep those of one."""
    if workers == 1:
        return limits
    rate = limits.requests_per_minute
    return replace(
        limits,
        max_running=max(1, limits.max_running // workers),
        max_waiting=limits.max_waiting // workers,
        requests_per_minute=None if rate is None else max(1, rate // workers),
    )


def _uvicorn_options(limits: ServerLimits) -> dict[str, Any]:
    return {
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,  # nobody between us and the client is believed
        "ws": "none",
        # what happens to be installed beside us decides nothing: only h11 has a limit for headers, and uvloop raises
        # where asyncio's own loop lets a client's leaving pass
        "http": "h11",
        "loop": "asyncio",
        "lifespan": "on",
        "timeout_keep_alive": 30,
        "timeout_graceful_shutdown": round(limits.shutdown_seconds + SHUTDOWN_MARGIN_S),
        "h11_max_incomplete_event_size": 32_768,
    }
