"""The lock of a directory: one process at a time."""

from __future__ import annotations

import fcntl
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragkit.errors import KnowledgeBaseLocked, StoreError
from ragkit.store.backends.directory_lock import DirectoryLock
from tests.alarms import call_interrupted, may_leave_warnings

HOLDER = """
import sys
from pathlib import Path
from ragkit.store.backends.directory_lock import DirectoryLock
held = DirectoryLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def another_process_in(directory: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_directory_locked_by_another_process_is_rejected_until_that_process_ends(tmp_path: Path) -> None:
    directory = tmp_path / "made" / "for it"
    with another_process_in(directory) as process:
        with pytest.raises(KnowledgeBaseLocked, match="another process"):
            DirectoryLock(directory)
        process.kill()
        process.wait()
        DirectoryLock(directory).close()


def test_handles_of_one_process_share_the_lock_and_a_thread_lock(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    first, second = DirectoryLock(tmp_path), DirectoryLock(tmp_path / "inner" / "..")
    assert first.lock is second.lock
    first.close()
    second.close()


def test_the_lock_is_released_when_the_last_handle_is_closed(tmp_path: Path) -> None:
    first, second = DirectoryLock(tmp_path), DirectoryLock(tmp_path)
    first.close()
    first.close()
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True, input="\n", check=False)
    assert refused.returncode == 1
    assert "ragkit.errors.KnowledgeBaseLocked" in refused.stderr
    second.close()
    assert subprocess.run(command, capture_output=True, text=True, input="\n", check=True).stdout == "held\n"


def test_a_path_that_is_not_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot lock the directory .*file: File exists"):
        DirectoryLock(tmp_path / "file")


@may_leave_warnings
def test_an_interrupt_leaves_no_lock_behind(tmp_path: Path) -> None:
    rng = random.Random(1)

    def hold_again_and_again() -> None:
        while True:
            lock = DirectoryLock.__new__(DirectoryLock)
            try:
                lock.__init__(tmp_path)  # type: ignore[misc]
                lock.close()
            finally:
                lock.close()

    for _ in range(1000):
        call_interrupted(hold_again_and_again, 0.001, rng)
        file = os.open(tmp_path / "ragkit.lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if it is held
        os.close(file)
