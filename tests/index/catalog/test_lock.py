"""The writer lock: one writer at a time, named in errors, released when its process ends."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ragkit.errors import KnowledgeBaseLocked
from ragkit.index.catalog.lock import WriterLock, is_locked
from tests.alarms import call_interrupted, may_leave_warnings

HOLD_LOCK = """
import sys, time
from pathlib import Path
from ragkit.index.catalog.lock import WriterLock
with WriterLock(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_the_error_of_a_second_writer_names_the_first(tmp_path: Path) -> None:
    with WriterLock(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(KnowledgeBaseLocked, match=f"process {os.getpid()} on"), WriterLock(tmp_path, timeout_s=0):
            pass
    assert not is_locked(tmp_path)


def test_a_killed_process_releases_the_lock(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(KnowledgeBaseLocked, match=f"process {holder.pid} on"), WriterLock(tmp_path, timeout_s=0):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with WriterLock(tmp_path, timeout_s=5):
        assert is_locked(tmp_path)


def test_a_directory_without_a_lock_file_is_not_locked(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)


@may_leave_warnings
def test_an_interrupt_leaves_no_lock_behind(tmp_path: Path) -> None:
    rng = random.Random(1)

    def hold_again_and_again() -> None:
        while True:
            with WriterLock(tmp_path):
                pass

    for _ in range(1000):
        call_interrupted(hold_again_and_again, 0.001, rng)
        assert not is_locked(tmp_path)
