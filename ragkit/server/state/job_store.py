"""Stores jobs: changes of the knowledge base that run one after another, and survive the process that runs them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

from ragkit.index.sources.web_pages import is_url
from ragkit.records import JSON
from ragkit.server.http_errors import invalid_request, not_found, service_unavailable
from ragkit.server.settings import Retention
from ragkit.server.state.database import (
    StateDatabase,
    StateStore,
    decode_cursor,
    encode_cursor,
    format_time,
    in_transaction,
    new_id,
)
from ragkit.sql import SqlConnection

JobStatus: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled", "needs_confirmation"]
ENDED: tuple[JobStatus, ...] = ("done", "failed", "cancelled", "needs_confirmation")
MAX_ATTEMPTS = 3
"""A job that was running when its process died is started so many times."""
MAX_QUEUED = 100
"""Jobs that wait; further ones are rejected."""
MAX_KEPT = 1000
"""Ended jobs that are kept."""
_TABLE = (
    "CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, status TEXT NOT NULL, created REAL NOT NULL, started REAL,"
    " ended REAL, attempts INTEGER NOT NULL DEFAULT 0, cancel INTEGER NOT NULL DEFAULT 0, worker TEXT,"
    " request TEXT NOT NULL, state TEXT NOT NULL DEFAULT '{}') STRICT, WITHOUT ROWID"
)
_COLUMNS = "id, status, created, started, ended, attempts, cancel, request, state"


@dataclass(frozen=True)
class JobRequest:
    """What a job does, in this order."""

    kind: Literal["index", "remove", "dry_run"]
    remove: tuple[str, ...] = ()
    """Sources to remove from the index."""
    delete_uploads: tuple[str, ...] | None = ()
    """Names of uploaded files to delete; None: all."""
    index: tuple[str, ...] = ()
    """Folders, files and URLs to index."""
    retry_failed: bool = False
    """Read files that failed before again, although they have not changed."""
    max_cost_usd: float | None = None
    """Estimated cost above which the job needs a confirmation. None: no limit."""
    place: str = ""
    """Where the files are that it reads or deletes; only a server of that place runs it. Empty: each server can."""

    @property
    def has_local_files(self) -> bool:
        """Whether it reads or deletes files of the server that takes it."""
        return self.delete_uploads != () or not all(map(is_url, self.index))


@dataclass(frozen=True)
class Job:
    """A job, as it is stored."""

    id: str
    status: JobStatus
    created: float
    started: float | None
    ended: float | None
    attempts: int
    cancel: bool
    """It was asked to stop."""
    request: JobRequest
    state: Mapping[str, JSON]
    """Its progress, failures, report and error; see `jobs`."""

    @property
    def has_ended(self) -> bool:
        """Whether it will not run again by itself."""
        return self.status in ENDED


class JobStore(StateStore):
    """The jobs in a state database."""

    def __init__(self, state: StateDatabase, retention: Retention, place: str = "") -> None:
        """`place`: the machine and folder of uploads of this server, where the servers of others share the database."""
        super().__init__(state, retention)
        self._place = place

    @in_transaction
    def open(self, connection: SqlConnection) -> None:
        """Create the table."""
        connection.execute(_TABLE)

    @in_transaction
    def submit(self, connection: SqlConnection, request: JobRequest) -> Job:
        """Queue a job; of equal ones, one waits at a time. Raises RequestRejected if too many wait."""
        if request.has_local_files:
            request = replace(request, place=self._place)
        text = json.dumps(asdict(request))
        same = "SELECT id FROM jobs WHERE status = 'queued' AND cancel = 0 AND request = ?"
        row = connection.execute(same, (text,)).fetchone()
        if row is not None:
            return _load(connection, row[0])
        queued = connection.execute("SELECT count(*) FROM jobs WHERE status = 'queued'").fetchone()[0]
        if queued >= MAX_QUEUED:
            raise service_unavailable("too many jobs are waiting: retry later")
        job = new_id("job")
        values = (job, time.time(), text)
        connection.execute("INSERT INTO jobs (id, status, created, request) VALUES (?, 'queued', ?, ?)", values)
        kept = "SELECT id FROM jobs WHERE ended IS NOT NULL ORDER BY created DESC, id DESC LIMIT ?"
        connection.execute(f"DELETE FROM jobs WHERE ended IS NOT NULL AND id NOT IN ({kept})", (MAX_KEPT,))  # noqa: S608 - constant
        return _load(connection, job)

    @in_transaction
    def claim(self, connection: SqlConnection) -> Job | None:
        """The next job, now running in this process; None if another one runs, or none waits."""
        self._requeue_interrupted(connection)
        if connection.execute("SELECT 1 FROM jobs WHERE status = 'running'").fetchone():
            return None
        queued = connection.execute(
            "SELECT id, request FROM jobs WHERE status = 'queued' ORDER BY created, id"
        ).fetchall()
        job = next((id_ for id_, text in queued if json.loads(text).get("place", "") in ("", self._place)), None)
        if job is None:
            return None
        connection.execute(
            "UPDATE jobs SET status = 'running', started = coalesce(started, ?), attempts = attempts + 1, worker = ?"
            " WHERE id = ?",
            (time.time(), self._state.worker_id, job),
        )
        return _load(connection, job)

    @in_transaction
    def update(self, connection: SqlConnection, job: str, state: Mapping[str, JSON]) -> bool:
        """Store the progress of a running job. Returns whether it must stop: it was asked to, or another one has it."""
        mine = "UPDATE jobs SET state = ? WHERE id = ? AND status = 'running' AND worker = ?"
        is_mine = connection.execute(mine, (json.dumps(state), job, self._state.worker_id)).rowcount == 1
        return not is_mine or _load(connection, job).cancel

    @in_transaction
    def finish(self, connection: SqlConnection, job: str, status: JobStatus, state: Mapping[str, JSON]) -> None:
        """Store how a job of this worker ended; `queued`: it goes on later. One that another worker took stays."""
        ended = None if status == "queued" else time.time()
        attempts = 1 if status == "queued" else 0  # an orderly stop is no failed attempt
        connection.execute(
            "UPDATE jobs SET status = ?, ended = ?, state = ?, worker = NULL, attempts = attempts - ?"
            " WHERE id = ? AND status = 'running' AND worker = ?",
            (status, ended, json.dumps(state), attempts, job, self._state.worker_id),
        )

    @in_transaction
    def cancel(self, connection: SqlConnection, job: str) -> Job:
        """Stop a job: at once if it waits, after the current file or batch if it runs. Idempotent."""
        connection.execute(
            "UPDATE jobs SET cancel = 1, ended = CASE status WHEN 'running' THEN NULL ELSE ? END,"
            " status = CASE status WHEN 'running' THEN 'running' ELSE 'cancelled' END"
            " WHERE id = ? AND status IN ('queued', 'running', 'needs_confirmation')",
            (time.time(), job),
        )
        return _load(connection, job)

    @in_transaction
    def resume(self, connection: SqlConnection, job: str, max_cost_usd: float | None) -> Job:
        """Queue an ended job again, with another limit of cost. Raises RequestRejected if it is done or runs."""
        found = _load(connection, job)
        if found.status not in ("cancelled", "failed", "needs_confirmation"):
            raise invalid_request(f"the job cannot be resumed: it is {found.status}", "job_id", "job_not_ended", 409)
        request = json.dumps(asdict(replace(found.request, max_cost_usd=max_cost_usd)))
        connection.execute(
            "UPDATE jobs SET status = 'queued', ended = NULL, cancel = 0, attempts = 0, request = ? WHERE id = ?",
            (request, job),
        )
        return _load(connection, job)

    @in_transaction
    def get(self, connection: SqlConnection, job: str) -> Job:
        """A job. Raises RequestRejected if there is none."""
        self._requeue_interrupted(connection)
        return _load(connection, job)

    @in_transaction
    def list(self, connection: SqlConnection, cursor: str | None, limit: int) -> tuple[list[Job], str | None]:
        """A page of jobs, latest first, and the cursor of the next page."""
        self._requeue_interrupted(connection)
        after = decode_cursor(cursor, float, str) if cursor else [1e300, ""]
        rows = connection.execute(
            f"SELECT {_COLUMNS} FROM jobs WHERE (created, id) < (?, ?) ORDER BY created DESC, id DESC LIMIT ?",  # noqa: S608
            (*after, limit + 1),
        ).fetchall()
        next_cursor = encode_cursor(float(rows[limit - 1][2]), rows[limit - 1][0]) if len(rows) > limit else None
        return [_to_job(row) for row in rows[:limit]], next_cursor

    def _requeue_interrupted(self, connection: SqlConnection) -> None:
        """Queue the running jobs of dead processes again; those that failed too often end."""
        rows = connection.execute("SELECT id, worker, attempts, state FROM jobs WHERE status = 'running'").fetchall()
        for job, worker, attempts, state in rows:
            if self._state.is_alive(connection, worker):
                continue
            if attempts < MAX_ATTEMPTS:
                connection.execute("UPDATE jobs SET status = 'queued', worker = NULL WHERE id = ?", (job,))
                continue
            error = {"message": f"the server stopped {attempts} times while this job ran", "code": "interrupted"}
            connection.execute(
                "UPDATE jobs SET status = 'failed', worker = NULL, ended = ?, state = ? WHERE id = ?",
                (time.time(), json.dumps({**json.loads(state), "error": error}), job),
            )


def job_json(job: Job) -> dict[str, JSON]:
    """A job as JobSchema, without its sources."""
    empty: dict[str, JSON] = {"progress": None, "failures": [], "report": None, "error": None, "estimate_usd": None}
    return {
        "id": job.id,
        "kind": job.request.kind,
        "status": job.status,
        "created": format_time(job.created),
        "started": format_time(job.started),
        "ended": format_time(job.ended),
        "attempts": job.attempts,
        "cancelling": job.cancel and job.status == "running",
        "max_cost_usd": job.request.max_cost_usd,
        **empty,
        **{key: value for key, value in job.state.items() if key in empty},
    }


def _load(connection: SqlConnection, job: str) -> Job:
    row = connection.execute(f"SELECT {_COLUMNS} FROM jobs WHERE id = ?", (job,)).fetchone()  # noqa: S608
    if row is None:
        raise not_found("job", "job_not_found")
    return _to_job(row)


def _to_job(row: tuple[Any, ...]) -> Job:
    job, status, created, started, ended, attempts, cancel, request, state = row
    fields = json.loads(request)
    deleted = fields["delete_uploads"]
    lists = {
        "remove": tuple(fields["remove"]),
        "index": tuple(fields["index"]),
        "delete_uploads": None if deleted is None else tuple(deleted),
    }
    asked = JobRequest(**{**fields, **lists})
    return Job(job, status, created, started, ended, attempts, bool(cancel), asked, json.loads(state))
