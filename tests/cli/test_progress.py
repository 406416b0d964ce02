"""Progress: a bar on a terminal, log lines elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragkit.cli.progress import FIRST_LINE_S, format_bar, format_duration
from tests.cli.conftest import Ragkit, start


def on_a_terminal(*arguments: str, cwd: Path) -> str:
    """What a terminal receives from a command."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ragkit", *arguments]
    process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    received = b""
    try:
        while piece := os.read(ours, 65536):
            received += piece
    except OSError:  # the other side is closed
        pass
    assert process.wait(timeout=60) == 0
    os.close(ours)
    return received.decode()


@pytest.mark.parametrize(
    ("done", "total", "expected"),
    [
        (0, 10, f"indexing {'─' * 30} 0/10 1/4 files"),
        (5, 10, f"indexing {'━' * 15}{'─' * 15} 5/10 1/4 files 1:05 left"),
        (1_200, 1_000, f"indexing {'━' * 30} 1,200/1,000 1/4 files 0:00 left"),
        (7, None, f"indexing {'─' * 30} 7 1/4 files"),
    ],
)
def test_a_bar_has_counts_and_the_remaining_time(done: int, total: int | None, expected: str) -> None:
    assert format_bar(done, total, "indexing", "1/4 files", 65.0) == expected


def test_a_terminal_gets_a_bar_that_is_erased_before_the_report(workplace: Path, hashing: Path) -> None:
    (workplace / "docs").mkdir()
    for number in range(5):
        (workplace / "docs" / f"{number}.txt").write_text(f"Note {number} tells of roses.")
    received = on_a_terminal("index", "docs", cwd=workplace)
    assert "indexing ━" in received
    assert "/5 files" in received
    last_bar = received.rindex("\r\x1b[K")
    assert "━" not in received[last_bar:]
    assert "5 added" in received[last_bar:]


def test_a_pipe_gets_no_bar(workplace: Path, hashing: Path, ragkit: Ragkit) -> None:
    (workplace / "note.txt").write_text("A note of roses.")
    result = ragkit("index", "note.txt")
    assert "\x1b" not in result.out + result.err


def test_without_a_terminal_the_first_line_comes_in_time(workplace: Path, hashing: Path) -> None:
    (workplace / "slow").mkdir()
    for number in range(3000):
        (workplace / "slow" / f"{number}.txt").write_text(f"Note {number} tells of roses. " * 60)
    started = time.monotonic()
    process = start("index", "slow", cwd=workplace)
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith(("looking for changes", "indexing: ", "searchable after "))
    assert time.monotonic() - started < FIRST_LINE_S + 4  # the start of the process
    process.communicate(timeout=120)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "about 1 s"),
        (40.4, "about 40 s"),
        (61, "about 1 minute"),
        (430, "about 7 minutes"),
        (9000, "about 2 hours"),
    ],
)
def test_a_duration_is_rounded(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
