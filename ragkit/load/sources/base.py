"""The protocol of sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ragkit.errors import LoadError


class ListingIncomplete(LoadError):
    """A part of a source could not be listed: what was listed is indexed, and nothing is removed."""


class DocumentGone(LoadError):
    """A document that was deleted after it was listed. The next listing tells."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The content of one document."""

    data: bytes
    media_type: str = ""
    """Selects the loader if the key has no known suffix: `text/html`."""
    fingerprint: str = ""
    """Replaces an empty fingerprint of the listing."""
    suffix: str = ""
    """The suffix of the copy; empty: by the key, then by the media type."""


@dataclass(frozen=True, slots=True)
class SourceItem:
    """One document in a listing."""

    key: str
    """The name in citations, unique and URL-like: `s3://bucket/manual.pdf`."""
    fingerprint: str = ""
    """Differs if the content differs; an equal one is not fetched. Empty: unknown, `fetch` finds out."""
    size: int | None = None
    """In bytes; None: unknown."""
    modified: str = ""
    """The time of the last change, ISO 8601; empty: unknown."""
    file: SourceFile | None = None
    """The content, if the listing had to read it; it is not fetched again."""
    path: str = ""
    """The path below the source, for patterns; empty: the path of the key."""


@dataclass(frozen=True)
class SourceContext:
    """What a source may use while it lists and fetches."""

    folder: Path
    """A folder of its own that stays between runs, for caches."""
    known_fingerprint: Callable[[str], str | None]
    """Key -> the fingerprint of its copy; None: there is no copy."""
    known_keys: Callable[[], Collection[str]]
    """The keys of all copies."""
    max_file_mb: float = 50
    """Larger files are not fetched."""
    allow_private: bool = False
    """Allow URLs with loopback, private and link-local addresses."""


class Source(Protocol):
    """Documents that can be listed and fetched. What is no longer listed was deleted."""

    @property
    def location(self) -> str:
        """Where the documents are, without credentials: the name of the source."""

    def list(self, context: SourceContext) -> Iterator[SourceItem]:
        """Every document, in any order.

        Raises:
            ListingIncomplete: after all that could be listed: a part could not.
            LoadError: the source cannot be listed.
        """

    def fetch(self, item: SourceItem, context: SourceContext) -> SourceFile | None:
        """The content of a listed document; None: that of the copy.

        Raises:
            DocumentGone: it was deleted meanwhile.
            LoadError: it cannot be fetched; the copy stays.
        """


def require_network(location: str) -> None:
    """Raise LoadError if RAGKIT_OFFLINE is 1."""
    if os.environ.get("RAGKIT_OFFLINE") == "1":
        raise LoadError(location, "cannot be reached while RAGKIT_OFFLINE is 1", "unset RAGKIT_OFFLINE")


def read_credential(variable: str, location: str) -> str:
    """The value of an environment variable; '' without a name. Raises LoadError if it is not set."""
    if not variable:
        return ""
    value = os.environ.get(variable)
    if value is None:
        raise LoadError(location, f"the environment variable {variable} is not set", f"set {variable}")
    return value
