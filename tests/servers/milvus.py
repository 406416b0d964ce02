"""`milvus-lite server`: a real process that speaks Milvus's protocol, on a free port of the loopback interface."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing

from tests.servers.base import free_port

START_SECONDS = 60


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
        """As `Server.start` says."""
        if self._process is not None:
            return
        command = [sys.executable, "-m", "milvus_lite", "server", "--data-dir", self._scratch.name]
        address = ["--host", "127.0.0.1", "--port", str(self._port)]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen([*command, *address], stdout=quiet, stderr=quiet)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("milvus-lite server does not start")
            time.sleep(0.05)

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
