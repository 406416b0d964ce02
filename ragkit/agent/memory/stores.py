"""Stores of conversations: one file each, or many in one SQLite database. All stores hold the same JSON.

`conversation_stores_redis` and `conversation_stores_postgres` share conversations between machines.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from ragkit.errors import InvalidOption, RagkitError


class ConversationStoreError(RagkitError):
    """The server of a conversation store is unreachable or rejects the request."""


class ConversationConflict(RagkitError):
    """Another process saved the conversation since it was loaded."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return (
            f"the conversation {self.key!r} was saved elsewhere since it was loaded: "
            "load it into a new ConversationMemory and repeat the turn"
        )


class LastSeenText:
    """What a store loaded or saved last, so that no save overwrites the turns of another process."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._digest: bytes | None = None
        self._is_known = False

    def remember(self, text: str | None) -> None:
        """Record the text that was loaded or saved."""
        self._digest, self._is_known = _digest(text), True

    def check(self, current: str | None) -> None:
        """Raises ConversationConflict if the store has another text; a deleted or expired one is no conflict."""
        if self._is_known and current is not None and _digest(current) != self._digest:
            raise ConversationConflict(self._key)


def _digest(text: str | None) -> bytes | None:
    return None if text is None else sha256(text.encode("utf-8", "surrogatepass")).digest()


def check_key(key: str) -> str:
    """The key of a conversation. Raises InvalidOption for an empty one."""
    if not key:
        raise InvalidOption("key", key, "a non-empty text")
    return key


class FileConversationStore:
    """One conversation in one file, for one process at a time. A save replaces the file atomically."""

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
    """One conversation in a SQLite database, by key. A save that would overwrite one of another process fails.

    Args:
        path: the database file; created if missing.
        key: the key of the conversation.
    """

    def __init__(self, path: str | Path, key: str) -> None:
        self.path, self.key = Path(path), check_key(key)
        self._last_seen = LastSeenText(key)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch(mode=0o600)  # conversations are private: readable by the owner only
        with closing(self._connect()) as database, database:
            database.execute(
                "CREATE TABLE IF NOT EXISTS conversations (key TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID"
            )

    def load(self) -> str | None:
        """The saved text; None if there is none."""
        with closing(self._connect()) as database:
            text = self._read(database)
        self._last_seen.remember(text)
        return text

    def save(self, text: str) -> None:
        """Replace the saved text. Raises ConversationConflict."""
        with closing(self._connect()) as database, database:
            database.execute("BEGIN IMMEDIATE")
            self._last_seen.check(self._read(database))
            database.execute("INSERT OR REPLACE INTO conversations VALUES (?, ?)", (self.key, text))
        self._last_seen.remember(text)

    def _read(self, database: sqlite3.Connection) -> str | None:
        row = database.execute("SELECT json FROM conversations WHERE key = ?", (self.key,)).fetchone()
        return str(row[0]) if row else None

    def keys(self) -> list[str]:
        """The keys of all conversations of the database, sorted."""
        with closing(self._connect()) as database:
            return [str(row[0]) for row in database.execute("SELECT key FROM conversations ORDER BY key")]

    def _connect(self) -> sqlite3.Connection:
        # one connection per call: SQLite connections are not shared between threads
        return sqlite3.connect(self.path, timeout=30.0)
