"""I/O errors are translated to one line with a hint; the cause is kept."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

import pytest

from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseError, KnowledgeBaseLocked, KnowledgeBaseWriteFailed
from ragkit.index.catalog.io_errors import translate_io_errors


def message_of(error: Exception) -> str:
    with pytest.raises(KnowledgeBaseError) as caught, translate_io_errors(Path("kb"), "`repair`"):
        raise error
    assert caught.value.__cause__ is error
    return str(caught.value)


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "free disk space, then run the same command again"),
        (errno.EIO, "check the disk, then run the same command again"),
        (errno.EACCES, "make it writable, then run the same command again"),
    ],
)
def test_an_os_error_names_file_reason_and_hint(number: int, hint: str) -> None:
    error = OSError(number, os.strerror(number), "kb/seal.json")
    assert message_of(error) == f"kb/seal.json cannot be written ({os.strerror(number)}): {hint}"


def test_a_full_database_is_a_write_error(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "x")
    connection.execute("PRAGMA max_page_count = 2")
    connection.execute("CREATE TABLE t (x)")
    with (
        pytest.raises(KnowledgeBaseWriteFailed, match=r"database or disk is full\): free disk space"),
        translate_io_errors(tmp_path, ""),
    ):
        connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
    connection.close()


def test_locked_and_corrupt_databases_have_their_own_errors(tmp_path: Path) -> None:
    first, second = (sqlite3.connect(tmp_path / "x", timeout=0, isolation_level=None) for _ in range(2))
    first.execute("CREATE TABLE t (x)")
    first.execute("BEGIN EXCLUSIVE")
    with pytest.raises(KnowledgeBaseLocked, match="is locked by another process"), translate_io_errors(tmp_path, ""):
        second.execute("INSERT INTO t VALUES (1)")
    first.close()
    second.close()
    (tmp_path / "y").write_bytes(b"not a database" * 100)
    bad = sqlite3.connect(tmp_path / "y")
    with (
        pytest.raises(KnowledgeBaseDamaged, match=r"file is not a database\): run `repair`"),
        translate_io_errors(tmp_path, "`repair`"),
    ):
        bad.execute("SELECT 1 FROM sqlite_master")
    bad.close()


def test_a_broken_pipe_is_not_a_disk_error() -> None:
    with pytest.raises(BrokenPipeError, match="Broken pipe"), translate_io_errors(Path("kb"), ""):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
