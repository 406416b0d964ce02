"""Servers that start in milliseconds and can be killed: forks of a process that has imported everything.

A line on stdin is the address of a knowledge base, the folder of its copies, and whether files are parsed in processes
of their own, as JSON. The answer is the process id and the port of a new server.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

from ragkit.load.process.parse_pool import ParsePool
from ragkit.load.process.parsing import ParsedFile, ParseFailure, ParseTask, parse_file

SECONDS = 60.0


class ServerFactory:
    """The process that forks servers."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.server.state.forked_server"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=SECONDS)  # the end of its input ends it

    def start(self, place: str, folder: Path, *, parsers: bool = True) -> ForkedServer:
        """A server of a knowledge base; `folder`: of the copies of one in a database.

        `parsers`: files are parsed in processes of their own, as always; without, a job takes milliseconds.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([place, str(folder), parsers]) + "\n")
        self._process.stdin.flush()
        pid, port = json.loads(self._process.stdout.readline())
        return ForkedServer(pid, port)


class ForkedServer:
    """A running server."""

    def __init__(self, pid: int, port: int) -> None:
        self._pid = pid
        self.client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS)

    def kill(self) -> None:
        """Kill the process at once; whoever forked it collects it."""
        os.kill(self._pid, signal.SIGKILL)
        self.client.close()


def _parse_here(pool: ParsePool, tasks: Iterable[ParseTask]) -> Iterator[ParsedFile | ParseFailure]:
    for task in tasks:
        yield parse_file(task, pool._router, pool.limits)


def _serve(place: str, folder: str, parsers: bool, sock: Any) -> None:
    from ragkit.knowledge_base.knowledge_base import KnowledgeBase
    from ragkit.server.app import create_app
    from ragkit.server.serve import run
    from ragkit.server.settings import ServerLimits, ServerSettings

    os.environ["RAGKIT_CACHE"] = folder
    if not parsers:
        ParsePool.parse = ParsePool.parse_group = _parse_here  # type: ignore[assignment,method-assign]
    settings = ServerSettings(port=0, limits=ServerLimits(requests_per_minute=None, free_disk_bytes=0))
    with KnowledgeBase.open(place) as kb:
        run(create_app(kb, kb.path, settings), settings, sock, last=True)


def _main() -> None:
    import uvicorn.protocols.http.httptools_impl  # noqa: F401 - imported before the forks

    import ragkit.answer.agent
    import ragkit.knowledge_base.indexing
    import ragkit.pipeline.run.local
    import ragkit.server.app
    import ragkit.server.state.postgres  # noqa: F401 - as above
    from ragkit.server.serve import create_socket
    from ragkit.server.settings import ServerSettings

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the killed ones
    for line in sys.stdin:
        place, folder, parsers = json.loads(line)
        sock = create_socket(ServerSettings(port=0))
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(2, 1)  # only the parent answers
            try:
                _serve(place, folder, parsers, sock)
            finally:
                os._exit(1)
        sys.stdout.write(json.dumps([pid, sock.getsockname()[1]]) + "\n")
        sys.stdout.flush()
        sock.close()


if __name__ == "__main__":
    _main()
