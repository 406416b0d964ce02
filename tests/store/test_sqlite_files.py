"""SQLite's locks are kept when the process reads the file."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest

from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.store.sqlite_files import connect, open_shared_handle

LOCKED = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0)
connection.execute("PRAGMA locking_mode=EXCLUSIVE")
connection.execute("BEGIN EXCLUSIVE")
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
