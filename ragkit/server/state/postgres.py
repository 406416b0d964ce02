"""The state of servers in the database of the knowledge base: all replicas are one service.

Every worker holds an advisory lock on its connection, which the database releases when the connection ends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ragkit.distribution import DISTRIBUTION
from ragkit.errors import DatabaseFailed, NotAKnowledgeBase
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.postgres_tables import PostgresTables, lock_key
from ragkit.server.state.schema import SCHEMA_VERSION, migrate
from ragkit.sql import SqlConnection

T = TypeVar("T")


class PostgresState:
    """The tables of the servers of one knowledge base, for one thread."""

    def __init__(self, url: DatabaseUrl, worker: str) -> None:
        """Connect, and create or upgrade the tables.

        Raises:
            DatabaseFailed: the database is unreachable.
            NotAKnowledgeBase: the tables are those of a later version.
        """
        self._url, self._worker = url, worker
        self._tables = PostgresTables(url, "state", self._prepare, serial=True)
        self.run(lambda connection: None)

    def run(self, work: Callable[[SqlConnection], T]) -> T:
        """The result of `work` in one transaction; of all replicas, one at a time."""
        return self._tables.run(work)

    def close(self) -> None:
        """Release the lock of this worker, and close the connection."""
        with suppress(DatabaseFailed):  # then the database releases it when it notices that the connection ended
            self.run(lambda connection: connection.execute("SELECT pg_advisory_unlock_all()"))
        self._tables.close()

    def is_alive(self, connection: SqlConnection, worker: str) -> bool:
        """Whether a worker is connected: it holds its lock."""
        row = connection.execute("SELECT pg_try_advisory_xact_lock(?)", (_worker_key(worker),)).fetchone()
        return not row[0]

    def forget(self, worker: str) -> None:
        """Nothing is kept of a dead worker."""

    def _prepare(self, connection: SqlConnection) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS server_state (version bigint NOT NULL)")
        row = connection.execute("SELECT version FROM server_state").fetchone()
        version = int(row[0]) if row else 0
        if version > SCHEMA_VERSION:
            reason = (
                f"has server tables of version {version}, but this version of ragkit supports up to {SCHEMA_VERSION}"
            )
            raise NotAKnowledgeBase(str(self._url), reason, f"upgrade with `pip install -U {DISTRIBUTION}`")
        migrate(connection, version)
        if row is None:
            connection.execute("INSERT INTO server_state VALUES (?)", (SCHEMA_VERSION,))
        connection.execute("UPDATE server_state SET version = ?", (SCHEMA_VERSION,))
        connection.execute("SELECT pg_advisory_lock(?)", (_worker_key(self._worker),))


def _worker_key(worker: str) -> int:
    return lock_key(f"ragkit worker {worker}")
