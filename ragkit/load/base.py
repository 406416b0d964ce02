"""The protocol of loaders."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from ragkit.records import Document


@runtime_checkable
class AttachmentLoader(Protocol):
    """A loader of a format that holds other files."""

    def attachments(self, data: bytes, source: str) -> Iterable[tuple[str, bytes]]:
        """(name, bytes) of each file in `data`, which `load` has accepted."""


class Loader(Protocol):
    """Extracts the text of one file of one format.

    A loader is pure: equal bytes and name give an equal Document. It never accesses the network and
    never follows a path that the file contains.
    """

    version: str
    """Changes when equal bytes give a different text; part of the loader's fingerprint."""

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`.

        Args:
            data: the whole file.
            source: absolute path or URL, for messages and `Document.source`; the file is not opened.

        Raises:
            LoadError: the file cannot be parsed.
        """
