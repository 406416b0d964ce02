"""The readers of a knowledge base by what their principals are."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from threading import Lock

from ragkit.index.access.restricted_reader import RestrictedReader
from ragkit.index.access.rules import AccessSettings, Grants
from ragkit.index.access.stores import AccessStore
from ragkit.index.reader import CatalogReader

MAX_READERS = 64
"""Principals whose readers stay open."""


class RestrictedReaders:
    """Opens one reader for each set of grants, and closes those that were used least recently."""

    def __init__(self, access: AccessStore) -> None:
        self._access = access
        self._lock = Lock()
        self._unrestricted: CatalogReader | None = None
        self._settings = AccessSettings()
        self._readers: OrderedDict[Grants, RestrictedReader] = OrderedDict()

    def get(self, unrestricted: CatalogReader, grants: Grants) -> RestrictedReader:
        """The reader for a principal by the rules of this moment; `unrestricted` is the reader of everything."""
        settings = self._access.read()
        with self._lock:
            if unrestricted is not self._unrestricted or replace(settings, users=()) != replace(
                self._settings, users=()
            ):
                self._close_all()
                self._unrestricted, self._settings = unrestricted, settings
            reader = self._readers.get(grants)
            if reader is None:
                reader = self._readers[grants] = RestrictedReader(unrestricted, grants, settings)
            self._readers.move_to_end(grants)
            while len(self._readers) > MAX_READERS:
                self._readers.popitem(last=False)[1].close()  # snapshots that are open end by themselves
            return reader

    def close(self) -> None:
        """Close all readers."""
        with self._lock:
            self._close_all()

    def _close_all(self) -> None:
        while self._readers:
            self._readers.popitem()[1].close()
