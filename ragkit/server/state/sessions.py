"""Stores sessions and their messages."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from ragkit.records import JSON
from ragkit.server.concurrency import run_in_thread
from ragkit.server.http_errors import ErrorResponse, RequestRejected, invalid_request, not_found
from ragkit.server.principals import current_holder, owned_sql
from ragkit.server.state.database import AnswerStore, decode_cursor, encode_cursor, format_time, in_transaction, new_id
from ragkit.server.state.rights_filter import ORIGINS_KEY, SHOWN_KEY, Origin, unique_origins
from ragkit.server.state.trace_record import forget_texts
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
            "confidence",
            "abstained",
            "model",
            "usage",
            "error",
            "feedback",
        )
    ),
}
"""Default values of the details of a message."""
MESSAGE_BYTES = 500
"""What a message takes beside its text and details, about."""
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
    origins: tuple[Origin, ...] = ()
    """Of the history."""


class SessionStore(AnswerStore):
    """The sessions in a state database."""

    @in_transaction
    def start(self, connection: SqlConnection, title: str = "") -> dict[str, JSON]:
        """Create a session."""
        self._evict(connection, current_holder(), new_empty=1)
        return _load_session(connection, self._create(connection, title))

    @in_transaction
    def end(self, connection: SqlConnection, session: str) -> dict[str, JSON]:
        """End a session: it takes no more messages. Idempotent."""
        _load_session(connection, session)
        connection.execute("UPDATE sessions SET ended = coalesce(ended, ?) WHERE id = ?", (time.time(), session))
        return _load_session(connection, session)

    @in_transaction
    def stop(self, connection: SqlConnection, session: str) -> tuple[str, dict[str, JSON]]:
        """Stop the running answer of a session, for the server that works on it: its trace, empty if none of another.

        A server stops its own answers itself, with what they have written so far.
        """
        data = _load_session(connection, session)
        running = "SELECT trace, worker FROM messages WHERE session = ? AND status = 'running'"
        row = connection.execute(running, (session,)).fetchone()
        if row is None or row[1] == self._state.worker_id:
            return str(row[0]) if row is not None else "", data
        stop = "UPDATE messages SET status = 'cancelled', worker = NULL WHERE session = ? AND status = 'running'"
        connection.execute(stop, (session,))
        return "", data

    @in_transaction
    def change(
        self,
        connection: SqlConnection,
        session: str,
        title: str | None = None,
        labels: Sequence[str] | None = None,
        note: str | None = None,
    ) -> dict[str, JSON]:
        """Change the title, the labels or the note of a session; None: as it is. A label is one line, and unique."""
        old = _load_session(connection, session)
        lines = old["labels"] if labels is None else list(dict.fromkeys(filter(None, map(_one_line, labels))))
        new = (_as_json(lines), str(old["note"] if note is None else note).strip())
        grown = _annotation_bytes(*new) - _annotation_bytes(_as_json(old["labels"]), str(old["note"]))
        connection.execute(
            "UPDATE sessions SET title = ?, labels = ?, note = ?, bytes = CASE WHEN bytes > 0 THEN bytes + ? ELSE 0 END"
            " WHERE id = ?",
            (shorten_title(str(old["title"] if title is None else title)), *new, grown, session),
        )
        return _load_session(connection, session)

    @in_transaction
    def labels(self, connection: SqlConnection) -> Sequence[dict[str, JSON]]:
        """The labels of the principal's sessions by name, with how many sessions have each."""
        owned, owner = owned_sql()
        query = f"SELECT labels FROM sessions WHERE labels != '[]' AND {owned}"  # noqa: S608 - constants
        found = Counter(label for (labels,) in connection.execute(query, owner) for label in json.loads(labels))
        return [{"label": label, "sessions": found[label]} for label in sorted(found, key=str.casefold)]

    async def get(self, session: str) -> dict[str, JSON]:
        """A session with its messages and the ids of its traces, oldest first."""
        data = await self._load(session)
        history = cast("list[dict[str, JSON]]", data["history"])
        messages: list[JSON] = [{"role": message["role"], "content": message["content"]} for message in history]
        return {**data, "messages": messages}

    @in_transaction
    def _load(self, connection: SqlConnection, session: str) -> dict[str, JSON]:
        self._state.mark_interrupted(connection)
        data = _load_session(connection, session)
        rows = connection.execute(
            f"SELECT {_MESSAGE_COLUMNS} FROM messages WHERE session = ? ORDER BY key",  # noqa: S608 - own columns
            (session,),
        )
        history: list[JSON] = [message_json(row) for row in rows]
        traces = connection.execute("SELECT id FROM traces WHERE session = ? ORDER BY started, id", (session,))
        return {**data, "history": history, "traces": [identity for (identity,) in traces]}

    async def list(
        self, cursor: str | None, limit: int, query: str = "", label: str = ""
    ) -> tuple[list[JSON], str | None]:
        """A page of sessions, most recently used first, and the cursor of the next page.

        `query`: those with this text in the title, in the note or in a message, as the principal may read it. `label`:
        those that have it.
        """
        after = decode_cursor(cursor, float, str) if cursor else [1e300, ""]
        found: list[JSON] = []
        cursors: list[str] = []
        while len(found) <= limit and (rows := await self._page(after, limit + 1, query.lower(), _one_line(label))):
            after = rows[-1]["after"]
            for row in rows:
                if row["named"] or any(query.lower() in message["content"].lower() for message in row["messages"]):
                    found.append(row["session"])
                    cursors.append(encode_cursor(*row["after"]))
        return found[:limit], cursors[limit - 1] if len(found) > limit else None

    @in_transaction
    def _page(
        self, connection: SqlConnection, after: Sequence[Any], limit: int, query: str, label: str
    ) -> Sequence[dict[str, Any]]:
        """The next sessions with a text in the title or the note, or stored in messages: these messages."""
        owned, owner = owned_sql()
        written = "instr(lower(title), ?) + instr(lower(note), ?)"
        rows = connection.execute(
            f"SELECT {_SESSION_COLUMNS}, {written} FROM sessions s WHERE (updated, id) < (?, ?)"  # noqa: S608
            " AND (? = '' OR instr(labels, ?) > 0)"
            f" AND (? = '' OR {written} > 0 OR EXISTS"
            " (SELECT 1 FROM messages m WHERE m.session = s.id AND instr(lower(m.content), ?) > 0))"
            f" AND {owned} ORDER BY updated DESC, id DESC LIMIT ?",
            (query, query, *after, label, _as_json(label), *[query] * 4, *owner, limit),
        ).fetchall()
        matching = f"SELECT {_MESSAGE_COLUMNS} FROM messages WHERE session = ? AND instr(lower(content), ?) > 0"  # noqa: S608
        page: list[dict[str, Any]] = []
        for *row, position in rows:
            named = not query or position > 0
            messages = [] if named else [message_json(one) for one in connection.execute(matching, (row[0], query))]
            after_this = [float(row[3]), row[0]]
            page.append({"session": _session_json(row), "after": after_this, "named": named, "messages": messages})
        return page

    @in_transaction
    def rate(self, connection: SqlConnection, answer: str, feedback: Mapping[str, JSON] | None) -> dict[str, JSON]:
        """Store what a reader says about an answer; None: nothing any more. Returns it as MessageSchema."""
        of_session = connection.execute("SELECT session FROM messages WHERE id = ?", (answer,)).fetchone()
        if of_session is None or not is_visible(connection, of_session[0]):
            raise not_found("answer", "message_not_found")
        where = "WHERE id = ? AND role = 'assistant' AND status != 'running'"
        found = connection.execute(f"SELECT detail FROM messages {where}", (answer,)).fetchone()  # noqa: S608 - constant
        if found is None:
            raise not_found("answer", "message_not_found")
        detail = json.dumps({**json.loads(found[0]), "feedback": feedback})
        connection.execute("UPDATE messages SET detail = ? WHERE id = ?", (detail, answer))
        row = connection.execute(f"SELECT {_MESSAGE_COLUMNS} FROM messages WHERE id = ?", (answer,)).fetchone()  # noqa: S608
        return message_json(row)

    async def add_question(
        self, session: str | None, question: str, trace: str, sent: Sequence[Turn] = (), replace: str | None = None
    ) -> SessionTurn:
        """Add a question and a running, empty answer to a session (None: a new one).

        `sent`: the messages before the question in the request, which are added as well, except those that repeat the
        end of the session as the principal may read it. `replace`: the trace of an answer, which is deleted with its
        question and what follows.

        Raises RequestRejected: the session does not exist, has ended, is full, or has a running answer; there is no
        room for it.
        """
        if sent and session is not None:
            history = cast("list[dict[str, Any]]", (await self._load(session))["history"])
            if replace is not None:
                history = history[: next((n for n, m in enumerate(history) if m["trace_id"] == replace), len(history))]
            sent = sent[count_repeated([(m["role"], m["content"]) for m in history if _is_told(m)], sent) :]
        added = [message for message in sent if message[1]]
        turn = await self._add_question(session, question, trace, added, replace)
        told = [
            (m["role"], m["content"] if m["numbered"] else strip_citation_marks(m["role"], m["content"]))
            for m in turn["history"]
        ]
        told += [(role, strip_citation_marks(role, content)) for role, content in added]
        origins = await run_in_thread(lambda: self._readable_origins(turn["drawn_from"], turn["unknown"]))
        return SessionTurn(turn["session"], turn["answer"], trace, tuple(told), tuple(turn["numbers"]), tuple(origins))

    @in_transaction
    def find_session(self, connection: SqlConnection, answer: str) -> str:
        """The session that ends with an answer. Raises RequestRejected: there is none, or it goes on."""
        row = connection.execute("SELECT session, key FROM messages WHERE id = ?", (answer,)).fetchone()
        if row is None or not is_visible(connection, row[0]):
            raise not_found("response", "response_not_found")
        later = connection.execute("SELECT 1 FROM messages WHERE session = ? AND key > ?", tuple(row)).fetchone()
        if later is not None:
            message = "previous_response_id must be the last response of its conversation"
            raise invalid_request(message, "previous_response_id")
        return str(row[0])

    @in_transaction
    def _add_question(
        self,
        connection: SqlConnection,
        session: str | None,
        question: str,
        trace: str,
        added: Sequence[Turn],
        replace: str | None,
    ) -> dict[str, Any]:
        self._state.mark_interrupted(connection)
        self._require_space(connection)
        if session is None:
            self._evict(connection, current_holder(), new_conversations=1)
        session_id = session or self._create(connection, question)
        data = _load_session(connection, session_id)
        if data["ended"] is not None:
            raise invalid_request("the session has ended: start a new one", "session_id", "session_ended", 409)
        if replace is not None:
            _delete_from(connection, session_id, replace)
        rows = connection.execute(
            f"SELECT {_MESSAGE_COLUMNS} FROM messages WHERE session = ? ORDER BY key",  # noqa: S608 - own columns
            (session_id,),
        ).fetchall()
        if len(rows) + len(added) + 2 > self._retention.max_messages:
            raise invalid_request("the session is full: start a new one", "session_id", "session_full", 409)
        history = [message_json(row) for row in rows]
        if any(message["status"] == "running" for message in history):
            raise invalid_request("another answer is running in this session", "session_id", "session_busy", 409)
        now, answer = time.time(), new_id("msg")
        for role, content in added:
            _insert_message(connection, (new_id("msg"), session_id, role, content, now, "done", None, None))
        if question:
            _insert_message(connection, (new_id("msg"), session_id, "user", question, now, "done", trace, None))
        _insert_message(connection, (answer, session_id, "assistant", "", now, "running", trace, self._state.worker_id))
        new_title = shorten_title(question) if question and data["title"] == NEW_TITLE else data["title"]
        texts = [*((content, detail) for _, _, content, _, _, _, detail in rows), *((text, "") for _, text in added)]
        size = _stored_bytes([*texts, (question, ""), ("", "")])
        size += _annotation_bytes(_as_json(data["labels"]), str(data["note"]))
        traces = "SELECT coalesce(sum(length(record) + length(spans)), 0) FROM traces WHERE session = ?"
        size += int(connection.execute(traces, (session_id,)).fetchone()[0])
        values = (now, new_title, size, session_id)
        connection.execute("UPDATE sessions SET updated = ?, title = ?, bytes = ? WHERE id = ?", values)
        owner = connection.execute("SELECT owner FROM sessions WHERE id = ?", (session_id,)).fetchone()[0]
        self._evict(connection, owner)
        told = [message for message in history if _is_told(message)]
        shown: list[Any] = [message.get(SHOWN_KEY) for message in history]
        answers = [message for message in told if ORIGINS_KEY in message]
        known = [cast("Sequence[Any]", message[ORIGINS_KEY]) for message in answers if message[ORIGINS_KEY] is not None]
        return {
            "session": session_id,
            "answer": answer,
            "history": [{**message, "numbered": message.get(SHOWN_KEY) is not None} for message in told],
            "numbers": max((ids for ids in shown if ids is not None), key=len, default=[]),
            "drawn_from": [origin for origins in known for origin in origins],
            "unknown": [
                identity
                for m in answers
                if m[ORIGINS_KEY] is None
                for identity in cast("list[str]", m.get(SHOWN_KEY) or ())
            ],
        }

    def _readable_origins(self, origins: Sequence[Sequence[JSON]], chunks: Sequence[str]) -> Sequence[Origin]:
        """Those of origins, and of the origins of chunks, that the principal may read."""
        every = unique_origins([*origins, *self.rights.chunk_origins(dict.fromkeys(chunks))])
        lost = self.rights.find_lost(every)
        return [origin for origin in every if origin not in lost]

    @in_transaction
    def update_answer(
        self, connection: SqlConnection, turn: SessionTurn, content: str, origins: Sequence[Origin]
    ) -> bool:
        """Save the text of a running answer. False: it was stopped, or taken for dead."""
        saved = connection.execute(
            "UPDATE messages SET content = ?, detail = ? WHERE id = ? AND status = 'running'",
            (content, json.dumps({ORIGINS_KEY: origins}), turn.answer_id),
        )
        return saved.rowcount == 1

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
        size = len(content.encode("utf-8", "surrogatepass")) + len(values[2])
        grow = "UPDATE sessions SET updated = ?, bytes = bytes + ? WHERE id = ?"
        connection.execute(grow, (time.time(), size, turn.session_id))
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
        oldest = time.time() - self._retention.days * 86400
        _delete_sessions(connection, "updated < ?", (oldest,))
        for (owner,) in connection.execute("SELECT DISTINCT owner FROM sessions").fetchall():
            self._evict(connection, owner)

    def _create(self, connection: SqlConnection, title: str) -> str:
        session, now = new_id("sess"), time.time()
        values = (session, shorten_title(title) or NEW_TITLE, now, now, current_holder())
        connection.execute("INSERT INTO sessions (id, title, created, updated, owner) VALUES (?,?,?,?,?)", values)
        return session

    def _require_space(self, connection: SqlConnection) -> None:
        """Raises RequestRejected if the state is full: the conversations of others make no room."""
        self._state.require_space(self._retention.free_disk_bytes)
        size = int(connection.execute("SELECT coalesce(sum(bytes), 0) FROM sessions").fetchone()[0])
        if size >= self._retention.max_total_bytes:
            message = f"the server stores {size:,} bytes of conversations: it takes no more until some are deleted"
            raise RequestRejected(ErrorResponse(507, message, "quota_exceeded", "server_error"))

    def _evict(self, connection: SqlConnection, owner: str, *, new_conversations: int = 0, new_empty: int = 0) -> None:
        """Delete the least recently used sessions of an owner, so that as many new ones fit; none of others.

        Conversations and empty sessions are counted apart: whoever starts sessions and does not use them pushes out
        no conversation. Empty ones may use the room that conversations leave, and EMPTY_SHARE of all in any case.
        A session with a running answer stays.
        """
        limit = self._retention.max_sessions
        counts = "SELECT count(*), coalesce(sum(CASE WHEN bytes > 0 THEN 1 ELSE 0 END), 0), coalesce(sum(bytes), 0)"
        row = connection.execute(f"{counts} FROM sessions WHERE owner = ?", (owner,)).fetchone()
        count, used, size = map(int, row)
        room = max(1, int(limit * EMPTY_SHARE), limit - used - new_conversations)
        oldest = "id IN (SELECT id FROM sessions s WHERE owner = ? AND bytes {} 0 AND {} ORDER BY updated, id LIMIT ?)"
        for comparison, excess in (("=", count - used + new_empty - room), (">", used + new_conversations - limit)):
            if excess > 0:
                _delete_sessions(connection, oldest.format(comparison, _IS_IDLE), (owner, excess))
        if size > self._retention.max_bytes:
            sums = "SELECT id, sum(bytes) OVER (ORDER BY updated DESC, id DESC) AS total FROM sessions WHERE owner = ?"
            larger = f"id IN (SELECT id FROM ({sums}) s WHERE total > ? AND {_IS_IDLE})"  # noqa: S608 - constants
            _delete_sessions(connection, larger, (owner, self._retention.max_bytes))


