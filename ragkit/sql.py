"""The part of a database connection that the state of servers and the ledger use: SQLite's own, or PostgreSQL's.

Statements have `?` for parameters and run on both; what differs is translated for PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

POSTGRES_CLIENT_LIMITS: dict[str, int] = {
    "connect_timeout": 5,  # s, for each host of the address
    "keepalives_idle": 5,  # s
    "keepalives_interval": 3,  # s
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,  # ms
}
"""Options of the client of PostgreSQL, for addresses that do not set them: a dead peer is noticed after 15 s."""


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
