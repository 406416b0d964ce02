"""`milvus-lite server`: a real process that speaks Milvus's protocol, on a free port of the loopback interface."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from tests.servers.base import free_port

START_SECONDS = 60
ATTEMPTS = 4


class Milvus:
    """One server with a scratch directory."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="ragkit-milvus-")
        self._process: subprocess.Popen[bytes] | None = None
        self._port = free_port()
        self.uri = f"http://127.0.0.1:{self._port}"
        self.environment: Mapping[str, str] = {"RAGKIT_TEST_MILVUS_URI": self.uri}

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
        raise RuntimeError("milvus-lite server does not start")

    def _launched(self) -> subprocess.Popen[bytes]:
        # a process that a test forked may have taken the directory away when it ended
        Path(self._scratch.name).mkdir(exist_ok=True)
        command = [sys.executable, "-m", "milvus_lite", "server", "--data-dir", self._scratch.name]
        address = ["--host", "127.0.0.1", "--port", str(self._port)]
        return subprocess.Popen([*command, *address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _move(self) -> None:
        """Take another port, and say so where addresses are looked for."""
        self._port = free_port()
        self.uri = f"http://127.0.0.1:{self._port}"
        self.environment = {"RAGKIT_TEST_MILVUS_URI": self.uri}
        os.environ.update(self.environment)

    def _answers(self) -> bool:
        with closing(socket.socket()) as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def stop(self) -> None:
        """As `Server.stop` says."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(START_SECONDS)
            self._process = None
        self._scratch.cleanup()
