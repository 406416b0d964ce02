"""A guard for tests: while it is up, a request to a service that costs money is an error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ragkit.agent.providers.base import Provider
from ragkit.errors import RagkitError


class ModelRequestForbidden(RagkitError, AssertionError):
    """A real model request was about to be made where none is allowed: give the agent a scripted provider."""


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
    """Raises ModelRequestForbidden when the provider is remote and the guard is up, or RAGKIT_OFFLINE is 1."""
    if not provider.remote:
        return
    if _RequestGuard.active:
        raise ModelRequestForbidden(f"a request to {provider.name} was about to be made in a test: script it")
    if os.environ.get("RAGKIT_OFFLINE") == "1":
        raise ModelRequestForbidden(f"RAGKIT_OFFLINE is 1 and {provider.name} needs a network: unset it to go on")
