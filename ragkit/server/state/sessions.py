"""Stores sessions and their messages."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ragkit.records import JSON
from ragkit.server.http_errors import invalid_request, not_found
from ragkit.server.principals import is_owned, owned_sql, record_owner
from ragkit.server.state.database import StateStore, decode_cursor, encode_cursor, format_time, in_transaction, new_id
from ragkit.sql import SqlConnection

MAX_TITLE_CHARS = 80
NEW_TITLE = "New chat"
EMPTY_SHARE = 0.1
"""Sessions without messages that are kept in any case, as a share of the maximum of conversations."""
EMPTY_DETAIL: dict[str, JSON] = {
    "citations": [],
    "statements": [],
    **dict.fromkeys(
        (
            "searched_for",
            "outcome",
            "notices",
            "supported",
            "evidence",
            "abstained",
            "model",
            "usage",
            "error",
            "feedback",
        )
    ),
}
"""Default values of the details of a message."""
SHOWN_KEY = "shown"
"""Key of a stored answer's details with the ids of the chunks that the session has shown, by citation number."""
_CITATION_MARK = re.compile(r"(?<!\s)\s*+\[\d{1,4}(?:\s*+,\s*+\d{1,4})*\]")
"""`[1]` or `[1, 2]`, with all space before it. Possessive: linear in the length of the text."""
Turn: TypeAlias = tuple[str, str]
"""Role and content of a message."""


@dataclass(frozen=True, slots=True)
class SessionTurn:
    """A question in a session, and the id of the answer to it."""

    session_id: str
    answer_id: str
    trace_id: str
    history: tuple[Turn, ...]
    """The earlier messages. Citation numbers of answers whose passages are not known are left out."""
    shown: tuple[str, ...] = ()
    """The ids of the chunks that the session has shown, by citation number."""


