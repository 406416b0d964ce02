"""The store `sqlite`: documents in SQLite, vectors in a memory-mapped file, searched exactly."""

from __future__ import annotations

from pathlib import Path

from ragkit.store.native.directory_store import DirectoryStore
from ragkit.store.options import SqliteOptions


class SqliteStore(DirectoryStore):
    """Documents and vectors in a directory, searched exactly. Safe for several threads and processes; one writes."""

    def __init__(self, options: SqliteOptions) -> None:
        """Open or create the directory. Raises the errors of `DirectoryStore`."""
        super().__init__(Path(options.path), options.dimension, options.busy_seconds)