_IS_IDLE = "NOT EXISTS (SELECT 1 FROM messages m WHERE m.session = s.id AND m.status = 'running')"
_SESSION_COLUMNS = (
    "id, title, created, updated, (SELECT count(*) FROM messages m WHERE m.session = s.id AND m.role = 'user')"
    " + (SELECT count(*) FROM messages m WHERE m.session = s.id AND m.role = 'assistant'), ended, labels, note"
)
_MESSAGE_COLUMNS = "id, role, content, created, status, trace, detail"


def shorten_title(text: str) -> str:
    """One line of at most MAX_TITLE_CHARS characters."""
    line = _one_line(text)
    return line if len(line) <= MAX_TITLE_CHARS else line[: MAX_TITLE_CHARS - 1].rstrip() + "…"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _as_json(labels: JSON) -> str:
    """Labels as they are stored, or one as it stands among them: between quotation marks, which no label holds bare."""
    return json.dumps(labels, ensure_ascii=False)


def _annotation_bytes(labels: str, note: str) -> int:
    """What labels and note take, about."""
    return len(labels.encode()) + len(note.encode())


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
    """A row as MessageSchema, with the origins of an answer for the filter."""
    identity, role, content, created, status, trace, detail = row
    details = json.loads(detail)
    if role == "assistant":
        details.setdefault(ORIGINS_KEY, None)  # of answers of earlier versions they are not known
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
        " VALUES (?,?,?,?,?,?,?,?,?)",
        (*values, json.dumps({ORIGINS_KEY: []})),
    )


