"""The part of a database connection that the state of servers and the ledger use: SQLite's own, or PostgreSQL's.

Statements have `?` for parameters and run on both; what differs is translated for PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol


class SqlCursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """Rows that the statement changed."""

    def fetchone(self) -> Any:
        """The next row; None at the end."""

    def fetchall(self) -> list[Any]:
        """The remaining rows."""

    def __iter__(self) -> Iterator[Any]: ...


class SqlConnection(Protocol):
    """A connection, inside a transaction."""

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> SqlCursor:
        """Run one statement."""
