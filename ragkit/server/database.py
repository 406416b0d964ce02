"""The state of a server in one SQLite file that its workers share: tables, and the thread that uses the connection.

Every worker holds a lock on a file of its own, which the kernel releases when the process ends. A running answer
whose worker holds no lock was interrupted.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import fcntl
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from ragkit.errors import KnowledgeBaseDamaged
from ragkit.server.http_errors import invalid_request
from ragkit.server.settings import Retention
from ragkit.sqlite_wal import enable_wal

P = ParamSpec("P")
T = TypeVar("T")
StoreT = TypeVar("StoreT", bound="StateStore")

FILE_NAME = "server.sqlite"
LOCKS_FOLDER = "server.workers"
"""Directory of the lock files of the workers."""
SCHEMA_VERSION = 2
BUSY_TIMEOUT_S = 20.0

TABLES = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, title TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, ended REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_use ON sessions (updated, id);

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
    worker TEXT, record TEXT NOT NULL DEFAULT '{}'
) STRICT, WITHOUT ROWID;
CREATE INDEX traces_by_time ON traces (started, id);
CREATE INDEX traces_by_session ON traces (session, started, id);
CREATE INDEX traces_running ON traces (worker) WHERE status = 'running';

-- Runs that are suspended until the caller sends tool results.
CREATE TABLE suspended (id TEXT PRIMARY KEY, created REAL NOT NULL, run TEXT NOT NULL) STRICT, WITHOUT ROWID;
"""

UPGRADES = {1: "ALTER TABLE traces ADD COLUMN record TEXT NOT NULL DEFAULT '{}'"}
"""Schema version -> the statement that leads to the next one."""


def new_id(prefix: str) -> str:
    """An id that cannot be guessed: 128 random bits."""
    return f"{prefix}_{secrets.token_urlsafe(16)}"


def format_time(seconds: float | None) -> str | None:
    """Unix seconds as `2026-11-22T01:02:03.456Z`."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode_cursor(*values: str | float) -> str:
    """An opaque cursor for the next page of a list."""
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, *kinds: type) -> list[str | float]:
    """The inverse of `encode_cursor`. Raises RequestRejected for an invalid cursor."""
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise invalid_request("invalid cursor: use `next` of the previous page", "cursor", "invalid_cursor") from error
    if not isinstance(values, list) or [type(value) for value in values] != list(kinds):
        raise invalid_request("invalid cursor: use `next` of the previous page", "cursor", "invalid_cursor")
    return values


class StateDatabase:
    """The open state file. `run` executes functions in the one thread that uses its connection."""

    def __init__(self, directory: Path) -> None:
        """Open or create the file. Raises KnowledgeBaseDamaged if it is not one, or of a later version."""
        self.worker_id = new_id("wrk")
        self._locks_folder = directory / LOCKS_FOLDER
        self._lock_fd = self._acquire_lock()
        self._executor = ThreadPoolExecutor(1, "ragkit-server-state")
        self._connection = self._executor.submit(_open, directory / FILE_NAME).result()
        self._executor.submit(self.mark_interrupted, self._connection).result()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction and return its result. It completes even if the caller is cancelled."""
        future = asyncio.get_running_loop().run_in_executor(self._executor, self._run_in_transaction, work)
        return await asyncio.shield(future)

    def close(self) -> None:
        """Close the file and release the lock of this worker."""
        self._executor.submit(self._connection.close).result()
        self._executor.shutdown()
        self._lock_path(self.worker_id).unlink(missing_ok=True)
        os.close(self._lock_fd)

    def mark_interrupted(self, connection: sqlite3.Connection) -> None:
        """Mark the running rows of dead workers as interrupted. Call it before reading running rows."""
        rows = connection.execute(
            "SELECT worker FROM traces WHERE status = 'running' UNION SELECT worker FROM messages"
            " WHERE status = 'running'"
        )
        for (worker,) in rows.fetchall():
            if not self.is_alive(worker):
                now = time.time()
                connection.execute(
                    "UPDATE traces SET status = 'interrupted', ended = ?, error = 'the server was stopped'"
                    " WHERE status = 'running' AND worker = ?",
                    (now, worker),
                )
                interrupted = "UPDATE messages SET status = 'interrupted' WHERE status = 'running' AND worker = ?"
                connection.execute(interrupted, (worker,))
                self._lock_path(worker).unlink(missing_ok=True)

    def _run_in_transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with _transaction(self._connection):
            return work(self._connection)

    def _acquire_lock(self) -> int:
        self._locks_folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._lock_path(self.worker_id), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def _lock_path(self, worker: str) -> Path:
        return self._locks_folder / f"{worker}.lock"

    def is_alive(self, worker: str) -> bool:
        """Whether the process of a worker runs: it holds its lock."""
        if worker == self.worker_id:
            return True
        try:
            lock = os.open(self._lock_path(worker), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False


class StateStore:
    """Some of the tables of a state database."""

    def __init__(self, state: StateDatabase, retention: Retention) -> None:
        self._state = state
        self._retention = retention


def in_transaction(
    method: Callable[Concatenate[StoreT, sqlite3.Connection, P], T],
) -> Callable[Concatenate[StoreT, P], Coroutine[Any, Any, T]]:
    """Make a method asynchronous: it runs in the thread and one transaction of the database, with its connection."""

    @wraps(method)
    async def run(self: StoreT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        context = copy_context()  # it says whose the rows are
        return await self._state.run(lambda connection: context.run(method, self, connection, *args, **kwargs))

    return run


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        path.chmod(0o600)  # conversations are private
        enable_wal(connection, BUSY_TIMEOUT_S)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")
        with _transaction(connection):
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if version == 0:
                for statement in TABLES.split(";"):
                    connection.execute(statement)
            for number in range(version, SCHEMA_VERSION) if version else ():
                connection.execute(UPGRADES[number])
            if version < SCHEMA_VERSION:
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    except sqlite3.DatabaseError as error:
        connection.close()
        fix = f"`mv {path} {path}.old` to start with a new one"
        raise KnowledgeBaseDamaged(str(path), f"cannot be read ({error})", fix) from error
    if version > SCHEMA_VERSION:
        connection.close()
        raise KnowledgeBaseDamaged(str(path), "was written by a later version of ragkit", "use that version")
    return connection
