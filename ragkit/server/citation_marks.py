"""Citation marks, `[1]` or `[1, 2]`, in the text of answers."""

from __future__ import annotations

import re

_CITATION_MARK = re.compile(r"(?<!\s)\s*+\[\d{1,4}(?:\s*+,\s*+\d{1,4})*\]")
"""Includes all space before it. Possessive: linear in the length of the text."""


def strip_citation_marks(role: str, text: str) -> str:
    """An earlier answer without [n]: the model no longer sees those passages, so it must not cite them."""
    return _CITATION_MARK.sub("", text) if role == "assistant" else text
