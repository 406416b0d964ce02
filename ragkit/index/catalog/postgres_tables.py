"""Tables of a program beside those of the catalog, in the same schema: the state of servers, and the ledger."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.postgres import PostgresCatalog
from ragkit.index.catalog.postgres_connection import Connection
from ragkit.sql import SqlConnection

MAX_STATEMENT_SECONDS = 15.0
"""Statements on these tables are short: one that takes longer waits for another process, or for a dead one."""

ResultT = TypeVar("ResultT")
_TRANSLATIONS = {
    "date(at, 'unixepoch')": "to_char(to_timestamp(at) AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
    "instr(": "strpos(",
}
_TYPES = {
    re.compile(r"\bINTEGER PRIMARY KEY\b"): "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    re.compile(r"\bINTEGER\b"): "bigint",
    re.compile(r"\bREAL\b"): "double precision",
    re.compile(r"\)\s*STRICT(, WITHOUT ROWID)?"): ")",
}


class PostgresTables:
    """A connection of its own to the schema of a knowledge base, which is opened when it is needed, and again.

    Raises:
        DatabaseFailed: the database is unreachable, or rejected a request; from any method.
    """

    def __init__(
        self,
        url: DatabaseUrl,
        name: str,
        prepare: Callable[[SqlConnection], None],
        *,
        serial: bool,
        max_seconds: float = MAX_STATEMENT_SECONDS,
    ) -> None:
        """Connect when it is needed.

        Args:
            url: the knowledge base.
            name: of the tables.
            prepare: called in a transaction after each connection, to create the tables.
            serial: of the transactions of all processes under this `name`, one runs at a time, as in SQLite.
            max_seconds: how long a statement may take, if the address does not allow less.
        """
        self.url = url
        limited = replace(url, statement_seconds=min(url.statement_seconds, max_seconds))
        self._catalog = PostgresCatalog(limited, self._create_tables)
        self._lock_key = lock_key(f"ragkit {name} {url.schema}")
        self._prepare, self._serial = prepare, serial

    def __str__(self) -> str:
        return str(self.url)

    def run(self, work: Callable[[SqlConnection], ResultT]) -> ResultT:
        """The result of `work` in one transaction. It is called again if the connection was lost before the commit."""
        return self._catalog.run(lambda connection: self._run(connection, work), repeat_commit=False)

    def close(self) -> None:
        """Close the connection."""
        self._catalog.close()

    def _run(self, connection: Connection, work: Callable[[SqlConnection], ResultT]) -> ResultT:
        if self._serial:
            self._lock(connection)
        return work(_TranslatingConnection(connection))

    def _create_tables(self, connection: Connection) -> None:
        self._lock(connection)
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self.url.schema)))
        self._prepare(_TranslatingConnection(connection))

    def _lock(self, connection: Connection) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._lock_key,))


class _TranslatingConnection:
    """Runs statements that were written for SQLite."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run one statement."""
        # client-side binding: the types of NULL and of numbers follow from where they stand, as in SQLite
        cursor = psycopg.ClientCursor(self._connection)
        if not parameters:
            return cursor.execute(self._connection.qualify(translate(statement)).encode())
        values = [value.replace("\0", "\ufffd") if isinstance(value, str) else value for value in parameters]
        qualified = self._connection.qualify(translate(statement))
        return cursor.execute(qualified.replace("%", "%%").replace("?", "%s").encode(), values)


def translate(statement: str) -> str:
    """A statement for SQLite as one for PostgreSQL, with `?` as it is."""
    for text, other in _TRANSLATIONS.items():
        statement = statement.replace(text, other)
    if "CREATE TABLE" in statement:
        for pattern, name in _TYPES.items():
            statement = pattern.sub(name, statement)
    return statement


def lock_key(text: str) -> int:
    """The number of an advisory lock."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
