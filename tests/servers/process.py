"""A server that is a process of its own, on a free port of the loopback interface and with a scratch directory."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from tests.servers.base import free_port

START_SECONDS = 60
ATTEMPTS = 4


class ProcessServer:
    """What such servers have in common; each says what to run, and which variables tell where it is."""

    def __init__(self, name: str) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix=f"ragkit-{name}-")
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.environment: Mapping[str, str] = self.variables()

    def command(self, directory: str) -> Sequence[str]:
        """What to run; it listens on `self.port`."""
        raise NotImplementedError

    def variables(self) -> Mapping[str, str]:
        """What `Server.environment` is while the port is this one."""
        return {}

    def fresh(self) -> Mapping[str, str]:
        """As `Server.fresh` says: each test has its own collection anyway."""
        return {}

    def start(self) -> None:
        """As `Server.start` says. A port that somebody else took in the meantime is given up for another one."""
        if self._process is not None:
            return
        for _ in range(ATTEMPTS):
            self._process = self._launched()
            deadline = time.monotonic() + START_SECONDS
            while self._process.poll() is None and time.monotonic() < deadline:
                if self._answers():
                    return
                time.sleep(0.05)
            self._process.kill()
            self._process.wait()
            self._process = None
            self._move()
        raise RuntimeError(f"{type(self).__name__} does not start")

    def _launched(self) -> subprocess.Popen[bytes]:
        # a process that a test forked may have taken the directory away when it ended
        directory = Path(self._scratch.name)
        directory.mkdir(exist_ok=True)
        command = self.command(str(directory))
        return subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _move(self) -> None:
        """Take another port, and say so where addresses are looked for."""
        self.port = free_port()
        self.environment = self.variables()
        os.environ.update(self.environment)

    def _answers(self) -> bool:
        with closing(socket.socket()) as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """See `Server.stop`."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(START_SECONDS)
            self._process = None
        self._scratch.cleanup()
