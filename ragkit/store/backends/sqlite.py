"""The store `sqlite`: documents in SQLite, rows in a vector file beside it, exact search over the mapped file."""

from __future__ import annotations

from pathlib import Path

from ragkit.store.native.directory_store import DirectoryStore
from ragkit.store.options import SqliteOptions


class SqliteStore(DirectoryStore):
    """Documents and rows in a directory, searched exactly. Safe for several threads and processes; one writes."""

    def __init__(self, options: SqliteOptions) -> None:
        """Open the directory, or make it. Raises as `DirectoryStore` does."""
        super().__init__(Path(options.path), options.dimension, options.busy_seconds)
