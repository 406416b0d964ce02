"""The state of servers in the database of the knowledge base: all replicas are one service.

Every worker reports in a thread, over a connection of its own, that it lives. One that has been silent for the time of
a lease is dead for all others, whatever the database knows of its connection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from ragkit.distribution import DISTRIBUTION
from ragkit.errors import DatabaseFailed, NotAKnowledgeBase
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.postgres import PostgresCatalog
from ragkit.index.catalog.postgres_replicas import FORGET_SECONDS
from ragkit.index.catalog.postgres_tables import PostgresTables
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
        self._interval = url.lease_seconds / 5
        self._reports = PostgresCatalog(replace(url, statement_seconds=max(1.0, self._interval)))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_reporting, name="ragkit-alive", daemon=True)
        self._thread.start()

    def run(self, work: Callable[[SqlConnection], T]) -> T:
        """The result of `work` in one transaction; of all replicas, one at a time."""
        return self._tables.run(work)

    def close(self) -> None:
        """Report that this worker has ended, and close the connections."""
        self._stop.set()
        self._thread.join(self._interval)
        with suppress(DatabaseFailed):  # then it is dead when it was silent for long enough
            self.run(lambda c: c.execute("DELETE FROM server_workers WHERE worker = ?", (self._worker,)))
        self._tables.close()
        if not self._thread.is_alive():  # else it waits for the database, and ends with the process
            self._reports.close()

    def is_alive(self, connection: SqlConnection, worker: str) -> bool:
        """Whether a worker has reported within the time of a lease."""
        query = "SELECT 1 FROM server_workers WHERE worker = ? AND seen > clock_timestamp() - ? * interval '1 s'"
        return connection.execute(query, (worker, self._url.lease_seconds)).fetchone() is not None

    def check_writable(self, connection: SqlConnection) -> None:
        """Write something. Raises DatabaseFailed."""
        connection.execute("UPDATE server_workers SET seen = clock_timestamp() WHERE worker = ?", (self._worker,))

    def forget(self, worker: str) -> None:
        """Nothing is kept of a dead worker but its last report."""

    def _keep_reporting(self) -> None:
        seen = (
            "INSERT INTO server_workers VALUES (%s, clock_timestamp())"
            " ON CONFLICT (worker) DO UPDATE SET seen = excluded.seen"
        )
        forget = "DELETE FROM server_workers WHERE seen < clock_timestamp() - %s * interval '1 s'"
        while not self._stop.wait(self._interval):
            with suppress(DatabaseFailed):  # the next report may get through
                self._reports.run(lambda c: c.execute(seen, (self._worker,)))
                self._reports.run(lambda c: c.execute(forget, (FORGET_SECONDS,)))

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
        connection.execute(
            "CREATE TABLE IF NOT EXISTS server_workers (worker text PRIMARY KEY, seen timestamptz NOT NULL)"
        )
        connection.execute(
            "INSERT INTO server_workers VALUES (?, clock_timestamp())"
            " ON CONFLICT (worker) DO UPDATE SET seen = excluded.seen",
            (self._worker,),
        )