class SessionStore(StateStore):
    """The sessions in a state database."""

    @in_transaction
    def start(self, connection: SqlConnection, title: str = "") -> dict[str, JSON]:
        """Create a session."""
        self._evict(connection, new_empty=1)
        return _load_session(connection, self._create(connection, title))

    @in_transaction
    def end(self, connection: SqlConnection, session: str) -> dict[str, JSON]:
        """End a session: it takes no more messages. Idempotent."""
        _load_session(connection, session)
        connection.execute("UPDATE sessions SET ended = coalesce(ended, ?) WHERE id = ?", (time.time(), session))
        return _load_session(connection, session)

    @in_transaction
    def rename(self, connection: SqlConnection, session: str, title: str) -> dict[str, JSON]:
        """Rename a session."""
        _load_session(connection, session)
        connection.execute("UPDATE sessions SET title = ? WHERE id = ?", (shorten_title(title), session))
        return _load_session(connection, session)

    @in_transaction
    def get(self, connection: SqlConnection, session: str) -> dict[str, JSON]:
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
    def list(
        self, connection: SqlConnection, cursor: str | None, limit: int, query: str = ""
    ) -> tuple[list[JSON], str | None]:
        """A page of sessions, most recently used first, and the cursor of the next page; `query`: with this text."""
        after = decode_cursor(cursor, float, str) if cursor else [1e300, ""]
        owned, owner = owned_sql("s.id")
        rows = connection.execute(
            f"SELECT {_SESSION_COLUMNS} FROM sessions s WHERE (updated, id) < (?, ?) AND (? = '' OR instr(lower(title),"  # noqa: S608
            " ?) > 0 OR EXISTS (SELECT 1 FROM messages m WHERE m.session = s.id AND instr(lower(m.content), ?) > 0))"
            f" AND {owned} ORDER BY updated DESC, id DESC LIMIT ?",
            (*after, *[query.lower()] * 3, *owner, limit + 1),
        ).fetchall()
        next_cursor = encode_cursor(float(rows[limit - 1][3]), rows[limit - 1][0]) if len(rows) > limit else None
        return [_session_json(row) for row in rows[:limit]], next_cursor

    @in_transaction
    def rate(self, connection: SqlConnection, answer: str, feedback: Mapping[str, JSON] | None) -> dict[str, JSON]:
        """Store what a reader says about an answer; None: nothing any more. Returns it as MessageSchema."""
        of_session = connection.execute("SELECT session FROM messages WHERE id = ?", (answer,)).fetchone()
        if of_session is None or not is_owned(connection, of_session[0]):
            raise not_found("answer", "message_not_found")
        where = "WHERE id = ? AND role = 'assistant' AND status != 'running'"
        found = connection.execute(f"SELECT detail FROM messages {where}", (answer,)).fetchone()  # noqa: S608 - constant
        if found is None:
            raise not_found("answer", "message_not_found")
        detail = json.dumps({**json.loads(found[0]), "feedback": feedback})
        connection.execute("UPDATE messages SET detail = ? WHERE id = ?", (detail, answer))
        row = connection.execute(f"SELECT {_MESSAGE_COLUMNS} FROM messages WHERE id = ?", (answer,)).fetchone()  # noqa: S608
        return message_json(row)

    @in_transaction
    def add_question(
        self,
        connection: SqlConnection,
        session: str | None,
        question: str,
        trace: str,
        sent: Sequence[Turn] = (),
        replace: str | None = None,
    ) -> SessionTurn:
        """Add a question and a running, empty answer to a session (None: a new one).

        `sent`: the messages before the question in the request, which are added as well, except those that repeat the
        end of the session. `replace`: the trace of an answer, which is deleted with its question and what follows.

        Raises RequestRejected: the session does not exist, has ended, is full, or has a running answer.
        """
        self._state.mark_interrupted(connection)
        if session is None:
            self._evict(connection, new_conversations=1)
        session_id = session or self._create(connection, question)
        data = _load_session(connection, session_id)
        if data["ended"] is not None:
            raise invalid_request("the session has ended: start a new one", "session_id", "session_ended", 409)
        if replace is not None:
            _delete_from(connection, session_id, replace)
        rows = connection.execute(
            "SELECT role, content, status, detail FROM messages WHERE session = ? ORDER BY key", (session_id,)
        ).fetchall()
        shown_by = [json.loads(detail).get(SHOWN_KEY) for _, _, _, detail in rows]
        history = [(role, content) for role, content, status, _ in rows if content and status != "error"]
        added = [message for message in sent[count_repeated(history, sent) :] if message[1]]
        if len(rows) + len(added) + 2 > self._retention.max_messages:
            raise invalid_request("the session is full: start a new one", "session_id", "session_full", 409)
        if any(status == "running" for _, _, status, _ in rows):
            raise invalid_request("another answer is running in this session", "session_id", "session_busy", 409)
        now, answer = time.time(), new_id("msg")
        for role, content in added:
            _insert_message(connection, (new_id("msg"), session_id, role, content, now, "done", None, None))
        if question:
            _insert_message(connection, (new_id("msg"), session_id, "user", question, now, "done", trace, None))
        _insert_message(connection, (answer, session_id, "assistant", "", now, "running", trace, self._state.worker_id))
        new_title = shorten_title(question) if question and data["title"] == NEW_TITLE else data["title"]
        connection.execute("UPDATE sessions SET updated = ?, title = ? WHERE id = ?", (now, new_title, session_id))
        known = [
            (role, content if shown is not None else strip_citation_marks(role, content))
            for (role, content, status, _), shown in zip(rows, shown_by, strict=True)
            if content and status != "error"
        ]
        known += [(role, strip_citation_marks(role, content)) for role, content in added]
        ids: list[str] = max((shown for shown in shown_by if shown is not None), key=len, default=[])
        return SessionTurn(session_id, answer, trace, tuple(known), tuple(ids))

    @in_transaction
    def update_answer(self, connection: SqlConnection, turn: SessionTurn, content: str) -> None:
        """Save the text of a running answer."""
        connection.execute(
            "UPDATE messages SET content = ? WHERE id = ? AND status = 'running'", (content, turn.answer_id)
        )

    @in_transaction
    def finish_answer(
        self, connection: SqlConnection, turn: SessionTurn, status: str, content: str, detail: Mapping[str, JSON]
    ) -> tuple[dict[str, JSON], dict[str, JSON]]:
        """Store the final answer. Returns it as MessageSchema, and its session as SessionSchema."""
        values = (status, content, json.dumps(detail, default=dict), turn.answer_id)
        finish = (
            "UPDATE messages SET status = ?, content = ?, detail = ?, worker = NULL WHERE id = ? AND status = 'running'"
        )
        connection.execute(finish, values)  # not if another server took this one for dead
        connection.execute("UPDATE sessions SET updated = ? WHERE id = ?", (time.time(), turn.session_id))
        row = connection.execute(
            f"SELECT {_MESSAGE_COLUMNS} FROM messages WHERE id = ?",  # noqa: S608 - own columns
            (turn.answer_id,),
        ).fetchone()
        return message_json(row), _load_session(connection, turn.session_id)

    def give_up(self, trace: str) -> None:
        """See `StateDatabase.give_up`."""
        self._state.give_up(trace)

    @in_transaction
    def delete_expired(self, connection: SqlConnection) -> None:
        """Delete sessions that are too old or too many."""
        self._state.mark_interrupted(connection)
        connection.execute("DELETE FROM sessions WHERE updated < ?", (time.time() - self._retention.days * 86400,))
        self._evict(connection)

    def _create(self, connection: SqlConnection, title: str) -> str:
        session, now = new_id("sess"), time.time()
        values = (session, shorten_title(title) or NEW_TITLE, now, now)
        connection.execute("INSERT INTO sessions (id, title, created, updated) VALUES (?,?,?,?)", values)
        record_owner(connection, session)
        return session

    def _evict(self, connection: SqlConnection, *, new_conversations: int = 0, new_empty: int = 0) -> None:
        """Delete the least recently used sessions, so that as many new ones fit; none with a running answer.

        Conversations and empty sessions are counted apart: whoever starts sessions and does not use them pushes out
        no conversation. Empty ones may use the room that conversations leave, and EMPTY_SHARE of all in any case.
        """
        limit = self._retention.max_sessions
        count = int(connection.execute("SELECT count(*) FROM sessions").fetchone()[0])
        used = int(connection.execute("SELECT count(DISTINCT session) FROM messages").fetchone()[0])
        room = max(1, int(limit * EMPTY_SHARE), limit - used - new_conversations)
        for has_messages, excess in ((0, count - used + new_empty - room), (1, used + new_conversations - limit)):
            connection.execute(
                "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions s WHERE CASE WHEN EXISTS (SELECT 1 FROM"
                " messages m WHERE m.session = s.id) THEN 1 ELSE 0 END = ? AND NOT EXISTS (SELECT 1 FROM messages m"
                " WHERE m.session = s.id AND m.status = 'running') ORDER BY updated, id LIMIT ?)",
                (has_messages, max(0, excess)),
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


def strip_citation_marks(role: str, text: str) -> str:
    """An answer without [n], for a model that does not know which passages these are; other messages unchanged."""
    return _CITATION_MARK.sub("", text) if role == "assistant" else text


def message_json(row: tuple[Any, ...]) -> dict[str, JSON]:
    """A row as MessageSchema."""
    identity, role, content, created, status, trace, detail = row
    details = {key: value for key, value in json.loads(detail).items() if key != SHOWN_KEY}
    return {
        "id": identity,
        "role": role,
        "content": content,
        "created": format_time(created),
        "status": status,
        "trace_id": trace,
        **EMPTY_DETAIL,
        **details,
    }


def _insert_message(connection: SqlConnection, values: tuple[object, ...]) -> None:
    connection.execute(
        "INSERT INTO messages (id, session, role, content, created, status, trace, worker, detail)"
        " VALUES (?,?,?,?,?,?,?,?,'{}')",
        values,
    )


def _delete_from(connection: SqlConnection, session: str, trace: str) -> None:
    """Delete the messages of a trace and all after it. Raises RequestRejected: there are none, or an answer runs."""
    of_session = "SELECT min(key) FROM messages WHERE session = ? AND trace = ?"
    [first] = connection.execute(of_session, (session, trace)).fetchone()
    if first is None:
        raise not_found("answer", "message_not_found")
    running = "SELECT 1 FROM messages WHERE session = ? AND status = 'running'"
    if connection.execute(running, (session,)).fetchone():
        raise invalid_request("another answer is running in this session", "session_id", "session_busy", 409)
    connection.execute("DELETE FROM messages WHERE session = ? AND key >= ?", (session, first))


def _load_session(connection: SqlConnection, session: str) -> dict[str, JSON]:
    row = connection.execute(f"SELECT {_SESSION_COLUMNS} FROM sessions s WHERE id = ?", (session,)).fetchone()  # noqa: S608
    if row is None or not is_owned(connection, session):
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
