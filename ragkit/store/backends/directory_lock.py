"""A directory that one process at a time may use, for engines that do not see to it themselves.

The lock is the operating system's, on a file in the directory: it ends with the process, however that ends. Handles
of one process share it, and with it a lock for their threads.
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
    """A share of this process in the lock of a directory."""

    _entries: ClassVar[dict[Path, _LockEntry]] = {}
    _entries_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, directory: Path) -> None:
        """Take the lock, or share it; the directory is made when it is not there.

        Raises:
            KnowledgeBaseLocked: another process has it.
            StoreError: the directory cannot be used.
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
            raise StoreError(f"{directory} cannot be used: {error.strerror}") from error
        self._is_open = True

    def close(self) -> None:
        """Give the share back; closing twice is fine."""
        with self._entries_lock:
            if not self._is_open:
                return
            self._is_open = False
            held = self._entries[self._path]
            held.users -= 1
            if not held.users:
                os.close(held.fd)
                del self._entries[self._path]


def _open_locked_file(directory: Path) -> int:
    file = os.open(directory / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(file)
        raise KnowledgeBaseLocked(str(directory), "another process") from error
    return file
