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
from ragkit.server.principals import current_holder, owned_sql
from ragkit.server.state.database import AnswerStore, decode_cursor, encode_cursor, format_time, in_transaction
from ragkit.server.state.rights_filter import ORIGINS_KEY
from ragkit.server.state.trace_record import EMPTY_RECORD, forget_texts, without_texts
from ragkit.sql import SqlConnection

_TRACE_COLUMNS = "id, session, status, started, ended, model, question, usage, spans, error, record"


class TraceStore(AnswerStore):
    """The traces in a state database."""

    @in_transaction
    def start(self, connection: SqlConnection, trace: str, session: str | None, model: str, question: str) -> None:
        """Add a running trace. The question is stored only if it belongs to a session."""
        values = (trace, session, time.time(), model, question if session else "", self._state.worker_id)
        record = _dump({ORIGINS_KEY: []})
        connection.execute(
            "INSERT INTO traces (id, session, status, started, model, question, worker, record, owner, usage, spans,"
            " error) VALUES (?,?,'running',?,?,?,?,?,?,'{}','[]','')",
            (*values, record, current_holder()),
        )

    @in_transaction
    def finish(
        self, connection: SqlConnection, trace: str, status: str, result: Mapping[str, JSON], error: str = ""
    ) -> dict[str, JSON]:
        """Finish a trace and return it. `result` may hold `model`, `usage`, `spans` and `record`.

        The record of an answer without a session is returned as it is, and stored without its texts.
        """
        record = cast("Mapping[str, JSON]", result.get("record") or {**EMPTY_RECORD, ORIGINS_KEY: []})
        usage, spans = _dump(result.get("usage") or {}), _dump(result.get("spans") or [])
        connection.execute(
            "UPDATE traces SET status = ?, ended = ?, model = coalesce(?, model), usage = ?, spans = ?, error = ?,"
            " record = CASE WHEN session IS NULL THEN ? ELSE ? END, worker = NULL"
            " WHERE id = ? AND status = 'running'",
            (status, time.time(), result.get("model"), usage, spans, error, _dump(without_texts(record)), _dump(record),
             trace),
        )  # fmt: skip
        grow = "UPDATE sessions SET bytes = bytes + ? WHERE id = (SELECT session FROM traces WHERE id = ?)"
        connection.execute(grow, (len(_dump(record)) + len(spans), trace))
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
        owned, owner = owned_sql()
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
            "DELETE FROM traces WHERE status != 'running' AND id IN (SELECT id FROM (SELECT id, row_number() OVER"
            " (PARTITION BY owner ORDER BY started DESC, id DESC) AS place FROM traces) t WHERE place > ?)",
            (self._retention.max_traces,),
        )
        forget_texts(connection, "NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = traces.session)")
        connection.execute("DELETE FROM suspended WHERE created < ?", (time.time() - MAX_SUSPENDED_S,))

    @in_transaction
    def save_suspended_run(self, connection: SqlConnection, run: str) -> str:
        """Store a run that waits for tool results of the caller. Returns its id."""
        identity = secrets.token_urlsafe(16)
        values = (identity, time.time(), run, current_holder())
        connection.execute("INSERT INTO suspended (id, created, run, owner) VALUES (?,?,?,?)", values)
        return identity

    @in_transaction
    def load_suspended_run(self, connection: SqlConnection, identity: str) -> str | None:
        """A stored run; None if it is unknown or expired."""
        owned, owner = owned_sql()
        row = connection.execute(f"SELECT run FROM suspended WHERE id = ? AND {owned}", (identity, *owner)).fetchone()  # noqa: S608
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


def _dump(value: object) -> str:
    return json.dumps(value, default=dict)


def _load_trace(connection: SqlConnection, trace: str) -> dict[str, JSON]:
    owned, owner = owned_sql()
    statement = f"SELECT {_TRACE_COLUMNS} FROM traces WHERE id = ? AND {owned}"  # noqa: S608 - own columns
    row = connection.execute(statement, (trace, *owner)).fetchone()
    if row is None:
        raise not_found("trace", "trace_not_found")
    return {**_trace_json(row), "spans": json.loads(row[8]), **EMPTY_RECORD, **json.loads(row[10])}


def _trace_json(row: tuple[Any, ...]) -> dict[str, JSON]:
    """A row as TraceSchema, with the origins of the answer for the filter."""
    identity, session, status, started, ended, model, question, usage, _, error, record = row
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
        ORIGINS_KEY: json.loads(record).get(ORIGINS_KEY) if question or error else [],
    }
