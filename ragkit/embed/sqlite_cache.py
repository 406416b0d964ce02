"""A vector cache in a SQLite file, for concurrent threads and processes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from types import TracebackType

import numpy as np

from ragkit.embed.base import Row
from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseLocked

BUSY_TIMEOUT_S = 30.0
"""Seconds to wait for a lock of another process."""


class SqliteVectorCache:
    """float32 vectors by key. Close it, or use it as a context manager."""

    def __init__(self, path: Path) -> None:
        """Open or create the file; its folder must exist.

        Raises:
            KnowledgeBaseDamaged: the file is not a SQLite file, or cannot be opened.
            KnowledgeBaseLocked: another process holds a lock for more than BUSY_TIMEOUT_S.
        """
        self._path = path
        self._lock = Lock()
        with self._translate_errors():
            self._connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
        try:
            with self._translate_errors():
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, row BLOB NOT NULL)")
        except BaseException:
            self._connection.close()
            raise

    def get_many(self, keys: Sequence[str]) -> dict[str, Row]:
        """The cached vectors of these keys. Raises KnowledgeBaseDamaged, KnowledgeBaseLocked."""
        query = "SELECT key, row FROM vectors WHERE key IN (SELECT value FROM json_each(?))"
        with self._lock, self._translate_errors():
            rows = self._connection.execute(query, (json.dumps(list(keys)),)).fetchall()
        return {key: np.frombuffer(raw, "<f4").astype(np.float32) for key, raw in rows if len(raw) % 4 == 0}

    def put_many(self, rows: Mapping[str, Row]) -> None:
        """Store these vectors, atomically. Raises KnowledgeBaseDamaged, KnowledgeBaseLocked."""
        values = [(key, np.asarray(row, "<f4").tobytes()) for key, row in rows.items()]
        with self._lock, self._translate_errors(), self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", values)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> SqliteVectorCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise KnowledgeBaseLocked(str(self._path), "another process") from error
            reason = f"cannot be used as a vector cache ({error})"
            raise KnowledgeBaseDamaged(
                str(self._path), reason, f"`rm {self._path}` (the vectors are computed again)"
            ) from error
