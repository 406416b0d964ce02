"""Stores of conversations: one file each, or many in one SQLite database. Both hold the same JSON."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from ragkit.errors import InvalidOption


class FileConversationStore:
    """One conversation in one file. A save replaces the file atomically."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def load(self) -> str | None:
        """The saved text; None if there is no file."""
        try:
            return self.path.read_text("utf-8")
        except FileNotFoundError:
            return None

    def save(self, text: str) -> None:
        """Write a temporary file and rename it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name, suffix=".new")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


class SQLiteConversationStore:
    """One conversation in a SQLite database, by key.

    Args:
        path: the database file; created if missing.
        key: the key of the conversation.
    """

    def __init__(self, path: str | Path, key: str) -> None:
        if not key:
            raise InvalidOption("key", key, "a non-empty text")
        self.path, self.key = Path(path), key
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch(mode=0o600)  # conversations are private: readable by the owner only
        with closing(self._connect()) as database, database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS conversations (key TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID"
            )

    def load(self) -> str | None:
        """The saved text; None if there is none."""
        with closing(self._connect()) as database:
            row = database.execute("SELECT json FROM conversations WHERE key = ?", (self.key,)).fetchone()
        return str(row[0]) if row else None

    def save(self, text: str) -> None:
        """Replace the saved text."""
        with closing(self._connect()) as database, database:
            database.execute("INSERT OR REPLACE INTO conversations VALUES (?, ?)", (self.key, text))

    def keys(self) -> list[str]:
        """The keys of all conversations of the database, sorted."""
        with closing(self._connect()) as database:
            return [str(row[0]) for row in database.execute("SELECT key FROM conversations ORDER BY key")]

    def _connect(self) -> sqlite3.Connection:
        # one connection per call: SQLite connections are not shared between threads
        return sqlite3.connect(self.path, timeout=30.0)
