"""Who answers when a name is given, or none: `provider:model` -> the provider, and `auto`.

A provider of a service keeps its connections, so that it is made once for each key and address.
"""

from __future__ import annotations

import os
from functools import lru_cache

from ragkit.agent.providers import PROVIDERS
from ragkit.agent.providers.base import Provider
from ragkit.agent.providers.keys import HOSTS, KEYS, find_key
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.errors import MissingExtra


def named_provider(name: str) -> Provider:
    """The provider of `provider:model` or `provider`. Raises UnknownName, MissingExtra, AuthenticationFailed."""
    service = name.partition(":")[0]
    if service not in HOSTS:
        return PROVIDERS.find(service)()
    variables = (*KEYS.get(service, ()), HOSTS[service])
    return _connected(service, tuple(os.environ.get(one) for one in variables))


def automatic_provider() -> Provider | None:
    """The script in RAGKIT_MOCK_JSON, else the first service whose key is set and whose package is installed.

    The order is that of KEYS: OpenAI, Anthropic, Gemini, Groq. None when there is no such service, or when
    RAGKIT_OFFLINE is 1.
    """
    script = ScriptedProvider.from_environment()
    if script is not None or os.environ.get("RAGKIT_OFFLINE") == "1":
        return script
    for service in KEYS:
        if find_key(service, needed=False):
            try:
                return named_provider(service)
            except MissingExtra:
                continue
    return None


@lru_cache(maxsize=32)
def _connected(service: str, settings: tuple[str | None, ...]) -> Provider:
    """One provider for each set of settings, which it reads from the environment itself."""
    return PROVIDERS.find(service)()
