"""Stores sessions and their messages."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ragkit.records import JSON
from ragkit.server.database import StateStore, decode_cursor, encode_cursor, format_time, in_transaction, new_id
from ragkit.server.http_errors import invalid_request, not_found

MAX_TITLE_CHARS = 80
NEW_TITLE = "New chat"
EMPTY_SHARE = 0.1
"""Share of the sessions that may be without messages before these are deleted first."""
EMPTY_DETAIL: dict[str, JSON] = {"citations": [], **dict.fromkeys(("evidence", "abstained", "model", "usage", "error"))}
"""Default values of the details of a message."""
Turn: TypeAlias = tuple[str, str]
"""Role and content of a message."""


@dataclass(frozen=True, slots=True)
class SessionTurn:
    """A question in a session, and the id of the answer to it."""

    session_id: str
    answer_id: str
    trace_id: str
    history: tuple[Turn, ...]
    """The earlier messages."""


class SessionStore(StateStore):
    """The sessions in a state database."""

    @in_transaction
    def start(self, connection: sqlite3.Connection, title: str = "") -> dict[str, JSON]:
        """Create a session."""
        return _load_session(connection, self._create(connection, title))

    @in_transaction
    def end(self, connection: sqlite3.Connection, session: str) -> dict[str, JSON]:
        """End a session: it takes no more messages. Idempotent."""
        _load_session(connection, session)
        connection.execute("UPDATE sessions SET ended = coalesce(ended, ?) WHERE id = ?", (time.time(), session))
        return _load_session(connection, session)

    @in_transaction
    def rename(self, connection: sqlite3.Connection, session: str, title: str) -> dict[str, JSON]:
        """Rename a session."""
        connection.execute("UPDATE sessions SET title = ? WHERE id = ?", (shorten_title(title), session))
        return _load_session(connection, session)

    @in_transaction
    def get(self, connection: sqlite3.Connection, session: str) -> dict[str, JSON]:
        """A session with its messages and the ids of its traces, oldest first."""
        self._state.mark_interrupted(connection)
        data = _load_session(connection, session)
        rows = connection.execute(
            f"SELECT {_MESSAGE_COLUMNS} FROM messages WHERE session = ? ORDER BY key",  # noqa: S608 - own columns
            (session,),
        )
        traces = connection.execute("SELECT id FROM traces WHERE session = ? ORDER BY started, id", (session,))
        history = [message_json(row) for row in rows]
        messages: list[JSON] = [{"role": message["role"], "content": message["content"]} for message in history]
        return {**data, "messages": messages, "history": history, "traces": [identity for (identity,) in traces]}

    @in_transaction
    def list(self, connection: sqlite3.Connection, cursor: str | None, limit: int) -> tuple[list[JSON], str | None]:
        """A page of sessions, most recently used first, and the cursor of the next page."""
        after = decode_cursor(cursor, float, str) if cursor else [1e300, ""]
        rows = connection.execute(
            f"SELECT {_SESSION_COLUMNS} FROM sessions s WHERE (updated, id) < (?, ?)"  # noqa: S608
            " ORDER BY updated DESC, id DESC LIMIT ?",
            (*after, limit + 1),
        ).fetchall()
        next_cursor = encode_cursor(float(rows[limit - 1][3]), rows[limit - 1][0]) if len(rows) > limit else None
        return [_session_json(row) for row in rows[:limit]], next_cursor

    @in_transaction
    def add_question(
        self, connection: sqlite3.Connection, session: str | None, question: str, trace: str, sent: Sequence[Turn] = ()
    ) -> SessionTurn:
        """Add a question and a running, empty answer to a session (None: a new one).

        `sent`: the messages before the question in the request, which are added as well, except those that repeat the
        end of the session.

        Raises RequestRejected: the session does not exist, has ended, is full, or has a running answer.
        """
        self._state.mark_interrupted(connection)
        session_id = session or self._create(connection, question)
        data = _load_session(connection, session_id)
        if data["ended"] is not None:
            raise invalid_request("the session has ended: start a new one", "session_id", "session_ended", 409)
        rows = connection.execute(
            "SELECT role, content, status FROM messages WHERE session = ? ORDER BY key", (session_id,)
        ).fetchall()
        history = [(role, content) for role, content, status in rows if content and status != "error"]
        added = [message for message in sent[count_repeated(history, sent) :] if message[1]]
        if len(rows) + len(added) + 2 > self._retention.max_messages:
            raise invalid_request("the session is full: start a new one", "session_id", "session_full", 409)
        if any(status == "running" for _, _, status in rows):
            raise invalid_request("another answer is running in this session", "session_id", "session_busy", 409)
        now, answer = time.time(), new_id("msg")
        for role, content in added:
            _insert_message(connection, (new_id("msg"), session_id, role, content, now, "done", None, None))
        if question:
            _insert_message(connection, (new_id("msg"), session_id, "user", question, now, "done", trace, None))
        _insert_message(connection, (answer, session_id, "assistant", "", now, "running", trace, self._state.worker_id))
        new_title = shorten_title(question) if question and data["title"] == NEW_TITLE else data["title"]
        connection.execute("UPDATE sessions SET updated = ?, title = ? WHERE id = ?", (now, new_title, session_id))
        return SessionTurn(session_id, answer, trace, (*history, *added))

    @in_transaction
    def update_answer(self, connection: sqlite3.Connection, turn: SessionTurn, content: str) -> None:
        """Save the text of a running answer."""
        connection.execute(
            "UPDATE messages SET content = ? WHERE id = ? AND status = 'running'", (content, turn.answer_id)
        )

    @in_transaction
    def finish_answer(
        self, connection: sqlite3.Connection, turn: SessionTurn, status: str, content: str, detail: Mapping[str, JSON]
    ) -> tuple[dict[str, JSON], dict[str, JSON]]:
        """Store the final answer. Returns it as MessageSchema, and its session as SessionSchema."""
        values = (status, content, json.dumps(detail, default=dict), turn.answer_id)
        finish = "UPDATE messages SET status = ?, content = ?, detail = ?, worker = NULL WHERE id = ?"
        connection.execute(finish, values)
        connection.execute("UPDATE sessions SET updated = ? WHERE id = ?", (time.time(), turn.session_id))
        row = connection.execute(
            f"SELECT {_MESSAGE_COLUMNS} FROM messages WHERE id = ?",  # noqa: S608 - own columns
            (turn.answer_id,),
        ).fetchone()
        return message_json(row), _load_session(connection, turn.session_id)

    @in_transaction
    def delete_expired(self, connection: sqlite3.Connection) -> None:
        """Delete sessions that are too old or too many."""
        self._state.mark_interrupted(connection)
        connection.execute("DELETE FROM sessions WHERE updated < ?", (time.time() - self._retention.days * 86400,))
        self._evict(connection, self._retention.max_sessions)

    def _create(self, connection: sqlite3.Connection, title: str) -> str:
        self._evict(connection, self._retention.max_sessions - 1)
        session, now = new_id("sess"), time.time()
        values = (session, shorten_title(title) or NEW_TITLE, now, now)
        connection.execute("INSERT INTO sessions (id, title, created, updated) VALUES (?,?,?,?)", values)
        return session

    def _evict(self, connection: sqlite3.Connection, keep: int) -> None:
        """Delete the least recently used sessions beyond `keep`, except those with a running answer.

        Sessions without messages go first where they are more than a share of EMPTY_SHARE, so that whoever starts
        sessions and does not use them pushes out few conversations of others.
        """
        count = int(connection.execute("SELECT count(*) FROM sessions").fetchone()[0])
        if count <= keep:
            return
        used = int(connection.execute("SELECT count(DISTINCT session) FROM messages").fetchone()[0])
        has_messages = "EXISTS (SELECT 1 FROM messages m WHERE m.session = s.id), "
        empty_first = has_messages if count - used > keep * EMPTY_SHARE else ""
        connection.execute(
            "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions s WHERE NOT EXISTS (SELECT 1 FROM messages"  # noqa: S608
            f" m WHERE m.session = s.id AND m.status = 'running') ORDER BY {empty_first}updated, id LIMIT ?)",
            (count - keep,),
        )


_SESSION_COLUMNS = (
    "id, title, created, updated, (SELECT count(*) FROM messages m WHERE m.session = s.id AND m.role = 'user')"
    " + (SELECT count(*) FROM messages m WHERE m.session = s.id AND m.role = 'assistant'), ended"
)
_MESSAGE_COLUMNS = "id, role, content, created, status, trace, detail"


def shorten_title(text: str) -> str:
    """One line of at most MAX_TITLE_CHARS characters."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_TITLE_CHARS else line[: MAX_TITLE_CHARS - 1].rstrip() + "…"


