"""A cache of vectors in one SQLite file. Several threads and processes may use the file at once."""

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
"""How long another process may write before this one gives up."""


class SqliteVectorCache:
    """Rows of float32 by key. Close it, or use it as a context manager."""

    def __init__(self, path: Path) -> None:
        """Open the file; it is made if missing, its folder is not.

        Raises:
            KnowledgeBaseDamaged: the file is no SQLite file, or cannot be opened.
            KnowledgeBaseLocked: another process has been writing for more than half a minute.
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
        """The rows of those keys that are known. Raises KnowledgeBaseDamaged, KnowledgeBaseLocked."""
        query = "SELECT key, row FROM vectors WHERE key IN (SELECT value FROM json_each(?))"
        with self._lock, self._translate_errors():
            found = self._connection.execute(query, (json.dumps(list(keys)),)).fetchall()
        return {key: np.frombuffer(raw, "<f4").astype(np.float32) for key, raw in found if len(raw) % 4 == 0}

    def put_many(self, rows: Mapping[str, Row]) -> None:
        """Keep these rows, all or none. Raises KnowledgeBaseDamaged, KnowledgeBaseLocked."""
        values = [(key, np.asarray(row, "<f4").tobytes()) for key, row in rows.items()]
        with self._lock, self._translate_errors(), self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", values)

    def close(self) -> None:
        """Let go of the file."""
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
            reason = f"cannot be used as a cache of vectors ({error})"
            raise KnowledgeBaseDamaged(str(self._path), reason, f"rm {self._path}, which costs only time") from error
