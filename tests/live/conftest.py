"""Deselect tests with real services, unless `-m live` is given and the service has a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragkit.agent.providers.credentials import HOST_VARIABLES, KEY_VARIABLES
from tests.keys import SAVED_VARIABLES

FOLDER = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect (not skip) tests whose service is not available."""
    is_live = config.option.markexpr == "live"
    deselected = [
        item for item in items if item.path.is_relative_to(FOLDER) and not (is_live and _has_credentials(item))
    ]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in deselected]
    if is_live and not items:
        raise pytest.UsageError(
            f"no service is available: set one of {', '.join(sum(KEY_VARIABLES.values(), ()))}, OLLAMA_HOST"
        )


@pytest.fixture
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A service; its key and address are restored in the environment."""
    name = str(request.param)
    for variable in (*KEY_VARIABLES.get(name, ()), HOST_VARIABLES[name]):
        if variable in SAVED_VARIABLES:
            monkeypatch.setenv(variable, SAVED_VARIABLES[variable])
    return name


def _has_credentials(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return False
    name = callspec.params["service"]
    return any(variable in SAVED_VARIABLES for variable in KEY_VARIABLES.get(name, (HOST_VARIABLES[name],)))
