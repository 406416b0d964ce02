"""Checks of the values of options. Apart from the options themselves, which only indexing needs."""

from __future__ import annotations

from ragkit.errors import InvalidOption


def require_positive(name: str, value: float) -> None:
    """Raises InvalidOption unless `value` is above 0."""
    if not value > 0:
        raise InvalidOption(name, value, "> 0")


def require_patterns(name: str, value: object) -> None:
    """Raises InvalidOption for a text: its characters would be the patterns."""
    if isinstance(value, str):
        raise InvalidOption(name, value, "a list of patterns")
