"""Translate I/O errors of the operating system and of SQLite (disk full, failing, read-only) into ragkit's errors."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseError, KnowledgeBaseLocked, KnowledgeBaseWriteFailed

DISK_FULL_HINT = "free disk space, then run the same command again"
_NOT_WRITABLE_HINT = "make it writable, then run the same command again"
_DISK_FAILURE_HINT = "check the disk, then run the same command again"
_HINT_BY_ERRNO = {errno.ENOSPC: DISK_FULL_HINT, errno.EDQUOT: DISK_FULL_HINT, errno.EIO: _DISK_FAILURE_HINT}
_CORRUPT_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


@contextmanager
def translate_io_errors(directory: Path, fix: str) -> Iterator[None]:
    """Translate OSError and sqlite3.DatabaseError raised by a block that writes to a knowledge base.

    Args:
        directory: the knowledge base.
        fix: the command that repairs it.

    Raises:
        KnowledgeBaseWriteFailed: the disk is full, failing or read-only.
        KnowledgeBaseLocked: another process holds a lock for too long.
        KnowledgeBaseDamaged: SQLite reports a corrupt file.
    """
    try:
        yield
    except BrokenPipeError:  # the reader of stdout has closed it: not a disk error
        raise
    except (OSError, sqlite3.DatabaseError) as error:
        raise to_knowledge_base_error(error, directory, fix) from error


def to_knowledge_base_error(error: OSError | sqlite3.DatabaseError, directory: Path, fix: str) -> KnowledgeBaseError:
    """The ragkit error for an error of the operating system or of SQLite."""
    if isinstance(error, OSError):
        path = str(error.filename or directory)
        hint = _HINT_BY_ERRNO.get(error.errno or 0, _NOT_WRITABLE_HINT)
        return KnowledgeBaseWriteFailed(path, error.strerror or str(error), hint)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _CORRUPT_CODES:
        return KnowledgeBaseDamaged(str(directory), f"cannot be read ({error})", fix)
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return KnowledgeBaseLocked(str(directory), "another process")
    hint = {sqlite3.SQLITE_FULL: DISK_FULL_HINT, sqlite3.SQLITE_IOERR: _DISK_FAILURE_HINT}.get(code, _NOT_WRITABLE_HINT)
    return KnowledgeBaseWriteFailed(str(directory), str(error), hint)
