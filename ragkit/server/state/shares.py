"""Read-only links to sessions, until they are revoked."""

from __future__ import annotations

import time

from ragkit.records import JSON
from ragkit.server.http_errors import not_found
from ragkit.server.state.database import StateStore, format_time, in_transaction, new_id
from ragkit.server.state.sessions import is_visible
from ragkit.sql import SqlConnection

_TABLE = (
    "CREATE TABLE IF NOT EXISTS shares (id TEXT PRIMARY KEY, created REAL NOT NULL, session TEXT NOT NULL UNIQUE"
    " REFERENCES sessions (id) ON DELETE CASCADE) STRICT, WITHOUT ROWID"
)


class ShareStore(StateStore):
    """The shared sessions in a state database. A link ends with its session."""

    async def open(self) -> None:
        """Create the table."""
        await self._state.run(lambda connection: connection.execute(_TABLE))

    @in_transaction
    def share(self, connection: SqlConnection, session: str) -> dict[str, JSON]:
        """The link of a session, with the same id until it is revoked."""
        if not is_visible(connection, session):
            raise not_found("session", "session_not_found")
        insert = "INSERT INTO shares (id, created, session) VALUES (?, ?, ?) ON CONFLICT (session) DO NOTHING"
        connection.execute(insert, (new_id("share"), time.time(), session))
        row = connection.execute("SELECT id, created FROM shares WHERE session = ?", (session,)).fetchone()
        return {"share_id": row[0], "session_id": session, "created": format_time(row[1])}

    @in_transaction
    def revoke(self, connection: SqlConnection, session: str) -> None:
        """End the link of a session. Raises RequestRejected if it has none."""
        if (
            not is_visible(connection, session)
            or not connection.execute("DELETE FROM shares WHERE session = ?", (session,)).rowcount
        ):
            raise not_found("link", "share_not_found")

    @in_transaction
    def find_session(self, connection: SqlConnection, share: str) -> str:
        """The session of a link. Raises RequestRejected if it was revoked."""
        row = connection.execute("SELECT session FROM shares WHERE id = ?", (share,)).fetchone()
        if row is None or not is_visible(connection, row[0]):
            raise not_found("link", "share_not_found")
        return str(row[0])
