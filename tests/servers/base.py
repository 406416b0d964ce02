"""The protocol of test servers: their address is known before they start, so that tests can be collected."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Protocol


class Server(Protocol):
    """A server that listens on loopback or on a socket in a scratch directory only."""

    environment: Mapping[str, str]
    """Environment variables for `ragkit.testing.store_factory`: RAGKIT_TEST_<STORE>_<OPTION> -> value."""

    def start(self) -> None:
        """Start the server and wait until it accepts requests. Idempotent."""

    def fresh(self) -> Mapping[str, str]:
        """Further variables, with different values for each test."""

    def stop(self) -> None:
        """Stop the server and delete its files. Idempotent, also if it was never started."""


def free_port() -> int:
    """An unused port of the loopback interface."""
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        port: int = result.getsockname()[1]
        return port
