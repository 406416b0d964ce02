"""Start the servers of stores for tests: `python -m pytest -p tests.servers.plugin`.

Importing this module sets the environment variables with addresses that `ragkit.testing.store_factory` reads, unless
they are set already, for a server that runs elsewhere. A server starts with the first test that opens its store, and
stops after the last test. A server whose package is missing is not started.
"""

from __future__ import annotations

import atexit
import os
from contextlib import suppress
from importlib import import_module

import pytest

from tests.servers.base import Server

PLACES = {"pgvector": "tests.servers.postgres:Postgres", "pinecone": "tests.servers.pinecone:Pinecone"}
"""Store -> its server."""
OURS = "TEST_SERVERS_STARTED_HERE"
"""Names the variables set here: a test worker inherits them, but starts its own servers."""
SERVERS: dict[str, Server] = {}
"""The servers that can be started here."""


def _prepare() -> None:
    for name, place in PLACES.items():
        module, _, attribute = place.partition(":")
        with suppress(ImportError):
            server: Server = getattr(import_module(module), attribute)()
            ours = os.environ.get(OURS, "").split()
            if name in ours or not any(variable in os.environ for variable in server.environment):
                os.environ.update(server.environment)
                os.environ[OURS] = " ".join({*ours, name})
                SERVERS[name] = server
            atexit.register(server.stop)


STORE_FIXTURES = {"subject", "store_options"}
"""Fixtures that open the store of the fixture `name`: tests with one of them need its server."""


@pytest.fixture(autouse=True)
def _server_of_the_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "name" not in request.fixturenames or STORE_FIXTURES.isdisjoint(request.fixturenames):
        return
    server = SERVERS.get(str(request.getfixturevalue("name")))
    if server is not None:
        server.start()
        for variable, value in server.fresh().items():
            monkeypatch.setenv(variable, value)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Stop the started servers."""
    for server in SERVERS.values():
        server.stop()


_prepare()
