"""SQLite's locks are kept when the process reads the file, and a file that others keep locked can be read."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Barrier

import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.sqlite_wal import enable_wal
from ragkit.store import sqlite_files
from ragkit.store.sqlite_files import connect, connect_to_copy, open_shared_handle

LOCKED = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0)
connection.execute("PRAGMA locking_mode=EXCLUSIVE")
connection.execute("BEGIN EXCLUSIVE")
"""

KEPT_LOCKED = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA locking_mode=EXCLUSIVE")
for value in (1, 2):
    connection.execute("INSERT INTO t VALUES (?)", (value,))
connection.execute("BEGIN")
connection.execute("INSERT INTO t VALUES (3)")
print("locked", flush=True)
time.sleep(600)
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "x.sqlite"
    with closing(connect(path, "rwc", 1.0)) as connection:
        connection.execute("CREATE TABLE t (x)")
    return path


def is_locked(path: Path) -> bool:
    """Whether another process sees a lock on the file."""
    ran = subprocess.run([sys.executable, "-c", LOCKED, str(path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0 or "database is locked" in ran.stderr, ran.stderr
    return ran.returncode != 0


def handles(path: Path) -> int:
    """Number of open handles of this process on the file."""
    there = path.stat()
    result = 0
    for entry in Path("/dev/fd").iterdir():
        try:
            here = os.fstat(int(entry.name))
        except OSError:  # the handle of the listing
            continue
        result += (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
    return result


def test_reading_a_file_releases_no_lock(database: Path) -> None:
    with closing(connect(database, "rw", 1.0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with open_shared_handle(database) as handle:
            assert os.pread(handle, 6, 0) == b"SQLite"
        assert is_locked(database)
        connection.execute("COMMIT")
        assert not is_locked(database)


def test_opening_the_file_directly_releases_the_lock(database: Path) -> None:
    """Shows the problem. On a system where this fails, the module is not needed."""
    with closing(connect(database, "rw", 1.0)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        database.read_bytes()
        assert not is_locked(database)


def test_one_handle_serves_all_readers_until_the_last_connection_closes(database: Path) -> None:
    first, second = connect(database, "rw", 1.0), connect(database, "rw", 1.0)
    own = handles(database)
    for _ in range(5):
        with open_shared_handle(database), open_shared_handle(database):
            assert handles(database) == own + 1
    first.close()
    first.close()
    assert handles(database) >= 2, "closed while a connection was open"
    second.close()
    assert handles(database) == 0


def test_without_a_connection_no_handle_is_kept(database: Path) -> None:
    with open_shared_handle(database), open_shared_handle(database):
        assert handles(database) == 1
    assert handles(database) == 0


def test_a_connection_opened_during_a_read_keeps_its_locks(database: Path) -> None:
    with open_shared_handle(database):
        connection = connect(database, "rw", 1.0)
        connection.execute("BEGIN IMMEDIATE")
    assert is_locked(database)
    connection.close()
    assert handles(database) == 0


def test_a_replaced_file_is_read_from_the_new_file(database: Path) -> None:
    with closing(connect(database, "rw", 1.0)), open_shared_handle(database):
        fresh = database.with_name("fresh")
        fresh.write_bytes(b"other")
        fresh.rename(database)
        with open_shared_handle(database) as handle:
            assert os.pread(handle, 10, 0) == b"other"
        assert handles(database) == 0


# knowledge bases


def index(kb: Path, docs: Path, edition: int) -> None:
    """An index run in another process, over changed documents."""
    docs.mkdir(exist_ok=True)
    for n in range(30):
        words = " ".join(f"word{edition}x{n}x{i}" for i in range(100))
        (docs / f"{n}.txt").write_text(f"File {n} speaks of subject{n} in edition{edition}. {words}")
    command = [sys.executable, "-m", "ragkit", "index", str(docs), "--kb", str(kb), "-q", "--set", "embed.name=hashing"]
    subprocess.run(command, check=True, timeout=120)


@pytest.mark.parametrize("what", ["opened again", "verified"])
def test_a_knowledge_base_opened_twice_in_a_process_sees_writes_of_others(tmp_path: Path, what: str) -> None:
    kb, docs = tmp_path / "kb", tmp_path / "docs"
    index(kb, docs, 0)
    with KnowledgeBase.open(kb) as item, KnowledgeBase.open(kb) as other:
        assert "edition0" in item.search("subject2")[0].chunk.text
        if what == "opened again":
            other.search("subject2")
        else:
            assert other.verify().is_sound
        for edition in (1, 2):
            index(kb, docs, edition)
            assert f"edition{edition}" in item.search("subject2")[0].chunk.text


def test_threads_that_read_first_at_once_share_one_reader(tmp_path: Path) -> None:
    kb, docs = tmp_path / "kb", tmp_path / "docs"
    index(kb, docs, 0)
    gate = Barrier(8)

    def reader(base: KnowledgeBase) -> int:
        gate.wait()
        return id(base._read_side.reader(base.principal))

    for _ in range(10):
        with KnowledgeBase.open(kb) as base, ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(reader, [base] * 8))) == 1


@contextmanager
def kept_locked(path: Path) -> Iterator[None]:
    """Another process keeps the database locked; 1 and 2 are committed, in its log, and 3 is not."""
    with closing(connect(path, "rw", 1.0)) as connection:
        enable_wal(connection, 1.0)
    holder = subprocess.Popen([sys.executable, "-c", KEPT_LOCKED, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        yield
    finally:
        holder.kill()
        holder.communicate()


def values(connection: sqlite3.Connection) -> list[int]:
    """The rows of the table."""
    return [value for (value,) in connection.execute("SELECT x FROM t ORDER BY x")]


def test_a_copy_has_what_was_committed_while_another_process_keeps_the_database_locked(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    with kept_locked(database):
        with closing(connect(database, "rw", 0.1)) as connection, pytest.raises(sqlite3.OperationalError, match="lock"):
            values(connection)
        with closing(connect_to_copy(database)) as copy:
            assert values(copy) == [1, 2]
            assert list((tmp_path / "temporary").iterdir()) == []
            assert is_locked(database)
        assert list((tmp_path / "temporary").iterdir()) == []
    with closing(connect(database, "rw", 1.0)) as connection:
        assert values(connection) == [1, 2]


def test_a_copy_is_made_again_if_the_log_was_begun_anew_meanwhile(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_file, copied = sqlite_files._copy_file, []
    with closing(connect(database, "rw", 1.0)) as writer:
        enable_wal(writer, 1.0)
        writer.execute("INSERT INTO t VALUES (1)")

        def write_after_the_first(handle: int, target: Path) -> None:
            copy_file(handle, target)
            copied.append(target.name)
            if len(copied) == 1:
                writer.execute("INSERT INTO t VALUES (2)")
                writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
                writer.execute("INSERT INTO t VALUES (3)")

        monkeypatch.setattr(sqlite_files, "_copy_file", write_after_the_first)
        with closing(connect_to_copy(database)) as copy:
            assert values(copy) == [1, 2, 3]
        assert copied == ["copy", "copy-wal", "copy", "copy-wal"]
