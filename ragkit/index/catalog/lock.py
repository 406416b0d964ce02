"""The writer lock of a knowledge base: a locked file that holds the name of the lock's owner.

The operating system releases the lock when the process exits, even after a crash.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from io import FileIO
from pathlib import Path

from ragkit.errors import KnowledgeBaseLocked

LOCK_FILE = "lock"


class WriterLock:
    """Context manager. Raises KnowledgeBaseLocked, with the owner's name, if another process holds the lock."""

    def __init__(self, directory: Path, *, timeout_s: float = 0.5) -> None:
        self._path = directory / LOCK_FILE
        self._timeout_s = timeout_s
        self._file: FileIO | None = None

    def __enter__(self) -> WriterLock:
        # a file object instead of a descriptor: if Ctrl-C comes before it is kept, it is closed when it is freed
        file = FileIO(self._path, "r+", opener=lambda path, flags: os.open(path, flags | os.O_CREAT, 0o600))
        try:
            deadline = time.monotonic() + self._timeout_s
            while not _try_lock(file.fileno()):
                if time.monotonic() >= deadline:
                    raise KnowledgeBaseLocked(str(self._path.parent), _read_holder(file.fileno()))
                time.sleep(0.05)
            owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
            os.ftruncate(file.fileno(), 0)
            os.pwrite(file.fileno(), json.dumps(owner).encode(), 0)
            self._file = file
        except BaseException:
            file.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                os.ftruncate(file.fileno(), 0)
            finally:
                file.close()


def is_locked(directory: Path) -> bool:
    """Whether a process holds the writer lock."""
    try:
        handle = os.open(directory / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(handle, shared=True)
    finally:
        os.close(handle)


def _try_lock(handle: int, *, shared: bool = False) -> bool:
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_holder(handle: int) -> str:
    try:
        owner = json.loads(os.pread(handle, 4096, 0))
        return f"process {owner['pid']} on {owner['host']} since {owner['since']}"
    except (ValueError, KeyError, TypeError):  # it has the lock and has not written its name yet
        return "another process"
