"""Where conversations are kept: a file each, or many in one SQLite database. Both hold the same JSON."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from ragkit.errors import InvalidOption


class FileConversationStore:
    """One conversation in one file. A save replaces the file whole."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def load(self) -> str | None:
        """What was saved last; None when there is no file."""
        try:
            return self.path.read_text("utf-8")
        except FileNotFoundError:
            return None

    def save(self, text: str) -> None:
        """Write a new file beside the old one and put it in its place."""
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
    """One conversation of a SQLite database, by its key.

    Args:
        path: the database file; made if missing.
        key: which conversation.
    """

    def __init__(self, path: str | Path, key: str) -> None:
        if not key:
            raise InvalidOption("the key of a conversation", key, "a text that is not empty")
        self.path, self.key = Path(path), key
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch(mode=0o600)  # what people say is for their eyes only
        with closing(self._connect()) as database, database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS conversations (key TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID"
            )

    def load(self) -> str | None:
        """What was saved last; None when nothing was."""
        with closing(self._connect()) as database:
            row = database.execute("SELECT json FROM conversations WHERE key = ?", (self.key,)).fetchone()
        return str(row[0]) if row else None

    def save(self, text: str) -> None:
        """Put `text` in the place of what was there."""
        with closing(self._connect()) as database, database:
            database.execute("INSERT OR REPLACE INTO conversations VALUES (?, ?)", (self.key, text))

    def keys(self) -> list[str]:
        """The keys of all conversations of the database, sorted."""
        with closing(self._connect()) as database:
            return [str(row[0]) for row in database.execute("SELECT key FROM conversations ORDER BY key")]

    def _connect(self) -> sqlite3.Connection:
        # a connection for each use: threads need not share one
        return sqlite3.connect(self.path, timeout=30.0)
