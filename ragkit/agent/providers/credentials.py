"""API keys and URLs of the services, from arguments or environment variables. Imports no vendor package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from ragkit.errors import AuthenticationFailed, InvalidOption
from ragkit.masking import is_key_like, is_valid_key, register_secret

KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
}
"""Service -> the variables that hold its key; the first one that is set is used. `auto` tries them in this order."""
HOST_VARIABLES: Mapping[str, str] = {
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
    "groq": "GROQ_BASE_URL",
    "ollama": "OLLAMA_HOST",
}
"""Service -> the variable that holds its URL."""


def is_any_configured() -> bool:
    """Whether the environment names a service or a script that `auto` may answer with."""
    if os.environ.get("RAGKIT_MOCK_JSON"):
        return True
    names = (name for names in KEY_VARIABLES.values() for name in names)
    return os.environ.get("RAGKIT_OFFLINE") != "1" and any(os.environ.get(name) for name in names)


def find_key(service: str, value: str | None = None, *, required: bool = True) -> str:
    """The API key of a service: the argument, else the environment variable.

    Raises AuthenticationFailed if a required key is missing, or if a key is malformed.
    """
    raw_key = value or next((os.environ[name] for name in KEY_VARIABLES[service] if os.environ.get(name)), "")
    key = raw_key.strip()  # a key read from a file often ends with a newline
    if not key and required:
        raise AuthenticationFailed(service, f"no API key: set {' or '.join(KEY_VARIABLES[service])}, or pass api_key")
    if not is_valid_key(key):
        raise AuthenticationFailed(service, "the API key contains an invalid character: copy it again")
    register_secret(key)
    return key


def check_model(model: str) -> str:
    """The name of a model. Raises InvalidOption if it is an API key: it would be sent and logged as the model."""
    if is_key_like(model):
        register_secret(model)
        raise InvalidOption("model", f"{model[:4]}...", "the name of a model; pass a key as api_key=...")
    return str(model)  # a ModelInfo is a text, too


def find_host(service: str, value: str | None = None) -> str:
    """The URL of a service: the argument, else the environment variable, else ''."""
    return value or os.environ.get(HOST_VARIABLES[service], "")


def is_local_host(host: str) -> bool:
    """Whether an address, with or without a scheme, is a loopback address."""
    try:
        name = urlsplit(host if "://" in host else f"//{host}").hostname or "localhost"
    except ValueError:  # no address at all: the first request says so
        return False
    try:
        address = ip_address(name)
    except ValueError:
        return name == "localhost"
    return address.is_loopback or address.is_unspecified
