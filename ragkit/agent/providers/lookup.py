"""Look up providers by name: `provider:model`, and `auto`.

A provider of a service holds connections, so there is one for each key and URL.
"""

from __future__ import annotations

import os
from functools import lru_cache

from ragkit.agent.providers import PROVIDERS
from ragkit.agent.providers.base import Provider
from ragkit.agent.providers.credentials import HOST_VARIABLES, KEY_VARIABLES, find_key
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.errors import InvalidOption, MissingExtra

GGUF_VARIABLES = ("RAGKIT_GGUF_CONTEXT", "RAGKIT_GGUF_THREADS")
"""Context window in tokens and threads of `gguf:` models."""


def get_provider(name: str) -> Provider:
    """The provider of `provider:model` or `provider`. Raises UnknownName, MissingExtra, AuthenticationFailed."""
    service, _, model = name.partition(":")
    if service == "gguf":
        return _local_model(model, *(_read_count(variable) for variable in GGUF_VARIABLES))
    if service not in HOST_VARIABLES:
        return PROVIDERS.find(service)()
    variables = (*KEY_VARIABLES.get(service, ()), HOST_VARIABLES[service])
    return _cached_provider(service, tuple(os.environ.get(variable) for variable in variables))


def detect_provider() -> Provider | None:
    """The script in RAGKIT_MOCK_JSON, else the first service whose key is set and whose package is installed.

    The order is that of KEY_VARIABLES: OpenAI, Anthropic, Gemini, Groq. None if there is no such service, or if
    RAGKIT_OFFLINE is 1.
    """
    script = ScriptedProvider.from_environment()
    if script is not None or os.environ.get("RAGKIT_OFFLINE") == "1":
        return script
    for service in KEY_VARIABLES:
        if find_key(service, required=False):
            try:
                return get_provider(service)
            except MissingExtra:
                continue
    return None


@lru_cache(maxsize=2)
def _local_model(path: str, context_window: int, threads: int) -> Provider:
    """Each holds its weights in memory."""
    from ragkit.agent.providers.gguf import GGUFProvider  # noqa: PLC0415 - needs its extra

    return GGUFProvider(path, context_window=context_window or None, threads=threads)


def _read_count(variable: str) -> int:
    text = os.environ.get(variable) or "0"
    if not text.isdecimal():
        raise InvalidOption(variable, text, "an integer >= 0; 0 is the default")
    return int(text)


@lru_cache(maxsize=32)
def _cached_provider(service: str, settings: tuple[str | None, ...]) -> Provider:
    """Cached by the settings that the provider reads from the environment."""
    return PROVIDERS.find(service)()
