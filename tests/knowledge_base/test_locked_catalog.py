"""Searches do not wait for a process that was stopped while SQLite keeps every reader out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragkit import Document, KnowledgeBase
from ragkit.index.catalog.schema import BUSY_TIMEOUT_S

LOCKS = {
    "as the last connection is closed": """
main = os.open(sys.argv[1], os.O_RDWR)
lock(main, fcntl.F_WRLCK, 0x40000000, 512)
""",
    "while the log is recovered": """
main, shared = os.open(sys.argv[1], os.O_RDWR), os.open(sys.argv[1] + "-shm", os.O_RDWR | os.O_CREAT, 0o600)
lock(main, fcntl.F_RDLCK, 0x40000002, 510)
os.truncate(shared, 0)
os.truncate(shared, 32768)
lock(shared, fcntl.F_RDLCK, 128, 1)
lock(shared, fcntl.F_WRLCK, 120, 3)
""",
}
"""The bytes that SQLite locks then: sqlite.org/walformat.html, section 2.3, and PENDING_BYTE of sqlite3.c."""
PROCESS = """
import fcntl, os, struct, sys, time
def lock(handle, kind, start, length):
    fcntl.fcntl(handle, fcntl.F_SETLK, struct.pack("hhqqi", kind, 0, start, length, 0))
{locks}
print("locked", flush=True)
time.sleep(600)
"""


@contextmanager
def locked(catalog: Path, locks: str) -> Iterator[None]:
    """Another process keeps the catalog locked."""
    command = [sys.executable, "-c", PROCESS.format(locks=locks), str(catalog)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        yield
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="the layout of `struct flock` is that of Linux")
@pytest.mark.timeout(BUSY_TIMEOUT_S)
@pytest.mark.parametrize("locks", LOCKS.values(), ids=LOCKS)
def test_a_search_beside_a_stopped_process_sees_what_is_committed_and_later_what_is_new(
    tmp_path: Path, locks: str
) -> None:
    path = tmp_path / "kb"
    with KnowledgeBase.open(path) as kb:
        kb.add([Document("The owl sleeps in the dome.", {"source": "owl.txt"})])
    with KnowledgeBase.open(path) as reader:
        with locked(path / "index.sqlite", locks):
            assert [hit.source for hit in reader.search("Where does the owl sleep?")] == ["owl.txt"]
        with KnowledgeBase.open(path) as kb:
            kb.add([Document("The dewar stands in the cellar.", {"source": "dewar.txt"})])
        assert reader.search("Where does the dewar stand?")[0].source == "dewar.txt"
