"""What the disk refuses, as errors of ours: full, failing, read-only. Nothing that was recorded is lost by it."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragkit.errors import CannotWrite, Damaged, KnowledgeBaseError, Locked

FULL = "free some room, and run the same command again"
_REFUSED = "see to it that it can be written, and run the same command again"
_FAILS = "look after the disk, and run the same command again"
_HINTS = {errno.ENOSPC: FULL, errno.EDQUOT: FULL, errno.EIO: _FAILS}
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


@contextmanager
def refusals(directory: Path, fix: str) -> Iterator[None]:
    """Errors of the operating system and of SQLite, in a block that writes to a knowledge base, as ours.

    Args:
        directory: the knowledge base.
        fix: what to type when it is damaged.

    Raises:
        CannotWrite: the disk is full, fails, or may not be written to.
        Locked: another process kept a file locked for too long.
        Damaged: SQLite finds that a file is not a database of its own.
    """
    try:
        yield
    except BrokenPipeError:  # whoever reads what is printed has gone: that is not the disk
        raise
    except (OSError, sqlite3.DatabaseError) as error:
        raise refusal(error, directory, fix) from error


def refusal(error: OSError | sqlite3.DatabaseError, directory: Path, fix: str) -> KnowledgeBaseError:
    """The error of ours for one of theirs."""
    if isinstance(error, OSError):
        path = str(error.filename or directory)
        return CannotWrite(path, error.strerror or str(error), _HINTS.get(error.errno or 0, _REFUSED))
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _CORRUPT:
        return Damaged(str(directory), f"cannot be read ({error})", fix)
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return Locked(str(directory), "another process")
    hint = {sqlite3.SQLITE_FULL: FULL, sqlite3.SQLITE_IOERR: _FAILS}.get(code, _REFUSED)
    return CannotWrite(str(directory), str(error), hint)
