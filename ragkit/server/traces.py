"""Stores traces: the spans of each answer. They contain no text of documents or answers."""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Mapping
from typing import Any

from ragkit.agent.trace import AgentTrace, TraceSpan
from ragkit.records import JSON
from ragkit.server.database import StateStore, decode_cursor, encode_cursor, format_time, in_transaction
from ragkit.server.http_errors import not_found

_TRACE_COLUMNS = "id, session, status, started, ended, model, question, usage, spans, error"


class TraceStore(StateStore):
    """The traces in a state database."""

    @in_transaction
    def start(self, connection: sqlite3.Connection, trace: str, session: str | None, model: str, question: str) -> None:
        """Add a running trace. The question is stored only if it belongs to a session."""
        values = (trace, session, time.time(), model, question if session else "", self._state.worker_id)
        connection.execute(
            "INSERT INTO traces (id, session, status, started, model, question, worker, usage, spans, error)"
            " VALUES (?,?,'running',?,?,?,?,'{}','[]','')",
            values,
        )

    @in_transaction
    def finish(
        self, connection: sqlite3.Connection, trace: str, status: str, result: Mapping[str, JSON], error: str = ""
    ) -> None:
        """Finish a trace. `result` may hold `model`, `usage` and `spans`."""
        usage = json.dumps(result.get("usage") or {}, default=dict)
        spans = json.dumps(result.get("spans") or [], default=dict)
        connection.execute(
            "UPDATE traces SET status = ?, ended = ?, model = coalesce(?, model), usage = ?, spans = ?, error = ?,"
            " worker = NULL WHERE id = ?",
            (status, time.time(), result.get("model"), usage, spans, error, trace),
        )

    @in_transaction
    def get(self, connection: sqlite3.Connection, trace: str) -> dict[str, JSON]:
        """A trace with its spans. Raises RequestRejected if there is none."""
        self._state.mark_interrupted(connection)
        row = connection.execute(f"SELECT {_TRACE_COLUMNS} FROM traces WHERE id = ?", (trace,)).fetchone()  # noqa: S608
        if row is None:
            raise not_found("trace", "trace_not_found")
        return {**_trace_json(row), "spans": json.loads(row[8])}

    @in_transaction
    def list(
        self, connection: sqlite3.Connection, cursor: str | None, limit: int, session: str | None
    ) -> tuple[list[JSON], str | None]:
        """A page of traces without spans, latest first, and the cursor of the next page."""
        after = decode_cursor(cursor, float, str) if cursor else [1e300, ""]
        self._state.mark_interrupted(connection)
        rows = connection.execute(
            f"SELECT {_TRACE_COLUMNS} FROM traces WHERE (started, id) < (?, ?) AND (? IS NULL OR session = ?)"  # noqa: S608
            " ORDER BY started DESC, id DESC LIMIT ?",
            (*after, session, session, limit + 1),
        ).fetchall()
        next_cursor = encode_cursor(float(rows[limit - 1][3]), rows[limit - 1][0]) if len(rows) > limit else None
        return [_trace_json(row) for row in rows[:limit]], next_cursor

    @in_transaction
    def delete_expired(self, connection: sqlite3.Connection) -> None:
        """Delete traces that are too old or too many, and expired suspended runs."""
        oldest = time.time() - self._retention.days * 86400
        connection.execute("DELETE FROM traces WHERE started < ? AND status != 'running'", (oldest,))
        connection.execute(
            "DELETE FROM traces WHERE status != 'running' AND id IN"
            " (SELECT id FROM traces ORDER BY started DESC, id DESC LIMIT -1 OFFSET ?)",
            (self._retention.max_traces,),
        )
        connection.execute("DELETE FROM suspended WHERE created < ?", (time.time() - MAX_SUSPENDED_S,))

    @in_transaction
    def save_suspended_run(self, connection: sqlite3.Connection, run: str) -> str:
        """Store a run that waits for tool results of the caller. Returns its id."""
        identity = secrets.token_urlsafe(16)
        connection.execute("INSERT INTO suspended VALUES (?,?,?)", (identity, time.time(), run))
        return identity

    @in_transaction
    def load_suspended_run(self, connection: sqlite3.Connection, identity: str) -> str | None:
        """A stored run; None if it is unknown or expired."""
        row = connection.execute("SELECT run FROM suspended WHERE id = ?", (identity,)).fetchone()
        return None if row is None else str(row[0])


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


def _trace_json(row: tuple[Any, ...]) -> dict[str, JSON]:
    identity, session, status, started, ended, model, question, usage, _, error = row
    return {
        "id": identity,
        "session_id": session,
        "status": status,
        "started": format_time(started),
        "ended": format_time(ended),
        "model": model,
        "question": question,
        "usage": json.loads(usage) or None,
        "error": error or None,
    }
