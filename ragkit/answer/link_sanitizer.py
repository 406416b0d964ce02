"""Removes URLs from an answer that do not occur literally in the documents, and turns images into links.

Prompt injection can make a model write a secret into a URL, and a client that renders the answer would send it. Such
a URL occurs in no passage, so it is replaced by its host name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SCHEME = r"(?:[a-z][a-z0-9+.-]{1,15}:)?//"
_QUOTED_URL = re.compile(rf"(?<=[<\"']){_SCHEME}[^<>\"'\n]*+(?=[>\"'])", re.IGNORECASE)
_BARE_URL = re.compile(
    r"(?<![a-z0-9.+-])[a-z][a-z0-9+.-]{1,15}://[^\s<>]++|(?:(?<=[(<\"'=])|(?<=\]: ))//[^\s<>]++"
    r"|\b(?:javascript|vbscript|data):[^\s<>]++",
    re.IGNORECASE,
)
_IMAGE_MARK = re.compile(r"!(?=\[(?!\d{1,3}\](?![(\[])))")
"""The exclamation mark of an image, but not the one before a citation, as in `Yes![1]`."""
_TRAILING_PUNCTUATION = ".,;:!?*_~`'\")]}"
"""Characters that may follow a URL without belonging to it."""


def sanitize_links(text: str, known: Iterable[str]) -> str:
    """`text` with images turned into links, and each URL that is in none of the `known` texts reduced to its host."""
    known_texts = list(known)

    def replace(match: re.Match[str]) -> str:
        url = match[0].rstrip(_TRAILING_PUNCTUATION)
        if any(url in known_text for known_text in known_texts):
            return match[0]
        return f"[link removed: {_host_name(url)}]{match[0][len(url) :]}"

    return _BARE_URL.sub(replace, _QUOTED_URL.sub(replace, _IMAGE_MARK.sub("", text)))


def _host_name(url: str) -> str:
    """The host of a URL, without credentials and unsafe characters."""
    rest = url.partition("//")[2] or url.partition(":")[0]
    host = re.split(r"[/?#\\]", rest, maxsplit=1)[0].rpartition("@")[2]
    return "".join(char for char in host[:60] if char.isalnum() or char in ".-:")
