"""Groups of files that a worker gets at once."""

from __future__ import annotations

from pathlib import Path

from ragkit.load.files.file_groups import group_files
from ragkit.load.files.file_io import FileStat
from ragkit.load.process.parsing import ParseTask


def file_of(size: int | None) -> ParseTask:
    return ParseTask(Path("x"), "x", None if size is None else FileStat(size, 0, 0, 0))


def test_small_files_are_in_groups_and_large_ones_and_those_of_unknown_size_alone() -> None:
    files = [file_of(size) for size in (10, 20, 30, 40, 500, 60, 30, 30, None, None, 10)]
    groups = [[file.stat.size if file.stat else None for file in group] for group in group_files(files, 3, 100)]
    assert groups == [[10, 20, 30], [40], [500], [60, 30], [30], [None], [None], [10]]


def test_no_files_give_no_groups() -> None:
    assert list(group_files(list[ParseTask](), 3, 100)) == []