def count_repeated(stored: Sequence[Turn], sent: Sequence[Turn]) -> int:
    """How many messages at the start of `sent` repeat the end of `stored`: the most that match."""
    for count in range(min(len(stored), len(sent)), 0, -1):
        if list(stored[-count:]) == list(sent[:count]):
            return count
    return 0


def message_json(row: tuple[Any, ...]) -> dict[str, JSON]:
    """A row as MessageSchema."""
    identity, role, content, created, status, trace, detail = row
    return {
        "id": identity,
        "role": role,
        "content": content,
        "created": format_time(created),
        "status": status,
        "trace_id": trace,
        **EMPTY_DETAIL,
        **json.loads(detail),
    }


def _insert_message(connection: sqlite3.Connection, values: tuple[object, ...]) -> None:
    connection.execute(
        "INSERT INTO messages (id, session, role, content, created, status, trace, worker, detail)"
        " VALUES (?,?,?,?,?,?,?,?,'{}')",
        values,
    )


def _load_session(connection: sqlite3.Connection, session: str) -> dict[str, JSON]:
    row = connection.execute(f"SELECT {_SESSION_COLUMNS} FROM sessions s WHERE id = ?", (session,)).fetchone()  # noqa: S608
    if row is None:
        raise not_found("session", "session_not_found")
    return _session_json(row)


def _session_json(row: tuple[Any, ...]) -> dict[str, JSON]:
    identity, title, created, updated, messages, ended = row
    start, end = format_time(created), format_time(ended)
    return {
        "id": identity,
        "session_id": identity,
        "title": title,
        "status": "active" if end is None else "completed",
        "created": start,
        "started_at": start,
        "updated": format_time(updated),
        "messages": messages,
        "message_count": messages,
        "ended": end,
        "ended_at": end,
    }
