"""A disk that refuses is one line with what to do, and the cause behind it."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

import pytest

from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseError, KnowledgeBaseLocked, KnowledgeBaseWriteFailed
from ragkit.index.catalog.io_errors import translate_io_errors


def told(error: Exception) -> str:
    with pytest.raises(KnowledgeBaseError) as caught, translate_io_errors(Path("kb"), "`repair`"):
        raise error
    assert caught.value.__cause__ is error
    return str(caught.value)


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "free some room, and run the same command again"),
        (errno.EIO, "look after the disk, and run the same command again"),
        (errno.EACCES, "see to it that it can be written, and run the same command again"),
    ],
)
def test_an_error_of_the_system_names_the_file_the_reason_and_what_to_do(number: int, hint: str) -> None:
    error = OSError(number, os.strerror(number), "kb/seal.json")
    assert told(error) == f"kb/seal.json cannot be written ({os.strerror(number)}): {hint}"


def test_a_database_that_is_full_is_an_error_of_the_disk(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "x")
    connection.execute("PRAGMA max_page_count = 2")
    connection.execute("CREATE TABLE t (x)")
    with (
        pytest.raises(KnowledgeBaseWriteFailed, match=r"database or disk is full\): free some room"),
        translate_io_errors(tmp_path, ""),
    ):
        connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
    connection.close()


def test_a_database_that_is_locked_or_malformed_is_said_to_be_so(tmp_path: Path) -> None:
    one, other = (sqlite3.connect(tmp_path / "x", timeout=0, isolation_level=None) for _ in range(2))
    one.execute("CREATE TABLE t (x)")
    one.execute("BEGIN EXCLUSIVE")
    with (
        pytest.raises(KnowledgeBaseLocked, match="is being written by another process"),
        translate_io_errors(tmp_path, ""),
    ):
        other.execute("INSERT INTO t VALUES (1)")
    one.close()
    other.close()
    (tmp_path / "y").write_bytes(b"not a database" * 100)
    bad = sqlite3.connect(tmp_path / "y")
    with (
        pytest.raises(KnowledgeBaseDamaged, match=r"file is not a database\): run `repair`"),
        translate_io_errors(tmp_path, "`repair`"),
    ):
        bad.execute("SELECT 1 FROM sqlite_master")
    bad.close()


def test_a_reader_that_has_gone_is_not_the_disks_fault() -> None:
    with pytest.raises(BrokenPipeError, match="Broken pipe"), translate_io_errors(Path("kb"), ""):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
