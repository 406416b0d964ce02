"""Plan an index run: compare the files in the sources with the catalog. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragkit.errors import LoadError
from ragkit.index.catalog.sqlite import FileRow
from ragkit.index.sources.ids import is_within, source_id
from ragkit.load.files.file_io import FileStat
from ragkit.load.files.walk import FoundFile, SkippedPath

RACY_NS = 2_000_000_000
"""A file modified less than 2 s before its check may change again within one tick of the file system clock: the next
run compares its content instead of its times."""


@dataclass(frozen=True, slots=True)
class FileTask:
    """One file to read, split and embed."""

    source: str
    path: Path
    stat: FileStat
    previous: FileRow | None
    """Its row in the catalog; None for a new file."""


@dataclass(frozen=True)
class IndexPlan:
    """The work of one run."""

    tasks: tuple[FileTask, ...]
    touched: tuple[FileRow, ...]
    """Updated rows of files with new times and unchanged content."""
    unchanged: int
    """Number of unchanged files with text, including the touched ones."""
    removed: tuple[FileRow, ...]
    """Files that no longer exist in the sources."""
    still_failed: tuple[FileRow, ...]
    """Files that failed before and have not changed since, and those whose `access` was not understood."""
    skipped: tuple[tuple[str, str], ...]
    """(source, reason) of skipped files and folders."""


@dataclass(frozen=True)
class IndexPlanOptions:
    """How files are compared with catalog rows."""

    current_fingerprint: Callable[[str], str]
    """Fingerprint of a stored row -> current fingerprint of the same loader."""
    content_hash: Callable[[Path], str]
    """Digest of a file's bytes, as loaders compute it. Raises LoadError or OSError."""
    retry_failed: bool = False
    reindex_all: bool = False
    """Index every file, changed or not."""
    again: frozenset[str] = frozenset()
    """Sources to index although they have not changed."""
    resolve_source_id: Callable[[Path], str] = source_id
    """Path -> source id: the path as text, or the URL of a web page's copy."""
    is_removable: Callable[[str, str], bool] = is_within
    """Whether a source id belongs to a root, so that it is removed if the walk does not find it."""


def make_plan(
    entries: Iterable[FoundFile | SkippedPath],
    roots: Sequence[str],
    known: Mapping[str, FileRow],
    options: IndexPlanOptions,
) -> IndexPlan:
    """Compare a walk over `roots` with the rows of the catalog.

    A file is unchanged if size, times and inode are equal, or else if its content is equal. One that could not be read
    is a task as soon as it can be read. Rows below an unreadable folder, and rows outside of `roots`, are kept.
    """
    tasks: list[FileTask] = []
    touched: list[FileRow] = []
    failed: list[FileRow] = []
    skipped: dict[str, str] = {}
    unreadable: list[str] = []
    seen: set[str] = set()
    unchanged = 0
    for entry in entries:
        source = options.resolve_source_id(entry.path)
        if isinstance(entry, SkippedPath):
            skipped[source] = entry.reason
            unreadable += [source] if entry.unreadable else []
            continue
        if source in seen:
            continue
        seen.add(source)
        row = known.get(source)
        current = _current_row(entry, row, options)
        if row is None or current is None:
            tasks.append(FileTask(source, entry.path, entry.stat, row))
            continue
        if current is not row:
            touched.append(current)
        if row.status == "failed":
            failed.append(row)
        elif row.status in ("skipped", "empty"):
            skipped[source] = row.reason
        else:
            unchanged += 1
            failed += [row] if row.has_failure else []
    removed = [
        row
        for source, row in known.items()
        if source not in seen
        and any(options.is_removable(source, root) for root in roots)
        and not any(is_within(source, folder) and source != folder for folder in unreadable)
    ]
    return IndexPlan(tuple(tasks), tuple(touched), unchanged, tuple(removed), tuple(failed), tuple(skipped.items()))


def stat_to_store(stat: FileStat, checked_at_ns: int) -> FileStat:
    """The stat to store; it never matches if the file was modified within RACY_NS before its check."""
    if max(stat.mtime_ns, stat.ctime_ns) > checked_at_ns - RACY_NS:
        return replace(stat, mtime_ns=0)
    return stat


def _current_row(file: FoundFile, row: FileRow | None, options: IndexPlanOptions) -> FileRow | None:
    """The up-to-date row of an unchanged file; None if the file must be indexed."""
    again = options.reindex_all or (row is not None and row.source in options.again)
    if row is None or again or row.recipe != options.current_fingerprint(row.recipe):
        return None
    if row.status == "failed" and options.retry_failed:
        return None
    stat = file.stat
    if (row.size, row.mtime_ns, row.ctime_ns, row.inode) == (stat.size, stat.mtime_ns, stat.ctime_ns, stat.inode):
        return row
    if _was_not_read(row, stat) and not _is_readable(file.path, options):
        return row
    if not _has_same_content(file.path, row, options):
        return None
    return row._replace(size=stat.size, mtime_ns=stat.mtime_ns, ctime_ns=stat.ctime_ns, inode=stat.inode)


def _was_not_read(row: FileRow, stat: FileStat) -> bool:
    """Whether the operating system could not read the file (see `ParseFailure.stat`), which has not changed since."""
    unread = row.status == "failed" and not row.content_hash and row.mtime_ns == 0
    return unread and (row.size, row.ctime_ns, row.inode) == (stat.size, stat.ctime_ns, stat.inode)


def _is_readable(path: Path, options: IndexPlanOptions) -> bool:
    try:
        options.content_hash(path)
    except (LoadError, OSError):
        return False
    return True


def _has_same_content(path: Path, row: FileRow, options: IndexPlanOptions) -> bool:
    try:
        return bool(row.content_hash) and options.content_hash(path) == row.content_hash
    except (LoadError, OSError):
        return False
