"""Planning an index run: each case of a file compared with its row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ragkit.errors import LoadError
from ragkit.index.catalog.sqlite import FileRow
from ragkit.index.plan import RACY_NS, IndexPlan, IndexPlanOptions, make_plan, stat_to_store
from ragkit.load.files.file_io import FileStat
from ragkit.load.files.walk import FoundFile, SkippedPath

STAT = FileStat(size=10, mtime_ns=5, ctime_ns=6, inode=7)
ROW = FileRow("/docs/a", 10, 5, 6, 7, "hash", "text:1", "indexed", document=1)
FILE = FoundFile(Path("/docs/a"), STAT)


def plan(
    *entries: FoundFile | SkippedPath,
    known: tuple[FileRow, ...] = (ROW,),
    content: Callable[[Path], str] = lambda path: "hash",
    fingerprint: str = "text:1",
    retry_failed: bool = False,
    reindex_all: bool = False,
) -> IndexPlan:
    options = IndexPlanOptions(lambda stored: fingerprint, content, retry_failed, reindex_all)
    return make_plan(entries, ["/docs"], {row.source: row for row in known}, options)


def test_a_new_file_is_indexed() -> None:
    [task] = plan(FILE, known=()).tasks
    assert (task.source, task.previous) == ("/docs/a", None)


def test_a_file_with_the_same_size_times_and_inode_is_not_read() -> None:
    def fail(path: Path) -> str:
        raise AssertionError("the file was read")

    result = plan(FILE, content=fail)
    assert (result.tasks, result.touched, result.removed, result.unchanged) == ((), (), (), 1)


def test_new_times_with_the_same_content_update_only_the_row() -> None:
    result = plan(FoundFile(FILE.path, replace(STAT, mtime_ns=99)))
    assert (result.tasks, result.touched) == ((), (ROW._replace(mtime_ns=99),))


def test_a_file_with_a_new_ctime_is_compared_by_content() -> None:
    result = plan(FoundFile(FILE.path, replace(STAT, ctime_ns=99)), content=lambda path: "other")
    assert [task.previous for task in result.tasks] == [ROW]


def test_an_unreadable_file_is_a_task_that_reports_the_failure() -> None:
    def unreadable(path: Path) -> str:
        raise LoadError(str(path), "cannot be read")

    assert len(plan(FoundFile(FILE.path, replace(STAT, ctime_ns=99)), content=unreadable).tasks) == 1


def test_a_file_that_could_not_be_read_is_a_task_as_soon_as_it_can_be_read() -> None:
    def unreadable(path: Path) -> str:
        raise LoadError(str(path), "disk I/O error")

    unread = ROW._replace(status="failed", mtime_ns=0, content_hash="", document=None, reason="disk I/O error")
    still = plan(FILE, known=(unread,), content=unreadable)
    assert (still.tasks, still.touched, still.still_failed) == ((), (), (unread,))
    assert [task.previous for task in plan(FILE, known=(unread,)).tasks] == [unread]
    changed = FoundFile(FILE.path, replace(STAT, size=99))
    assert [task.previous for task in plan(changed, known=(unread,), content=unreadable).tasks] == [unread]


def test_a_new_fingerprint_or_a_full_reindex_makes_a_file_a_task() -> None:
    assert len(plan(FILE, fingerprint="text:2").tasks) == 1
    assert len(plan(FILE, reindex_all=True).tasks) == 1


def test_a_failed_file_stays_failed_until_it_changes_or_is_retried() -> None:
    failed = ROW._replace(status="failed", reason="broken", document=None)
    assert plan(FILE, known=(failed,)).still_failed == (failed,)
    assert len(plan(FILE, known=(failed,), retry_failed=True).tasks) == 1


def test_a_skipped_file_stays_skipped_with_its_reason() -> None:
    skipped = ROW._replace(status="skipped", reason="binary file", document=None)
    assert plan(FILE, known=(skipped,)).skipped == (("/docs/a", "binary file"),)


def test_a_file_without_text_is_reported_in_every_run() -> None:
    empty = ROW._replace(status="empty", reason="holds no text", document=None)
    result = plan(FILE, known=(empty,))
    assert (result.skipped, result.unchanged, result.tasks) == ((("/docs/a", "holds no text"),), 0, ())


def test_only_files_deleted_from_an_indexed_root_are_removed() -> None:
    elsewhere = ROW._replace(source="/more/b")
    assert plan(known=(ROW, elsewhere)).removed == (ROW,)


def test_rows_below_a_folder_that_could_not_be_read_are_kept() -> None:
    below = ROW._replace(source="/docs/sub/b")
    result = plan(FILE, SkippedPath(Path("/docs/sub"), "folder: not readable", unreadable=True), known=(ROW, below))
    assert result.removed == ()


def test_a_file_modified_just_before_its_check_is_compared_by_content_next_time() -> None:
    now = 10 * RACY_NS
    old = FileStat(1, now - RACY_NS - 1, now - RACY_NS - 1, 1)
    assert stat_to_store(old, now) == old
    assert stat_to_store(replace(old, ctime_ns=now - 1), now).mtime_ns == 0
