"""Read files that SQLite has open without releasing SQLite's locks.

When a process closes any handle of a file, POSIX releases all locks that the process holds on that file, including
those of SQLite's connections. Another process may then delete the write-ahead log that is being read. A handle beside
SQLite's own is therefore shared, and closed only when this process has no connection to the file.
Source: sqlite.org/howtocorrupt.html, section 2.2.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

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
