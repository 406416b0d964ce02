"""A database with a table name that is no UTF-8 is reported as damaged: SQLite quotes the name in its message."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from ragkit import KnowledgeBase
from ragkit.agent.cache.disk import DiskCache
from ragkit.errors import KnowledgeBaseDamaged, LoadError, RagkitError
from ragkit.evaluate.feedback import STATE_FILE, feedback_questions
from ragkit.index.catalog.checksums import delete_checksums
from ragkit.index.catalog.directory import CATALOG_FILE, open_catalog
from ragkit.load.data.sqlite import SqliteLoader
from ragkit.server.state.sqlite import SqliteState
from ragkit.store.backends.sqlite import SqliteStore
from ragkit.store.file_digests import CHROMA_DATABASE, compute_digests
from ragkit.store.options import SqliteOptions
from ragkit.usage.ledger import Ledger


def write_damaged_database(path: Path) -> None:
    """A database with the table `other`, whose name begins with a byte that no UTF-8 has there."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (a, b)")
        connection.commit()
    damage_name(path, b"other")


def damage_name(path: Path, name: bytes) -> None:
    path.write_bytes(path.read_bytes().replace(b"table" + name, b"table\xef" + name[1:], 1))
    with closing(sqlite3.connect(path)) as connection, pytest.raises(UnicodeDecodeError):
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()


@pytest.mark.parametrize(
    ("name", "read", "message"),
    [
        ("cache.sqlite", DiskCache, "is not a valid response cache"),
        ("ledger.sqlite", lambda path: Ledger(path).total_spending(), "is not a valid ledger"),
        ("server.sqlite", lambda path: SqliteState(path.parent, "worker"), "cannot be read"),
        ("store.sqlite", lambda path: SqliteStore(SqliteOptions(path.parent)), "is not an intact database"),
    ],
)
def test_it_is_named_with_what_to_do(tmp_path: Path, name: str, read: Callable[[Path], object], message: str) -> None:
    write_damaged_database(tmp_path / name)
    with pytest.raises(KnowledgeBaseDamaged, match=message):
        read(tmp_path / name)


def test_a_file_to_load_fails_alone(tmp_path: Path) -> None:
    write_damaged_database(tmp_path / "a.sqlite")
    with pytest.raises(LoadError, match="not a SQLite database"):
        SqliteLoader().load((tmp_path / "a.sqlite").read_bytes(), "a.sqlite")


def test_rated_answers_cannot_be_read(tmp_path: Path) -> None:
    write_damaged_database(tmp_path / STATE_FILE)
    with pytest.raises(RagkitError, match="cannot be read"):
        feedback_questions(tmp_path)


def test_a_catalog_without_checksums_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nOne sentence.\n")
    with KnowledgeBase.open(tmp_path / "kb", "fast") as kb:
        kb.index(tmp_path / "a.md")
    damage_name(tmp_path / "kb" / CATALOG_FILE, b"meta")
    delete_checksums(tmp_path / "kb")
    with pytest.raises(KnowledgeBaseDamaged, match="cannot be read"):
        open_catalog(tmp_path / "kb")


def test_the_digest_of_a_chroma_database_changes(tmp_path: Path) -> None:
    path = tmp_path / "store" / CHROMA_DATABASE
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE acquire_write (id INTEGER PRIMARY KEY, lock_status INTEGER)")
        connection.commit()
    before = compute_digests(path.parent)
    damage_name(path, b"acquire_write")
    assert compute_digests(path.parent) != before
