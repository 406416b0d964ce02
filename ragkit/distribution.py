"""The name under which ragkit is published, and the commands that install it."""

from __future__ import annotations

DISTRIBUTION = "ragkit-kb"
"""The `name` in pyproject.toml; a test compares the two."""


def install_command(extra: str = "") -> str:
    """The pip command that installs ragkit, with an optional dependency group if one is given."""
    return f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install {DISTRIBUTION}"
