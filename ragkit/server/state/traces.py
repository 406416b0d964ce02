"""Stores traces: the spans of each answer, and its texts if it belongs to a session. Spans contain no texts."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from typing import Any, cast

from ragkit.agent.tracing.trace import AgentTrace, TraceSpan
from ragkit.records import JSON
from ragkit.server.http_errors import not_found
from ragkit.server.principals import delete_unused_owners, is_owned, owned_sql, record_owner
from ragkit.server.state.database import StateStore, decode_cursor, encode_cursor, format_time, in_transaction
from ragkit.server.state.trace_record import EMPTY_RECORD, without_texts
from ragkit.sql import SqlConnection

_TRACE_COLUMNS = "id, session, status, started, ended, model, question, usage, spans, error, record"


class TraceStore(StateStore):
    """The traces in a state database."""

    @in_transaction
    def start(self, connection: SqlConnection, trace: str, session: str | None, model: str, question: str) -> None:
        """Add a running trace. The question is stored only if it belongs to a session."""
        values = (trace, session, time.time(), model, question if session else "", self._state.worker_id)
        connection.execute(
            "INSERT INTO traces (id, session, status, started, model, question, worker, usage, spans, error)"
            " VALUES (?,?,'running',?,?,?,?,'{}','[]','')",
            values,
        )
        record_owner(connection, trace)

    @in_transaction
    def finish(
        self, connection: SqlConnection, trace: str, status: str, result: Mapping[str, JSON], error: str = ""
    ) -> dict[str, JSON]:
        """Finish a trace and return it. `result` may hold `model`, `usage`, `spans` and `record`.

        The record of an answer without a session is returned as it is, and stored without its texts.
        """
        record = cast("Mapping[str, JSON]", result.get("record") or EMPTY_RECORD)
        usage, spans = _dump(result.get("usage") or {}), _dump(result.get("spans") or [])
        connection.execute(
            "UPDATE traces SET status = ?, ended = ?, model = coalesce(?, model), usage = ?, spans = ?, error = ?,"
            " record = CASE WHEN session IS NULL THEN ? ELSE ? END, worker = NULL"
            " WHERE id = ? AND status = 'running'",
            (status, time.time(), result.get("model"), usage, spans, error, _dump(without_texts(record)), _dump(record),
             trace),
        )  # fmt: skip
        return {**_load_trace(connection, trace), **record}

    @in_transaction
    def get(self, connection: SqlConnection, trace: str) -> dict[str, JSON]:
        """A trace with its spans. Raises RequestRejected if there is none."""
        self._state.mark_interrupted(connection)
        return _load_trace(connection, trace)

    @in_transaction
    def list(
        self, connection: SqlConnection, cursor: str | None, limit: int, session: str | None
    ) -> tuple[list[JSON], str | None]:
        """A page of traces without spans, latest first, and the cursor of the next page."""
        after = decode_cursor(cursor, float, str) if cursor else [1e300, ""]
        self._state.mark_interrupted(connection)
        owned, owner = owned_sql("traces.id")
        rows = connection.execute(
            f"SELECT {_TRACE_COLUMNS} FROM traces WHERE (started, id) < (?, ?) AND (? IS NULL OR session = ?)"  # noqa: S608
            f" AND {owned} ORDER BY started DESC, id DESC LIMIT ?",
            (*after, session, session, *owner, limit + 1),
        ).fetchall()
        next_cursor = encode_cursor(float(rows[limit - 1][3]), rows[limit - 1][0]) if len(rows) > limit else None
        return [_trace_json(row) for row in rows[:limit]], next_cursor

    @in_transaction
    def delete_expired(self, connection: SqlConnection) -> None:
        """Delete traces that are too old or too many, the texts of deleted sessions, and expired suspended runs."""
        oldest = time.time() - self._retention.days * 86400
        connection.execute("DELETE FROM traces WHERE started < ? AND status != 'running'", (oldest,))
        connection.execute(
            "DELETE FROM traces WHERE status != 'running' AND id NOT IN"
            " (SELECT id FROM traces ORDER BY started DESC, id DESC LIMIT ?)",
            (self._retention.max_traces,),
        )
        orphans = connection.execute(
            "SELECT id, record FROM traces WHERE question != '' AND NOT EXISTS"
            " (SELECT 1 FROM sessions WHERE sessions.id = traces.session)"
        )
        for trace, record in orphans.fetchall():
            values = (_dump({**json.loads(record), "turns": [], "tool_calls": []}), trace)
            connection.execute("UPDATE traces SET question = '', record = ? WHERE id = ?", values)
        connection.execute("DELETE FROM suspended WHERE created < ?", (time.time() - MAX_SUSPENDED_S,))
        delete_unused_owners(connection)

    @in_transaction
    def save_suspended_run(self, connection: SqlConnection, run: str) -> str:
        """Store a run that waits for tool results of the caller. Returns its id."""
        identity = secrets.token_urlsafe(16)
        connection.execute("INSERT INTO suspended VALUES (?,?,?)", (identity, time.time(), run))
        record_owner(connection, identity)
        return identity

    @in_transaction
    def load_suspended_run(self, connection: SqlConnection, identity: str) -> str | None:
        """A stored run; None if it is unknown or expired."""
        row = connection.execute("SELECT run FROM suspended WHERE id = ?", (identity,)).fetchone()
        return None if row is None or not is_owned(connection, identity) else str(row[0])


MAX_SUSPENDED_S = 3600.0
"""Maximum seconds until the caller sends tool results."""


def spans_json(trace: AgentTrace) -> list[JSON]:
    """The spans of a run as a flat list; times are in seconds since the start."""
    spans: list[JSON] = []

    def add(span: TraceSpan, parent: int | None) -> None:
        identity = len(spans)
        start, end = round(span.started, 6), round(max(span.ended, span.started), 6)
        head: dict[str, JSON] = {"id": identity, "parent": parent, "type": span.type.value, "name": str(span.name)}
        spans.append({**head, "start": start, "end": end, "attributes": dict(span.attributes)})
        for child in span.children:
            add(child, identity)

    add(trace.root, None)
    return spans


def _dump(value: object) -> str:
    return json.dumps(value, default=dict)


def _load_trace(connection: SqlConnection, trace: str) -> dict[str, JSON]:
    row = connection.execute(f"SELECT {_TRACE_COLUMNS} FROM traces WHERE id = ?", (trace,)).fetchone()  # noqa: S608
    if row is None or not is_owned(connection, trace):
        raise not_found("trace", "trace_not_found")
    return {**_trace_json(row), "spans": json.loads(row[8]), **EMPTY_RECORD, **json.loads(row[10])}


def _trace_json(row: tuple[Any, ...]) -> dict[str, JSON]:
    identity, session, status, started, ended, model, question, usage, _, error, _ = row
    start, end = format_time(started), format_time(ended)
    return {
        "id": identity,
        "trace_id": identity,
        "session_id": session,
        "status": status,
        "started": start,
        "started_at": start,
        "ended": end,
        "completed_at": end,
        "model": model,
        "question": question,
        "usage": json.loads(usage) or None,
        "error": error or None,
    }
