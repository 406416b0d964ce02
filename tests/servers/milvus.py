"""`milvus-lite server`: a real process that speaks Milvus's protocol, on a free port of the loopback interface."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import grpc
import milvus_lite

from tests.servers.base import free_port

START_SECONDS = 60


class Milvus:
    """One server with a scratch directory."""

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="ragkit-milvus-")
        self._process: subprocess.Popen[bytes] | None = None
        self._address = f"127.0.0.1:{free_port()}"
        self.uri = f"http://{self._address}"
        self.environment: Mapping[str, str] = {"RAGKIT_TEST_MILVUS_URI": self.uri}

    def fresh(self) -> Mapping[str, str]:
        """As `Server.fresh` says: each test has its own collection anyway."""
        return {}

    def start(self) -> None:
        """As `Server.start` says."""
        if self._process is not None:
            return
        host, port = self._address.split(":")
        package = Path(milvus_lite.__file__).parent.name
        command = [sys.executable, "-m", package, "server", "--data-dir", self._scratch.name, "--host", host]
        self._process = subprocess.Popen([*command, "--port", port], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        with grpc.insecure_channel(self._address) as channel:
            grpc.channel_ready_future(channel).result(timeout=deadline - time.monotonic())

    def stop(self) -> None:
        """As `Server.stop` says."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(START_SECONDS)
            self._process = None
        self._scratch.cleanup()
