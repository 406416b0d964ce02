"""Forbid requests to real models in the tests of the agent; start a Redis server."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from ragkit.agent.providers.request_guard import forbid_model_requests


@pytest.fixture(autouse=True)
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("RAGKIT_MOCK_JSON", "RAGKIT_OFFLINE", "RAGKIT_LOG"):
        monkeypatch.delenv(name, raising=False)
    with forbid_model_requests():
        yield


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis server on a free port, from Debian's package redis-server."""
    program = shutil.which("redis-server")
    assert program is not None, "the tests need a Redis server: apt-get install redis-server"
    with socket.socket() as server_socket:
        server_socket.bind(("127.0.0.1", 0))
        port = server_socket.getsockname()[1]
    folder = tmp_path_factory.mktemp("redis")
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder)]
    server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as server_socket:
                if server_socket.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(10)
