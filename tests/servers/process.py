"""A server in a separate process, on a free loopback port and with a scratch directory."""

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
    """Base class of servers in a process. Subclasses define the command and the environment variables."""

    def __init__(self, name: str) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix=f"ragkit-{name}-")
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.environment: Mapping[str, str] = self.variables()

    def command(self, directory: str) -> Sequence[str]:
        """The command; the server must listen on `self.port`."""
        raise NotImplementedError

    def variables(self) -> Mapping[str, str]:
        """The value of `Server.environment` for the current port."""
        return {}

    def fresh(self) -> Mapping[str, str]:
        """Empty: each test has its own collection anyway."""
        return {}

    def start(self) -> None:
        """See `Server.start`. If the port is in use by now, another one is tried."""
        if self._process is not None:
            return
        for _ in range(ATTEMPTS):
            self._process = self._launch()
            deadline = time.monotonic() + START_SECONDS
            while self._process.poll() is None and time.monotonic() < deadline:
                if self._is_ready():
                    return
                time.sleep(0.05)
            self._process.kill()
            self._process.wait()
            self._process = None
            self._move()
        raise RuntimeError(f"{type(self).__name__} does not start")

    def _launch(self) -> subprocess.Popen[bytes]:
        # a process forked by a test may have deleted the directory at its end
        directory = Path(self._scratch.name)
        directory.mkdir(exist_ok=True)
        command = self.command(str(directory))
        return subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _move(self) -> None:
        """Choose another port and update the environment variables."""
        self.port = free_port()
        self.environment = self.variables()
        os.environ.update(self.environment)

    def _is_ready(self) -> bool:
        with closing(socket.socket()) as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """See `Server.stop`."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(START_SECONDS)
            self._process = None
        self._scratch.cleanup()
