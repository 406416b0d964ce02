"""What the disk refuses, as errors of ours: full, failing, read-only. Nothing that was recorded is lost by it."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseError, KnowledgeBaseLocked, KnowledgeBaseWriteFailed

DISK_FULL_HINT = "free some room, and run the same command again"
_NOT_WRITABLE_HINT = "see to it that it can be written, and run the same command again"
_DISK_FAILURE_HINT = "look after the disk, and run the same command again"
_HINT_BY_ERRNO = {errno.ENOSPC: DISK_FULL_HINT, errno.EDQUOT: DISK_FULL_HINT, errno.EIO: _DISK_FAILURE_HINT}
_CORRUPT_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


@contextmanager
def translate_io_errors(directory: Path, fix: str) -> Iterator[None]:
    """Errors of the operating system and of SQLite, in a block that writes to a knowledge base, as ours.

    Args:
        directory: the knowledge base.
        fix: what to type when it is damaged.

    Raises:
        KnowledgeBaseWriteFailed: the disk is full, fails, or may not be written to.
        KnowledgeBaseLocked: another process kept a file locked for too long.
        KnowledgeBaseDamaged: SQLite finds that a file is not a database of its own.
    """
    try:
        yield
    except BrokenPipeError:  # whoever reads what is printed has gone: that is not the disk
        raise
    except (OSError, sqlite3.DatabaseError) as error:
        raise to_knowledge_base_error(error, directory, fix) from error


def to_knowledge_base_error(error: OSError | sqlite3.DatabaseError, directory: Path, fix: str) -> KnowledgeBaseError:
    """The error of ours for one of theirs."""
    if isinstance(error, OSError):
        path = str(error.filename or directory)
        return KnowledgeBaseWriteFailed(
            path, error.strerror or str(error), _HINT_BY_ERRNO.get(error.errno or 0, _NOT_WRITABLE_HINT)
        )
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _CORRUPT_CODES:
        return KnowledgeBaseDamaged(str(directory), f"cannot be read ({error})", fix)
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return KnowledgeBaseLocked(str(directory), "another process")
    hint = {sqlite3.SQLITE_FULL: DISK_FULL_HINT, sqlite3.SQLITE_IOERR: _DISK_FAILURE_HINT}.get(code, _NOT_WRITABLE_HINT)
    return KnowledgeBaseWriteFailed(str(directory), str(error), hint)
