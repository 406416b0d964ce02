"""The state of a server in one SQLite file that its worker processes share.

Every worker holds a lock on a file of its own, which the kernel releases when the process ends.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from ragkit.errors import KnowledgeBaseDamaged
from ragkit.server.http_errors import disk_full
from ragkit.server.state.schema import SCHEMA_VERSION, migrate
from ragkit.sql import SqlConnection
from ragkit.sqlite_errors import DATABASE_ERRORS
from ragkit.sqlite_wal import enable_wal

T = TypeVar("T")

FILE_NAME = "server.sqlite"
LOCKS_FOLDER = "server.workers"
"""Directory of the lock files of the workers."""
BUSY_TIMEOUT_S = 20.0


class SqliteState:
    """The open state file of a directory, for one thread."""

    def __init__(self, directory: Path, worker: str) -> None:
        """Open or create the file. Raises KnowledgeBaseDamaged if it is not one, or of a later version."""
        self._locks_folder = directory / LOCKS_FOLDER
        self._worker = worker
        self._lock_fd = self._acquire_lock()
        self._connection = _open(directory / FILE_NAME)

    def run(self, work: Callable[[SqlConnection], T]) -> T:
        """The result of `work` in one transaction."""
        try:
            with _transaction(self._connection):
                return work(self._connection)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
                raise disk_full() from error
            raise

    def close(self) -> None:
        """Close the file and release the lock of this worker."""
        self._connection.close()
        self.forget(self._worker)
        os.close(self._lock_fd)

    def is_alive(self, connection: SqlConnection, worker: str) -> bool:
        """Whether the process of a worker runs: it holds its lock."""
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

    def check_writable(self, connection: SqlConnection) -> None:
        """Write something. Raises sqlite3.OperationalError."""
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def forget(self, worker: str) -> None:
        """Delete the lock file of a dead worker."""
        self._lock_path(worker).unlink(missing_ok=True)

    def _acquire_lock(self) -> int:
        self._locks_folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._lock_path(self._worker), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def _lock_path(self, worker: str) -> Path:
        return self._locks_folder / f"{worker}.lock"


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    with connection:  # commits, or rolls back what has begun
        connection.execute("BEGIN IMMEDIATE")
        yield


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        path.chmod(0o600)  # conversations are private
        enable_wal(connection, BUSY_TIMEOUT_S)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")
        with _transaction(connection):
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            migrate(connection, version)
            if version < SCHEMA_VERSION:
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    except DATABASE_ERRORS as error:
        connection.close()
        fix = f"`mv {path} {path}.old` to start with a new one"
        raise KnowledgeBaseDamaged(str(path), f"cannot be read ({error})", fix) from error
    if version > SCHEMA_VERSION:
        connection.close()
        raise KnowledgeBaseDamaged(str(path), "was written by a later version of ragkit", "use that version")
    return connection
