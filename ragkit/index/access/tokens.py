"""Tokens of users: of each only a hash is stored, with a name, a date, and until when it is valid."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from ragkit.errors import InvalidOption
from ragkit.records import JSON

FIRST_NAME = "first"
"""The name of the token that a new user gets, unless another one is given."""
_NAME = re.compile(r"[\w.@+-]{1,100}")
_DURATION = re.compile(r"([1-9][0-9]{0,4})([hdw])")
_SECONDS = {"h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a user, as it is stored."""

    digest: str
    """SHA-256 of the token, in hex."""
    name: str = FIRST_NAME
    """Unique among the tokens of a user."""
    created: float | None = None
    """Unix seconds; None: by an earlier version of ragkit."""
    expires: float | None = None
    """Unix seconds from which it is refused. None: never."""

    @property
    def has_expired(self) -> bool:
        """Whether it is refused by now."""
        return self.expires is not None and time.time() >= self.expires


def create_token(name: str = FIRST_NAME, lifetime: float | None = None) -> tuple[str, Token]:
    """A new token, and what is stored of it. `lifetime`: seconds; None: it does not expire."""
    if not _NAME.fullmatch(name):
        raise InvalidOption("token", name, "1 to 100 letters, digits and . _ @ + -")
    text, now = f"rk_{secrets.token_urlsafe(32)}", time.time()
    return text, Token(hash_token(text), name, now, None if lifetime is None else now + lifetime)


def hash_token(text: str) -> str:
    """What is stored of a token."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def parse_lifetime(text: str) -> float:
    """The seconds of `12h`, `30d` or `8w`. Raises InvalidOption."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise InvalidOption("expires", text, "hours, days or weeks from now: 12h, 30d, 8w")
    return float(found[1]) * _SECONDS[found[2]]


def read_token(value: str | Mapping[str, JSON], number: int) -> Token:
    """A token as it is stored; earlier versions stored hashes alone. Raises KeyError, TypeError, ValueError."""
    if isinstance(value, str):
        return Token(value, FIRST_NAME if number == 1 else f"token-{number}")
    times = {key: None if value[key] is None else float(str(value[key])) for key in ("created", "expires")}
    return Token(str(value["digest"]), str(value["name"]), times["created"], times["expires"])


def format_day(seconds: float | None) -> str:
    """`2026-11-28`, in UTC; `-` for no time."""
    return "-" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def format_instant(seconds: float | None) -> str | None:
    """`2026-11-28T21:40:00+00:00`; None for no time."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
