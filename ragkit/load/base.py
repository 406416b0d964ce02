"""What every loader keeps: the bytes of one file in, one Document out."""

from __future__ import annotations

from typing import Protocol

from ragkit.records import Document


class Loader(Protocol):
    """Takes the text out of one file of one format.

    A loader is pure: equal bytes and name give an equal Document. It never touches the network and
    never follows a path that stands in the file.
    """

    version: str
    """Changes when the same bytes give another text; part of the loader's fingerprint."""

    def load(self, data: bytes, source: str) -> Document:
        """The document in `data`.

        Args:
            data: the whole file.
            source: its absolute path or URL: for messages and for `Document.source`; the file is not opened.

        Raises:
            LoadError: no text can be taken from it; the reason and a hint are in plain words.
        """