def _is_told(message: Mapping[str, JSON]) -> bool:
    """Whether a message is part of the conversation that a follow-up question continues."""
    return bool(message["content"]) and message["status"] != "error"


def _stored_bytes(messages: Sequence[tuple[str, str]]) -> int:
    """What messages take, about: each a text and its details."""
    return sum(MESSAGE_BYTES + len(text.encode("utf-8", "surrogatepass")) + len(detail) for text, detail in messages)


def _delete_sessions(connection: SqlConnection, condition: str, values: tuple[object, ...]) -> None:
    """Delete sessions with the texts of their traces."""
    rows = connection.execute(f"SELECT id FROM sessions WHERE {condition}", values).fetchall()  # noqa: S608 - constant
    for session in rows:
        forget_texts(connection, "session = ?", session)
        connection.execute("DELETE FROM sessions WHERE id = ?", session)


def is_visible(connection: SqlConnection, session: str) -> bool:
    """Whether there is a session that the current principal may see."""
    owned, owner = owned_sql()
    row = connection.execute(f"SELECT 1 FROM sessions WHERE id = ? AND {owned}", (session, *owner))  # noqa: S608
    return row.fetchone() is not None


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
    if row is None or not is_visible(connection, session):
        raise not_found("session", "session_not_found")
    return _session_json(row)


def _session_json(row: Sequence[Any]) -> dict[str, JSON]:
    identity, title, created, updated, messages, ended, labels, note = row
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
        "labels": json.loads(labels),
        "note": note,
    }
