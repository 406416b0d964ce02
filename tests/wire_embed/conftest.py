"""An embedding service on loopback, and embedders that use it through the SDK of the service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, cast

import pytest

from ragkit.embed import EMBEDDERS
from ragkit.embed.service_embedder import ServiceEmbedder
from tests.wire_embed.dialects import DIALECTS
from tests.wire_embed.server import Faults, WireServer


@dataclass(frozen=True)
class ServiceUnderTest:
    """A running server, and embedders of its service."""

    service: str
    server: WireServer

    def embedder(self, **options: Any) -> ServiceEmbedder:
        """An embedder with these options; the default dimension is 16."""
        settings = EMBEDDERS.options_class(self.service)
        assert settings is not None
        created = cast("Callable[..., ServiceEmbedder]", EMBEDDERS.find(self.service))
        return created(settings(**({"dimensions": 16} | options)))


@pytest.fixture
def wire_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Faults], ServiceUnderTest]]:
    """Starts a service with faults; complaints about requests fail the test."""
    with ExitStack() as stack:

        def start(service: str, faults: Faults) -> ServiceUnderTest:
            server = stack.enter_context(WireServer(service, faults).running())
            for name, value in server.environment.items():
                monkeypatch.setenv(name, value)
            return ServiceUnderTest(service, server)

        yield start


@pytest.fixture(params=sorted(DIALECTS))
def service(request: pytest.FixtureRequest) -> str:
    """Each service in turn."""
    return str(request.param)


@pytest.fixture(autouse=True)
def _no_keys_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for dialect in DIALECTS.values():
        for name in dialect.environment:
            monkeypatch.delenv(name, raising=False)
    for name in ("CO_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
