"""Tests that ask real services are left out, unless `-m live` asks for them, and for the services that have a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragkit.agent.providers.credentials import HOST_VARIABLES, KEY_VARIABLES
from tests.keys import SET_ASIDE

FOLDER = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what cannot be asked: deselected, not skipped."""
    wanted = config.option.markexpr == "live"
    left_out = [item for item in items if item.path.is_relative_to(FOLDER) and not (wanted and _reachable(item))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if wanted and not items:
        raise pytest.UsageError(
            f"no service can be asked: set one of {', '.join(sum(KEY_VARIABLES.values(), ()))}, OLLAMA_HOST"
        )


@pytest.fixture
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A service, with its key and its address back in the environment."""
    name = str(request.param)
    for variable in (*KEY_VARIABLES.get(name, ()), HOST_VARIABLES[name]):
        if variable in SET_ASIDE:
            monkeypatch.setenv(variable, SET_ASIDE[variable])
    return name


def _reachable(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return False
    name = callspec.params["service"]
    return any(variable in SET_ASIDE for variable in KEY_VARIABLES.get(name, (HOST_VARIABLES[name],)))
