"""Stores jobs: changes of the knowledge base that run one after another, and survive the process that runs them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
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
from ragkit.server.state.uploads import SeenDocument
from ragkit.sql import SqlConnection

JobStatus: TypeAlias = Literal["queued", "running", "done", "failed", "cancelled", "needs_confirmation"]
ENDED: tuple[JobStatus, ...] = ("done", "failed", "cancelled", "needs_confirmation")
MAX_ATTEMPTS = 3
"""A job that was running when its process died is started so many times."""
MAX_QUEUED = 100
"""Jobs of one person that wait; further ones are rejected."""
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
    """Sources to remove from the index, with all their documents."""
    documents: tuple[SeenDocument, ...] = ()
    """Documents to remove, and to delete if they are uploaded files."""
    uploads_until: int | None = None
    """Remove and delete all uploads of the place but those with a higher number; None: none."""
    index: tuple[str, ...] = ()
    """Folders, files and URLs to index."""
    again: tuple[str, ...] = ()
    """Sources to read again although they have not changed."""
    retry_failed: bool = False
    """Read files that failed before again, although they have not changed."""
    max_cost_usd: float | None = None
    """Estimated cost above which the job needs a confirmation. None: no limit."""
    place: str = ""
    """Where the files are that it reads or deletes; only a server of that place runs it. Empty: each server can."""
    by: str = ""
    """Who asked for it."""

    @property
    def has_local_files(self) -> bool:
        """Whether it reads files of the server that takes it."""
        return not all(map(is_url, self.index))

    @property
    def removes(self) -> bool:
        """Whether what is indexed before it may be gone after it."""
        return bool(self.remove or self.documents or self.uploads_until is not None)


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
    def submit(self, connection: SqlConnection, request: JobRequest, *, has_room: bool = False) -> Job:
        """Queue a job; of equal ones of one person, one waits at a time. Raises RequestRejected if too many wait.

        `has_room`: `require_room` was called before the work that the job follows.
        """
        if request.has_local_files and not request.place:
            request = replace(request, place=self._place)
        waiting = _waiting(connection)
        if (equal := _equal(waiting, request)) is not None:
            return _load(connection, equal)
        if not has_room:
            _require_room(waiting, request.by)
        job, text = new_id("job"), json.dumps(asdict(request))
        last = connection.execute("SELECT coalesce(max(created), 0) FROM jobs").fetchone()[0]
        values = (job, max(time.time(), last + 1e-6), text)  # in order, although the clock may be set back
        connection.execute("INSERT INTO jobs (id, status, created, request) VALUES (?, 'queued', ?, ?)", values)
        kept = "SELECT id FROM jobs WHERE ended IS NOT NULL ORDER BY created DESC, id DESC LIMIT ?"
        connection.execute(f"DELETE FROM jobs WHERE ended IS NOT NULL AND id NOT IN ({kept})", (MAX_KEPT,))  # noqa: S608 - constant
        return _load(connection, job)

    @in_transaction
    def require_room(self, connection: SqlConnection, by: str) -> None:
        """Raises RequestRejected if too many jobs of a person wait."""
        _require_room(_waiting(connection), by)

    @in_transaction
    def claim(self, connection: SqlConnection) -> Job | None:
        """The next job, now running in this process; None if another one runs, or none waits."""
        self._requeue_interrupted(connection)
        if connection.execute("SELECT 1 FROM jobs WHERE status = 'running'").fetchone():
            return None
        waiting = [job for job in _waiting(connection) if job.request.place in ("", self._place)]
        job = _next(connection, waiting)
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
    def list(
        self, connection: SqlConnection, cursor: str | None, limit: int, by: str | None = None
    ) -> tuple[list[Job], str | None]:
        """A page of jobs, latest first, and the cursor of the next page; with `by` only those of one person."""
        self._requeue_interrupted(connection)
        after = decode_cursor(cursor, float, str) if cursor else [1e300, ""]
        count = limit + 1 if by is None else MAX_KEPT + MAX_QUEUED  # whose a job is stands in its request
        rows = connection.execute(
            f"SELECT {_COLUMNS} FROM jobs WHERE (created, id) < (?, ?) ORDER BY created DESC, id DESC LIMIT ?",  # noqa: S608
            (*after, count),
        ).fetchall()
        jobs = [job for job in map(_to_job, rows) if by in (None, job.request.by)]
        next_cursor = encode_cursor(jobs[limit - 1].created, jobs[limit - 1].id) if len(jobs) > limit else None
        return jobs[:limit], next_cursor

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


def _waiting(connection: SqlConnection) -> list[Job]:
    """The queued jobs, oldest first."""
    query = f"SELECT {_COLUMNS} FROM jobs WHERE status = 'queued' ORDER BY created, id"  # noqa: S608
    return [_to_job(row) for row in connection.execute(query).fetchall()]


def _equal(waiting: Sequence[Job], request: JobRequest) -> str | None:
    """A queued job that serves a request too: nothing that waits after it undoes what it does."""
    for job in reversed(waiting):
        if job.request == request and not job.cancel:
            return job.id
        if job.request.removes or request.removes:
            return None
    return None


def _require_room(waiting: Sequence[Job], by: str) -> None:
    count = sum(job.request.by == by for job in waiting)
    if count >= MAX_QUEUED:
        raise service_unavailable(f"{count} of your jobs are waiting, which is the limit: retry later")


def _next(connection: SqlConnection, waiting: Sequence[Job]) -> str | None:
    """The job that runs next: people take turns, and what one asks for is done in order.

    The removal of a source keeps its place among all jobs: what was indexed before it goes, what comes after stays.
    """
    barrier = next((number for number, job in enumerate(waiting) if job.request.remove), len(waiting))
    first = {job.request.by: job.id for job in reversed(waiting[: max(1, barrier)])}
    if len(first) > 1:
        rows = connection.execute(f"SELECT {_COLUMNS} FROM jobs WHERE started IS NOT NULL ORDER BY started")  # noqa: S608
        latest = {job.request.by: job.started for job in map(_to_job, rows.fetchall())}
        return min(reversed(first.items()), key=lambda item: latest.get(item[0]) or 0.0)[1]
    return next(iter(first.values()), None)


def _load(connection: SqlConnection, job: str) -> Job:
    row = connection.execute(f"SELECT {_COLUMNS} FROM jobs WHERE id = ?", (job,)).fetchone()  # noqa: S608
    if row is None:
        raise not_found("job", "job_not_found")
    return _to_job(row)


def _to_job(row: tuple[Any, ...]) -> Job:
    job, status, created, started, ended, attempts, cancel, request, state = row
    stored = json.loads(request)
    known = {name: stored[name] for name in JobRequest.__dataclass_fields__ if name in stored}
    lists = {name: tuple(known.get(name, ())) for name in ("remove", "index", "again")}
    documents = tuple(SeenDocument(**document) for document in known.get("documents", ()))
    asked = JobRequest(**{**known, **lists, "documents": documents})
    return Job(job, status, created, started, ended, attempts, bool(cancel), asked, json.loads(state))
