"""Masks keys and passwords in output and logs. Imports nothing of ragkit."""

from __future__ import annotations

import os
import re
from functools import lru_cache

HIDDEN = "(hidden)"
MIN_SECRET_LENGTH = 8
"""Shorter values are not masked: they could be ordinary words."""
_SECRET_NAME = re.compile(
    r"(?:passw(?:or)?d|secret|token|credentials?|(?:^|_)(?:api_?)?(?:key|pwd|dsn|auth))_?\d*$", re.IGNORECASE
)
_PASSWORD_IN_URL = re.compile(r"(?<=://)([^:/@\s]*):(?!\$\{\w+\}@)[^/@\s]+@")
"""Does not match `${NAME}`, which names the source of the password."""
_KEY_PREFIXES = ("sk-", "AIza", "gsk_", "pa-", "pcsk_")
_registered_secrets: set[str] = set()


@lru_cache(maxsize=1024)  # each masked line asks for the names of all environment variables
def is_secret(name: str) -> bool:
    """Whether an option or variable of this name holds a secret: `api_key`, `DB_PASSWORD`."""
    return bool(_SECRET_NAME.search(name))


def mask_passwords(text: str) -> str:
    """Mask the password in every `scheme://user:password@host` of a text."""
    return _PASSWORD_IN_URL.sub(rf"\1:{HIDDEN}@", text)


def is_valid_key(text: str) -> bool:
    """Whether a text can be an API key. HTTP clients reject other values with an error that shows them."""
    return text.isascii() and text.isprintable() and " " not in text


def is_key_like(text: str) -> bool:
    """Whether a text begins like the API key of a service."""
    return text.startswith(_KEY_PREFIXES)


def register_secret(value: str) -> None:
    """Register a key from an option or from code, so that `mask_secrets` masks it."""
    if len(value) >= MIN_SECRET_LENGTH:
        _registered_secrets.add(value)


def _is_secret_variable(variable: str, value: str) -> bool:
    return is_secret(variable) and variable != "PWD" and len(value) >= MIN_SECRET_LENGTH  # PWD: the working directory


def mask_secrets(text: str) -> str:
    """Mask secrets in a text, since some services echo what they receive.

    Secrets are the values of environment variables with the name of a secret, values passed to `register_secret`,
    and passwords in URLs.
    """
    known = {value: f"[{name}]" for name, value in os.environ.items() if _is_secret_variable(name, value)}
    for value in sorted({*known, *_registered_secrets}, key=len, reverse=True):  # a key may be a prefix of another one
        text = text.replace(value, known.get(value, HIDDEN))
    return mask_passwords(text)
