"""The response cache in one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from ragkit.agent.cache.base import CacheStats, parse_completion, serialize_completion
from ragkit.agent.providers.base import Completion
from ragkit.argument_types import check_types
from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseLocked
from ragkit.sqlite_errors import DATABASE_ERRORS

LOCK_TIMEOUT_S = 30.0
"""Seconds to wait for the write lock of another process."""


@check_types()
class DiskCache:
    """Stores completions persistently. Threads and processes may share the file.

    Args:
        path: the file; created if missing, with its directory.

    Raises:
        KnowledgeBaseDamaged: the file is not a SQLite database or cannot be opened.
        KnowledgeBaseLocked: another process has held the write lock for more than 30 seconds.
    """

    blocking = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._hits = self._misses = 0
        with self._translate_errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT_S, check_same_thread=False)
        try:
            with self._translate_errors():
                self._connection.execute(
                    "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL)"
                )
        except BaseException:
            self._connection.close()
            raise

    @property
    def stats(self) -> CacheStats:
        """Hits and misses of this object; entries in the file."""
        with self._lock, self._translate_errors():
            size = self._connection.execute("SELECT count(*) FROM answers").fetchone()[0]
            return CacheStats(self._hits, self._misses, 0, int(size))

    def get(self, key: str) -> Completion | None:
        """The completion under the key, or None."""
        with self._lock, self._translate_errors():
            row = self._connection.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
            completion = parse_completion(row[0]) if row is not None else None
            self._hits += completion is not None
            self._misses += completion is None
        return completion

    def set(self, key: str, completion: Completion) -> None:
        """Store a completion under the key."""
        with self._lock, self._translate_errors(), self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, serialize_completion(completion))
            )

    def clear(self) -> None:
        """Remove every entry and reset the counters."""
        with self._lock, self._translate_errors(), self._connection:
            self._connection.execute("DELETE FROM answers")
            self._hits = self._misses = 0

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> DiskCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = f"cannot be created ({error.strerror})"
            raise KnowledgeBaseDamaged(
                str(self._path), reason, f"`mkdir -p {self._path.parent}`, or choose another path"
            ) from error
        except DATABASE_ERRORS as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise KnowledgeBaseLocked(str(self._path), "another process") from error
            reason = f"is not a valid response cache ({error})"
            fix = f"`rm {self._path}`, which deletes the cached answers"
            raise KnowledgeBaseDamaged(str(self._path), reason, fix) from error
