"""The processes that use a knowledge base in PostgreSQL: servers, readers that follow it, and workers."""

from __future__ import annotations

import os
import re
import secrets
import socket
from dataclasses import dataclass

from ragkit.index.catalog.postgres import PostgresCatalog

REPORT_SECONDS = 5.0
"""How often a process reports."""
LIVE_SECONDS = 3 * REPORT_SECONDS
"""A process that has not reported for so long is not listed any more."""
FORGET_SECONDS = 3600
_WORKER_NAME = re.compile(r"process (\d+) on (.+), \w+")
"""As `ragkit.index.embedding_worker` names a worker."""


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A process that has reported lately."""

    kind: str
    """server, reader or worker."""
    host: str
    pid: int
    seen_seconds: float
    """Seconds since it reported."""
    generations_behind: int | None
    """Publications that its local copy lacks; None for a worker, which has none."""


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """Where a knowledge base in a database is, and who uses it."""

    host: str
    name: str
    schema: str
    publication: int
    """The number of the last publication."""
    generations_behind: int
    """Publications that the local copy of this process lacks."""
    seconds_behind: float
    """Seconds since the last publication, if the local copy lacks it; else 0."""
    replicas: tuple[ReplicaState, ...]


class ReplicaReporter:
    """Reports that this process lives, under a name of its own. Every method raises DatabaseFailed."""

    def __init__(self, database: PostgresCatalog, kind: str) -> None:
        self._database, self._kind = database, kind
        self._name = secrets.token_hex(8)

    def report(self, version: int) -> None:
        """Tell that this process lives; `version`: the publication of its copy."""
        statement = (
            "INSERT INTO replicas VALUES (%s, %s, %s, %s, clock_timestamp(), %s)"
            " ON CONFLICT (name) DO UPDATE SET seen = excluded.seen, version = excluded.version"
        )
        values = self._name, self._kind, socket.gethostname(), os.getpid(), version
        self._database.run(lambda c: c.execute(statement, values))
        forget = "DELETE FROM replicas WHERE seen < clock_timestamp() - %s * interval '1 s'"
        self._database.run(lambda c: c.execute(forget, (FORGET_SECONDS,)))

    def leave(self) -> None:
        """Tell that this process ends."""
        self._database.run(lambda c: c.execute("DELETE FROM replicas WHERE name = %s", (self._name,)))


def read_database_status(database: PostgresCatalog, version: int) -> DatabaseStatus:
    """The status for a process whose local copy is of publication `version`. Raises DatabaseFailed."""
    age = "extract(epoch FROM clock_timestamp() - {})::float8"
    last = f"SELECT version, coalesce({age.format('published')}, 0) FROM ragkit"  # noqa: S608 - constant
    host, name, row = database.run(lambda c: (c.info.host, c.info.dbname, c.execute(last.encode()).fetchone()))
    publication, seconds = (int(row[0]), float(row[1])) if row else (0, 0.0)
    query = f"SELECT kind, host, pid, {age.format('seen')} AS age, version FROM replicas ORDER BY kind, host, pid"  # noqa: S608
    rows = database.run(lambda c: c.execute(query.encode()).fetchall())
    replicas = [
        ReplicaState(kind, host_name, pid, round(seen, 1), max(0, publication - copy))
        for kind, host_name, pid, seen, copy in rows
        if seen < LIVE_SECONDS
    ]
    workers = f"SELECT name, {age.format('seen')} FROM workers ORDER BY name"  # noqa: S608 - constant
    for worker, seen in database.run(lambda c: c.execute(workers.encode()).fetchall()):
        match = _WORKER_NAME.fullmatch(worker)
        if match is not None and seen < database.url.lease_seconds:
            replicas.append(ReplicaState("worker", match[2], int(match[1]), round(seen, 1), None))
    behind = max(0, publication - version)
    late = round(seconds, 1) if behind else 0.0
    return DatabaseStatus(host, name, database.url.schema, publication, behind, late, tuple(replicas))
