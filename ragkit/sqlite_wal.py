"""Switch SQLite databases to a write-ahead log. Imports nothing of ragkit."""

from __future__ import annotations

import sqlite3
import time

_RETRY_SECONDS = 0.01


def enable_wal(connection: sqlite3.Connection, busy_seconds: float) -> str:
    """Switch the database to a write-ahead log, waiting up to `busy_seconds` for other processes.

    SQLite does not call its busy handler when two connections switch at once, and fails with SQLITE_BUSY.

    Returns:
        The journal mode: `wal`, unless the file system or a disk error does not allow it.

    Raises:
        sqlite3.OperationalError: another connection kept the lock, or the database cannot be written.
    """
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            [mode] = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return str(mode)
