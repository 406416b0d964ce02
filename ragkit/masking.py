"""Keys and passwords out of what people and logs are shown. Knows no part of ragkit."""

from __future__ import annotations

import os
import re

HIDDEN = "(hidden)"
MIN_SECRET_LENGTH = 8
"""Shorter values are no secrets that could be told from words: they stay."""
_SECRET_NAME = re.compile(
    r"(?:passw(?:or)?d|secret|token|credentials?|(?:^|_)(?:api_?)?(?:key|pwd|dsn|auth))_?\d*$", re.IGNORECASE
)
_PASSWORD_IN_URL = re.compile(r"(?<=://)([^:/@\s]*):(?!\$\{\w+\}@)[^/@\s]+@")
"""`${NAME}` stays: it says where the password comes from."""
_registered_secrets: set[str] = set()


def is_secret(name: str) -> bool:
    """Whether an option or a variable of this name holds what must never be printed: `api_key`, `DB_PASSWORD`."""
    return bool(_SECRET_NAME.search(name))


def mask_passwords(text: str) -> str:
    """The text with the password of every `scheme://user:password@host` in it hidden."""
    return _PASSWORD_IN_URL.sub(rf"\1:{HIDDEN}@", text)


def is_valid_key(text: str) -> bool:
    """Whether a text can be a service's key: an HTTP client would show another one in its error."""
    return text.isascii() and text.isprintable() and " " not in text


def register_secret(value: str) -> None:
    """Have `mask_secrets` hide this value from now on: a key that was given by an option or in code."""
    if len(value) >= MIN_SECRET_LENGTH:
        _registered_secrets.add(value)


def _is_secret_variable(variable: str, value: str) -> bool:
    return is_secret(variable) and variable != "PWD" and len(value) >= MIN_SECRET_LENGTH  # PWD: the working directory


def mask_secrets(text: str) -> str:
    """The text without keys and passwords: some services say back what they were sent.

    Known are the values of the environment's variables that are named like secrets, those that `register_secret` was
    told of, and passwords in addresses.
    """
    known = {value: f"[{name}]" for name, value in os.environ.items() if _is_secret_variable(name, value)}
    for value in sorted({*known, *_registered_secrets}, key=len, reverse=True):  # a key may begin with another one
        text = text.replace(value, known.get(value, HIDDEN))
    return mask_passwords(text)
