"""A guard for tests that forbids requests to remote services."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ragkit.agent.providers.base import Provider
from ragkit.errors import RagkitError


class ModelRequestForbidden(RagkitError, AssertionError):
    """A request to a remote provider while such requests are forbidden."""


class _RequestGuard:
    active = False


@contextmanager
def forbid_model_requests() -> Iterator[None]:
    """Forbid every request to a remote provider while the block runs, in all threads."""
    before, _RequestGuard.active = _RequestGuard.active, True
    try:
        yield
    finally:
        _RequestGuard.active = before


def check_request_allowed(provider: Provider) -> None:
    """Raises ModelRequestForbidden if the provider is remote and the guard is active or RAGKIT_OFFLINE is 1."""
    if not provider.remote:
        return
    if _RequestGuard.active:
        raise ModelRequestForbidden(f"a test must not send requests to {provider.name}: use ScriptedProvider")
    if os.environ.get("RAGKIT_OFFLINE") == "1":
        raise ModelRequestForbidden(f"RAGKIT_OFFLINE is 1, but {provider.name} needs a network: unset RAGKIT_OFFLINE")
