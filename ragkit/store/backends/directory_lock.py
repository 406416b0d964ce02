"""Lock a directory for one process, for engines that do not do so themselves.

The lock is an OS lock on a file in the directory, released when the process ends. The handles of one process share it,
together with a lock for their threads.
"""

from __future__ import annotations

import fcntl
import os
import threading
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import ClassVar

from ragkit.errors import KnowledgeBaseLocked, StoreError
from ragkit.store.read_write_lock import ReadWriteLock

_LOCK_FILE = "ragkit.lock"


@dataclass
class _LockEntry:
    file: FileIO | None = None
    """The locked file; None without users."""
    users: int = 0
    lock: ReadWriteLock = field(default_factory=ReadWriteLock)


class DirectoryLock:
    """The lock of this process on a directory, shared by its handles."""

    _entries: ClassVar[dict[Path, _LockEntry]] = {}
    _entries_lock: ClassVar[threading.Lock] = threading.Lock()

    _entry: _LockEntry | None = None

    def __init__(self, directory: Path) -> None:
        """Acquire or share the lock; the directory is created if it does not exist.

        Raises:
            KnowledgeBaseLocked: another process holds it.
            StoreError: the directory cannot be created or locked.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._path = path = directory.resolve()
            with self._entries_lock:
                entry = self._entries.setdefault(path, _LockEntry())
                # Ctrl-C may come after any call: there is none from the lock to the handle that releases it
                if entry.file is None:
                    entry.file = _open_locked_file(path)
                self.lock, self._entry, entry.users = entry.lock, entry, entry.users + 1
        except OSError as error:
            raise StoreError(f"cannot lock the directory {directory}: {error.strerror}") from error

    def close(self) -> None:
        """Release the lock when the last handle is closed; may be called twice."""
        with self._entries_lock:
            entry = self._entry
            if entry is None:
                return
            self._entry, entry.users = None, entry.users - 1
            if not entry.users and entry.file is not None:
                file, entry.file = entry.file, None
                file.close()
                del self._entries[self._path]


def _open_locked_file(directory: Path) -> FileIO:
    file = FileIO(directory / _LOCK_FILE, "r+", opener=lambda path, flags: os.open(path, flags | os.O_CREAT, 0o644))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise KnowledgeBaseLocked(str(directory), "another process") from error
    except BaseException:
        file.close()
        raise
    return file
