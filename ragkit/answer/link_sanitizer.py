"""Addresses in an answer: only those that stand in the documents, letter by letter, and no image that loads by itself.

A model that was talked into it can write a secret into an address; whoever renders the answer would send it off. An
address that it made up stands in no passage, so it is cut down to the name of its host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SCHEME = r"(?:[a-z][a-z0-9+.-]{1,15}:)?//"
_QUOTED_URL = re.compile(rf"(?<=[<\"']){_SCHEME}[^<>\"'\n]*+(?=[>\"'])", re.IGNORECASE)
_BARE_URL = re.compile(
    r"(?<![\w.+-])[a-z][a-z0-9+.-]{1,15}://[^\s<>]++|(?:(?<=[(<\"'=])|(?<=\]: ))//[^\s<>]++"
    r"|\b(?:javascript|vbscript|data):[^\s<>]++",
    re.IGNORECASE,
)
_IMAGE_MARK = re.compile(r"!(?=\[(?!\d{1,3}\](?![(\[])))")
"""Before the text of an image; not what calls out before a citation, as in `Yes![1]`."""
_TRAILING_PUNCTUATION = ".,;:!?*_~`'\")]}"
"""What may stand behind an address without being a part of it."""


def sanitize_links(text: str, known: Iterable[str]) -> str:
    """`text` with every image as a link, and every address that is in none of the `known` texts as its host alone."""
    texts = list(known)

    def checked(found: re.Match[str]) -> str:
        address = found[0].rstrip(_TRAILING_PUNCTUATION)
        if any(address in one for one in texts):
            return found[0]
        return f"[link removed: {_host_name(address)}]{found[0][len(address) :]}"

    return _BARE_URL.sub(checked, _QUOTED_URL.sub(checked, _IMAGE_MARK.sub("", text)))


def _host_name(address: str) -> str:
    """The name of the host that an address leads to, which may be shown."""
    rest = address.partition("//")[2] or address.partition(":")[0]
    host = re.split(r"[/?#\\]", rest, maxsplit=1)[0].rpartition("@")[2]
    return "".join(sign for sign in host[:60] if sign.isalnum() or sign in ".-:")
