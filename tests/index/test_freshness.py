"""Freshness checks: detected changes, and messages of an incomplete check."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragkit.index.catalog.sqlite import FileRow
from ragkit.index.freshness import Freshness, check_freshness
from ragkit.index.sources.ids import source_id
from ragkit.load.files.file_io import FileStat, hash_content
from ragkit.load.files.walk import FoundFile, SkippedPath, walk_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text(name)
    return tmp_path


def rows(folder: Path) -> dict[str, FileRow]:
    """The file rows of a folder, as an index run stores them."""
    rows: dict[str, FileRow] = {}
    for path in sorted(folder.iterdir()):
        stat = FileStat.from_stat(path.stat())
        row = FileRow(str(path), stat.size, stat.mtime_ns, stat.ctime_ns, stat.inode, digest(path), "text:1", "indexed")
        rows[str(path)] = row
    return rows


def digest(path: Path) -> str:
    return hash_content(path.read_bytes())


def check(folder: Path, known: dict[str, FileRow], seconds: float = 10.0) -> Freshness:
    return check_freshness(walk_files(folder), [source_id(folder)], known, digest, seconds)


def test_unchanged_sources_are_current_without_messages(folder: Path) -> None:
    result = check(folder, rows(folder))
    assert (result.is_current, result.files_checked, result.messages()) == (True, 3, [])


def test_new_changed_and_removed_files_are_reported_in_one_line(folder: Path) -> None:
    known = rows(folder)
    (folder / "a.txt").write_text("other")
    (folder / "b.txt").unlink()
    (folder / "d.txt").write_text("new")
    result = check(folder, known)
    assert (result.added, result.changed, result.removed, result.is_current) == (1, 1, 1, False)
    assert result.messages() == [
        "the sources changed since the last run (1 changed, 1 new, 1 removed): run `ragkit index`"
    ]
    assert result.to_json() == {
        "current": False, "added": 1, "changed": 1, "removed": 1, "looked_at": 3, "complete": True,
        "store_behind": None,
    }  # fmt: skip


def test_new_times_with_the_same_content_are_no_change(folder: Path) -> None:
    known = rows(folder)
    os.utime(folder / "a.txt", (1, 1))
    assert check(folder, known).is_current


def test_the_same_size_and_time_with_another_content_is_a_change(folder: Path) -> None:
    known = rows(folder)
    before = (folder / "a.txt").stat()
    (folder / "a.txt").write_text("A.txt")
    os.utime(folder / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert check(folder, known).changed == 1


def test_an_incomplete_check_is_reported_and_counts_no_file_as_removed(folder: Path) -> None:
    def slowly() -> Iterator[FoundFile | SkippedPath]:
        for entry in walk_files(folder):
            yield entry
            time.sleep(0.03)

    result = check_freshness(slowly(), [source_id(folder)], rows(folder), digest, 0.02)
    assert (result.files_checked, result.removed, result.is_complete, result.is_current) == (1, 0, False, False)
    assert result.messages() == ["only the first 1 files were checked for changes: `ragkit status` checks all"]
    result = check_freshness(slowly(), [source_id(folder)], {}, digest, 0.02)
    assert result.messages() == [
        "the sources changed since the last run (1 new among the first 1 files): run `ragkit index`"
    ]


def test_a_file_not_compared_in_time_counts_as_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = rows(folder)
    os.utime(folder / "a.txt", (1, 1))
    clock = itertools.chain([0.0, 0.0, 9.0], itertools.repeat(0.0))  # start, file listed in time, too late to compare
    monkeypatch.setattr("ragkit.index.freshness.time.perf_counter", lambda: next(clock))
    result = check(folder, known, seconds=1.0)
    assert (result.changed, result.is_complete, result.is_current) == (1, True, False)


def test_all_files_of_a_deleted_root_count_as_removed(folder: Path, tmp_path: Path) -> None:
    known = rows(folder)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert check(folder, known).removed == 3
