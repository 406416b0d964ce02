"""Read files that SQLite has open without releasing SQLite's locks, also while another process keeps them locked.

When a process closes any handle of a file, POSIX releases all locks that the process holds on that file, including
those of SQLite's connections. Another process may then delete the write-ahead log that is being read. A handle beside
SQLite's own is therefore shared, and closed only when this process has no connection to the file.
Source: sqlite.org/howtocorrupt.html, section 2.2.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_BLOCK_BYTES = 1 << 20
_WAL_HEADER_BYTES = 32
_COPY_ATTEMPTS = 5

Inode = tuple[int, int]
"""Device and inode number, by which the kernel keeps locks."""


@dataclass
class _FileUse:
    """The uses of a file by this process."""

    connections: int = 0
    readers: int = 0
    handles: list[int] = field(default_factory=list)


_lock = threading.Lock()
_uses_by_inode: dict[Inode, _FileUse] = {}


class _CountedConnection(sqlite3.Connection):
    """A connection that is counted until it is closed."""

    inode: Inode | None = None

    def close(self) -> None:
        """See `sqlite3.Connection.close`."""
        super().close()
        inode, self.inode = self.inode, None
        if inode is not None:
            _release(inode, connections=1)


class CopiedConnection(sqlite3.Connection):
    """A connection to a copy of a database, which does not see what is written after it was made."""


def connect(path: Path, mode: str, busy_seconds: float) -> sqlite3.Connection:
    """A connection in autocommit mode, for one thread at a time.

    Args:
        path: the database.
        mode: `rw`, or `rwc` to create a missing database.
        busy_seconds: seconds to wait for the commit of another connection.
    """
    before = _get_inode(path)
    if before is not None:  # counted before SQLite opens it, so that no handle is closed from here on
        _add_connection(before)
    connection: _CountedConnection | None = None
    try:
        uri = f"{path.resolve().as_uri()}?mode={mode}"
        connection = sqlite3.connect(
            uri,
            uri=True,
            timeout=busy_seconds,
            isolation_level=None,
            check_same_thread=False,
            factory=_CountedConnection,
        )
        connection.inode = _get_inode(path)
        if connection.inode is not None:
            _add_connection(connection.inode)
    finally:
        if before is not None:
            _release(before, connections=1)
    return connection


def connect_to_copy(path: Path) -> CopiedConnection:
    """A connection to a private copy of a database in its last committed state, whoever keeps the database locked.

    SQLite recovers a log, and copies it into the database when the last connection is closed, under a lock that keeps
    out every reader. A process that is stopped there keeps the lock. Until the log is begun anew, all pages that such
    a process may be writing are in the log: the copy is sound if the log was the same before and after.

    Raises:
        OSError: there is no room for the copy, or others write too often.
        sqlite3.DatabaseError: the database is corrupt.
    """
    folder = Path(tempfile.mkdtemp(prefix="ragkit-"))
    try:
        copy, log = folder / "copy", Path(f"{path}-wal")
        for _ in range(_COPY_ATTEMPTS):
            before = (_get_inode(path), _state_of_log(log))
            with open_shared_handle(path) as handle:
                _copy_file(handle, copy)
            _copy_log(log, Path(f"{copy}-wal"))
            if (_get_inode(path), _state_of_log(log)) == before:
                break
        else:
            raise OSError(f"{path} is being written")
        connection = sqlite3.connect(copy, isolation_level=None, check_same_thread=False, factory=CopiedConnection)
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")  # no -shm file: the folder goes
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return connection
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # what is open stays readable


def _state_of_log(log: Path) -> tuple[int, int, int, bytes] | None:
    """What changes when a log is written, and when it is begun anew: its header has other salts."""
    try:
        with log.open("rb") as file:
            stat = os.fstat(file.fileno())
            return stat.st_ino, stat.st_size, stat.st_mtime_ns, file.read(_WAL_HEADER_BYTES)
    except FileNotFoundError:
        return None


def _copy_log(log: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        with log.open("rb") as file:  # no locks are on it
            _copy_file(file.fileno(), target)
    except FileNotFoundError:
        return


def _copy_file(handle: int, target: Path) -> None:
    offset = 0
    with target.open("wb") as file:
        while block := os.pread(handle, _BLOCK_BYTES, offset):
            file.write(block)
            offset += len(block)


@contextmanager
def open_shared_handle(path: Path) -> Iterator[int]:
    """A shared handle for `os.pread`, `os.fstat` and `os.fsync`. Raises OSError."""
    inode, handle = _acquire_handle(path)
    try:
        yield handle
    finally:
        _release(inode, readers=1)


def _acquire_handle(path: Path) -> tuple[Inode, int]:
    with _lock:
        known = _uses_by_inode.get(_get_inode(path) or (-1, -1))
        handle = known.handles[0] if known is not None and known.handles else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        stat = os.fstat(handle)
        inode = (stat.st_dev, stat.st_ino)
        use = _uses_by_inode.setdefault(inode, _FileUse())
        use.readers += 1
        if handle not in use.handles:
            use.handles.append(handle)
        return inode, handle


def _add_connection(inode: Inode) -> None:
    with _lock:
        _uses_by_inode.setdefault(inode, _FileUse()).connections += 1


def _release(inode: Inode, *, connections: int = 0, readers: int = 0) -> None:
    with _lock:
        use = _uses_by_inode[inode]
        use.connections -= connections
        use.readers -= readers
        if not use.connections and not use.readers:
            del _uses_by_inode[inode]
            for handle in use.handles:
                os.close(handle)


def _get_inode(path: Path) -> Inode | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
