"""Forbid requests to real models in the tests of the agent."""

from collections.abc import Iterator

import pytest

from ragkit.agent.providers.request_guard import forbid_model_requests


@pytest.fixture(autouse=True)
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("RAGKIT_MOCK_JSON", "RAGKIT_OFFLINE", "RAGKIT_LOG"):
        monkeypatch.delenv(name, raising=False)
    with forbid_model_requests():
        yield
