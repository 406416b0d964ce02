"""A server that a test starts: its address is known before it runs, so that tests can be collected without it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Protocol


class Server(Protocol):
    """Something that listens on loopback, or on a socket in a scratch directory, and on nothing else."""

    environment: Mapping[str, str]
    """What `ragkit.testing.store_factory` reads: RAGKIT_TEST_<STORE>_<OPTION> -> value."""

    def start(self) -> None:
        """Run, and return when it can be asked. Starting twice is fine."""

    def fresh(self) -> Mapping[str, str]:
        """More variables, of which each test has its own values."""

    def stop(self) -> None:
        """Stop, and remove what it left. Stopping twice is fine, and so is stopping what never ran."""


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
