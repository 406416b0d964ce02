"""Which failures leave open whether a file has its old content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragkit.load.files.file_io import FileStat
from ragkit.load.process.parsing import ParsedFile, ParseFailure, ParseLimits, ParseTask, parse_file
from ragkit.load.router import Router


def parse(path: Path, stat: FileStat) -> ParsedFile | ParseFailure:
    return parse_file(ParseTask(path, str(path), stat), Router(), ParseLimits())


def test_a_file_that_changes_at_each_attempt_is_unread() -> None:
    path = Path(f"/proc/{os.getpid()}/status")  # has another length than it says
    failure = parse(path, FileStat.from_stat(path.stat()))
    assert isinstance(failure, ParseFailure)
    assert (failure.is_unread, failure.error.reason) == (True, "changed while it was being read")


@pytest.mark.parametrize("change", ["deleted", "a link", "a folder that is a file", "broken"])
def test_a_file_that_is_gone_or_broken_is_not_unread(tmp_path: Path, change: str) -> None:
    path = tmp_path / "docs/a.pdf"
    path.parent.mkdir()
    path.write_bytes(b"%PDF-1.7\nnothing more")
    stat = FileStat.from_stat(path.stat())
    if change != "broken":
        path.unlink()
    if change == "a link":
        path.symlink_to("/etc/hostname")
    if change == "a folder that is a file":
        path.parent.rmdir()
        path.parent.write_text("a")
    failure = parse(path, stat)
    assert isinstance(failure, ParseFailure)
    assert not failure.is_unread, failure.error.reason
