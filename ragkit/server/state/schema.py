"""The tables of the state of a server, and how they are upgraded. The same statements run on SQLite and PostgreSQL."""

from __future__ import annotations

from ragkit.sql import SqlConnection

SCHEMA_VERSION = 4

TABLES = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, title TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, ended REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_use ON sessions (updated, id);

-- status: done, running, interrupted, cancelled or error. detail: citations, usage and so on, as JSON.
CREATE TABLE messages (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    role TEXT NOT NULL, content TEXT NOT NULL, created REAL NOT NULL,
    status TEXT NOT NULL, trace TEXT, detail TEXT NOT NULL, worker TEXT
) STRICT;
CREATE INDEX messages_by_session ON messages (session, key);
CREATE INDEX messages_running ON messages (worker) WHERE status = 'running';

CREATE TABLE traces (
    id TEXT PRIMARY KEY, session TEXT, status TEXT NOT NULL, started REAL NOT NULL, ended REAL,
    model TEXT NOT NULL, question TEXT NOT NULL, usage TEXT NOT NULL, spans TEXT NOT NULL, error TEXT NOT NULL,
    worker TEXT, record TEXT NOT NULL DEFAULT '{}'
) STRICT, WITHOUT ROWID;
CREATE INDEX traces_by_time ON traces (started, id);
CREATE INDEX traces_by_session ON traces (session, started, id);
CREATE INDEX traces_running ON traces (worker) WHERE status = 'running';

-- Requests that tokens may still send, for the servers of a database. client: a hash of the token.
CREATE TABLE rates (client TEXT PRIMARY KEY, remaining REAL NOT NULL, refilled REAL NOT NULL) STRICT, WITHOUT ROWID;

-- Runs that are suspended until the caller sends tool results.
CREATE TABLE suspended (id TEXT PRIMARY KEY, created REAL NOT NULL, run TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- Whose a session, a trace or a suspended run is: a user with the rights that it began with. Without one: everyone's.
CREATE TABLE owners (id TEXT PRIMARY KEY, owner TEXT NOT NULL) STRICT, WITHOUT ROWID;
"""

UPGRADES = {
    1: "ALTER TABLE traces ADD COLUMN record TEXT NOT NULL DEFAULT '{}'",
    2: "CREATE TABLE IF NOT EXISTS rates (client TEXT PRIMARY KEY, remaining REAL NOT NULL, refilled REAL NOT NULL)"
    " STRICT, WITHOUT ROWID",
    3: "CREATE TABLE IF NOT EXISTS owners (id TEXT PRIMARY KEY, owner TEXT NOT NULL) STRICT, WITHOUT ROWID",
}
"""Schema version -> the statement that leads to the next one."""


def migrate(connection: SqlConnection, version: int) -> None:
    """Create the tables (version 0), or upgrade those of an earlier version."""
    if version == 0:
        for statement in TABLES.split(";"):
            if statement.strip():
                connection.execute(statement)
    for number in range(version, SCHEMA_VERSION) if version else ():
        connection.execute(UPGRADES[number])
