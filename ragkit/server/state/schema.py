"""The tables of the state of a server, and how they are upgraded. The same statements run on SQLite and PostgreSQL."""

from __future__ import annotations

from ragkit.sql import SqlConnection

SCHEMA_VERSION = 6

TABLES = """
-- owner, of each table: the name of a user or token, whatever rights it has. Empty: of a server without users.
-- bytes: of its messages and traces, about. labels: a JSON list of texts.
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, title TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, ended REAL,
    owner TEXT NOT NULL DEFAULT '', bytes INTEGER NOT NULL DEFAULT 0,
    labels TEXT NOT NULL DEFAULT '[]', note TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_use ON sessions (updated, id);
CREATE INDEX sessions_by_owner ON sessions (owner, updated, id, bytes);

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
    worker TEXT, record TEXT NOT NULL DEFAULT '{}', owner TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX traces_by_time ON traces (started, id);
CREATE INDEX traces_by_session ON traces (session, started, id);
CREATE INDEX traces_running ON traces (worker) WHERE status = 'running';

-- Requests that tokens may still send, for the servers of a database. client: a hash of the token.
CREATE TABLE rates (client TEXT PRIMARY KEY, remaining REAL NOT NULL, refilled REAL NOT NULL) STRICT, WITHOUT ROWID;

-- Runs that are suspended until the caller sends tool results.
CREATE TABLE suspended (
    id TEXT PRIMARY KEY, created REAL NOT NULL, run TEXT NOT NULL, owner TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
"""

# Version 4 wrote the rights of a user behind the name, and `of the server` behind that of a token.
_FILL_OWNER = (
    "UPDATE {0} SET owner = coalesce((SELECT substr(o.owner, 1, instr(o.owner || ' ', ' ') - 1) FROM owners o"
    " WHERE o.id = {0}.id), '')"
)
_FILL_BYTES = (
    "UPDATE sessions SET bytes ="
    " coalesce((SELECT sum(length(content) + length(detail)) FROM messages WHERE session = sessions.id), 0)"
)
_ADD_OWNER = "ALTER TABLE {0} ADD COLUMN owner TEXT NOT NULL DEFAULT '';" + _FILL_OWNER + ";"

UPGRADES = {
    1: "ALTER TABLE traces ADD COLUMN record TEXT NOT NULL DEFAULT '{}'",
    2: "CREATE TABLE IF NOT EXISTS rates (client TEXT PRIMARY KEY, remaining REAL NOT NULL, refilled REAL NOT NULL)"
    " STRICT, WITHOUT ROWID",
    3: "CREATE TABLE IF NOT EXISTS owners (id TEXT PRIMARY KEY, owner TEXT NOT NULL) STRICT, WITHOUT ROWID",
    4: "".join(map(_ADD_OWNER.format, ("sessions", "traces", "suspended")))
    + "DROP TABLE owners;ALTER TABLE sessions ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;"
    "CREATE INDEX sessions_by_owner ON sessions (owner, updated, id, bytes);" + _FILL_BYTES,
    5: "ALTER TABLE sessions ADD COLUMN labels TEXT NOT NULL DEFAULT '[]';"
    "ALTER TABLE sessions ADD COLUMN note TEXT NOT NULL DEFAULT ''",
}
"""Schema version -> the statements that lead to the next one."""


def migrate(connection: SqlConnection, version: int) -> None:
    """Create the tables (version 0), or upgrade those of an earlier version."""
    for script in [UPGRADES[number] for number in range(version, SCHEMA_VERSION)] if version else [TABLES]:
        for statement in filter(str.strip, script.split(";")):
            connection.execute(statement)
