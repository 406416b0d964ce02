"""What was said before, as an agent may see it."""

from __future__ import annotations

import re

_CITATION_MARK = re.compile(r"(?<!\s)\s*+\[\d{1,4}(?:\s*+,\s*+\d{1,4})*\]")
"""With all of the space before it: looked for once, where the space begins."""


def strip_citation_marks(role: str, text: str) -> str:
    """An earlier answer without its [n]: these passages are not before the model any more, so it cannot cite them."""
    return _CITATION_MARK.sub("", text) if role == "assistant" else text
