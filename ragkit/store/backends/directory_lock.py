"""Lock a directory for one process, for engines that do not do so themselves.

The lock is an OS lock on a file in the directory, released when the process ends. The handles of one process share it,
together with a lock for their threads.
"""

from __future__ import annotations

import fcntl
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from ragkit.errors import KnowledgeBaseLocked, StoreError
from ragkit.store.read_write_lock import ReadWriteLock

_LOCK_FILE = "ragkit.lock"


@dataclass
class _LockEntry:
    fd: int
    users: int = 0
    lock: ReadWriteLock = field(default_factory=ReadWriteLock)


class DirectoryLock:
    """The lock of this process on a directory, shared by its handles."""

    _entries: ClassVar[dict[Path, _LockEntry]] = {}
    _entries_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, directory: Path) -> None:
        """Acquire or share the lock; the directory is created if it does not exist.

        Raises:
            KnowledgeBaseLocked: another process holds it.
            StoreError: the directory cannot be created or locked.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._path = directory.resolve()
            with self._entries_lock:
                if self._path not in self._entries:
                    self._entries[self._path] = _LockEntry(_open_locked_file(self._path))
                self._entries[self._path].users += 1
                self.lock = self._entries[self._path].lock
        except OSError as error:
            raise StoreError(f"cannot lock the directory {directory}: {error.strerror}") from error
        self._is_open = True

    def close(self) -> None:
        """Release the lock when the last handle is closed; may be called twice."""
        with self._entries_lock:
            if not self._is_open:
                return
            self._is_open = False
            entry = self._entries[self._path]
            entry.users -= 1
            if not entry.users:
                os.close(entry.fd)
                del self._entries[self._path]


def _open_locked_file(directory: Path) -> int:
    file = os.open(directory / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(file)
        raise KnowledgeBaseLocked(str(directory), "another process") from error
    return file
