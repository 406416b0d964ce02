"""Conversations in a PostgreSQL database, shared by many processes and machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from ragkit.agent.memory.stores import ConversationStoreError, LastSeenText, check_key
from ragkit.errors import MissingExtra
from ragkit.masking import mask_secrets
from ragkit.sql import POSTGRES_CLIENT_LIMITS

try:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise MissingExtra("PostgresConversationStore", extra="pgvector") from error

Connection: TypeAlias = psycopg.Connection[tuple[object, ...]]


class PostgresConversationStore:
    """One conversation in PostgreSQL, by key. A save that would overwrite one of another process fails.

    Args:
        dsn: `postgresql://user@host/database`.
        key: the key of the conversation.
        table: created if missing.
        timeout_s: seconds to wait for a connection.

    Raises:
        ConversationStoreError: the server is unreachable, or rejects the request.
    """

    def __init__(self, dsn: str, key: str, *, table: str = "ragkit_conversations", timeout_s: int = 5) -> None:
        self.dsn, self.key, self.table = dsn, check_key(key), table
        self._timeout_s, self._table = timeout_s, sql.Identifier(table)
        self._last_seen = LastSeenText(key)
        with self._connect() as connection:
            self._lock(connection, "the table")  # two processes that create the table at once would fail
            columns = sql.SQL("CREATE TABLE IF NOT EXISTS {} (key TEXT PRIMARY KEY, json TEXT NOT NULL)")
            connection.execute(columns.format(self._table))

    def load(self) -> str | None:
        """The saved text; None if there is none. Raises ConversationStoreError."""
        with self._connect() as connection:
            text = self._read(connection)
        self._last_seen.remember(text)
        return text

    def save(self, text: str) -> None:
        """Replace the saved text. Raises ConversationConflict, ConversationStoreError."""
        statement = sql.SQL(
            "INSERT INTO {} (key, json) VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET json = excluded.json"
        )
        with self._connect() as connection:
            self._lock(connection, self.key)
            self._last_seen.check(self._read(connection))
            connection.execute(statement.format(self._table), (self.key, text))
        self._last_seen.remember(text)

    def keys(self) -> list[str]:
        """The keys of all conversations of the table, sorted. Raises ConversationStoreError."""
        with self._connect() as connection:
            rows = connection.execute(sql.SQL("SELECT key FROM {}").format(self._table)).fetchall()
        return sorted(str(row[0]) for row in rows)

    def _read(self, connection: Connection) -> str | None:
        statement = sql.SQL("SELECT json FROM {} WHERE key = %s").format(self._table)
        row = connection.execute(statement, (self.key,)).fetchone()
        return str(row[0]) if row else None

    def _lock(self, connection: Connection, name: str) -> None:
        """Wait for other transactions on the same conversation."""
        statement = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
        connection.execute(statement, (f"ragkit conversation {self.table} {name}",))

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        """A connection with one transaction: connections are not shared between threads."""
        try:
            limits = {**POSTGRES_CLIENT_LIMITS, "connect_timeout": self._timeout_s}
            with psycopg.connect(**{**limits, **conninfo_to_dict(self.dsn)}) as connection:  # type: ignore[arg-type]
                yield connection
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            words = f"PostgreSQL does not serve conversations ({reason}): check the DSN and the rights on {self.table}"
            raise ConversationStoreError(mask_secrets(words)) from error
