"""Keys and addresses of the services: which variables hold them. Importable without any vendor's package."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ragkit.errors import AuthenticationFailed
from ragkit.masking import is_valid_key, register_secret

KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
}
"""Service -> the variables that hold its key; the first one that is set counts. `auto` asks in this order."""
HOST_VARIABLES: Mapping[str, str] = {
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
    "groq": "GROQ_BASE_URL",
    "ollama": "OLLAMA_HOST",
}
"""Service -> the variable that holds its address."""


def find_key(service: str, given: str | None = None, *, needed: bool = True) -> str:
    """The key of a service: the one that is given, else the one in the environment.

    Raises AuthenticationFailed when there is none and one is needed, or when it cannot be one.
    """
    found = given or next((os.environ[name] for name in KEY_VARIABLES[service] if os.environ.get(name)), "")
    key = found.strip()  # a key that was read from a file often ends with a line break
    if not key and needed:
        raise AuthenticationFailed(service, f"no key: set {' or '.join(KEY_VARIABLES[service])}, or pass api_key")
    if not is_valid_key(key):
        raise AuthenticationFailed(service, "the key has a character that no key has: copy it again")
    register_secret(key)
    return key


def find_host(service: str, given: str | None = None) -> str:
    """The address of a service: the one that is given, else the one in the environment, else ''."""
    return given or os.environ.get(HOST_VARIABLES[service], "")
