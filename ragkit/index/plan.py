"""What a run has to do: the folders as they are against the catalog as it is. Nothing is changed here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragkit.errors import LoadError
from ragkit.index.catalog.sqlite import FileRow
from ragkit.index.source_ids import is_within, source_id
from ragkit.load.file_io import FileStat
from ragkit.load.walk import FoundFile, SkippedPath

RACY_NS = 2_000_000_000
"""A file younger than this when it was looked at may change again within the clock's tick:
its times are not trusted next time, its content is."""


@dataclass(frozen=True, slots=True)
class FileTask:
    """One file to be read, split and embedded."""

    source: str
    path: Path
    stat: FileStat
    previous: FileRow | None
    """What the catalog says of it; None for a file that it does not know."""


@dataclass(frozen=True)
class IndexPlan:
    """What one run will do."""

    tasks: tuple[FileTask, ...]
    touched: tuple[FileRow, ...]
    """Known files with other times and the same content: their rows, brought up to date."""
    unchanged: int
    """Files with chunks that stay as they are, the touched ones included."""
    removed: tuple[FileRow, ...]
    """Files that are gone from the sources that were looked at."""
    still_failed: tuple[FileRow, ...]
    """Files that failed before and have not changed since."""
    skipped: tuple[tuple[str, str], ...]
    """(source, reason) of files and folders that are left out."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.tasks or self.touched or self.removed)


@dataclass(frozen=True)
class IndexPlanOptions:
    """How the catalog's rows are compared."""

    current_fingerprint: Callable[[str], str]
    """Recipe of a stored row -> the recipe that the same loader has today."""
    content_hash: Callable[[Path], str]
    """Digest of a file's bytes, as the loaders compute it. Raises LoadError or OSError."""
    retry_failed: bool = False
    reindex_all: bool = False
    """Take up every file again, changed or not."""
    resolve_source_id: Callable[[Path], str] = source_id
    """The name of the source that a path holds: the path as text, or the URL of a page's copy."""


def make_plan(
    found: Iterable[FoundFile | SkippedPath],
    roots: Sequence[str],
    known: Mapping[str, FileRow],
    options: IndexPlanOptions,
) -> IndexPlan:
    """Compare a walk over `roots` with the rows of the catalog.

    A file counts as unchanged only if size, times and inode are all as they were, else by its content.
    Rows below a folder that could not be read stay as they are; rows below no root are left alone.
    """
    work: list[FileTask] = []
    touched: list[FileRow] = []
    failed: list[FileRow] = []
    skipped: dict[str, str] = {}
    unreadable: list[str] = []
    kept: set[str] = set()
    unchanged = 0
    for entry in found:
        source = options.resolve_source_id(entry.path)
        if isinstance(entry, SkippedPath):
            skipped[source] = entry.reason
            unreadable += [source] if entry.unreadable else []
            continue
        kept.add(source)
        row = known.get(source)
        current = _current_row(entry, row, options)
        if row is None or current is None:
            work.append(FileTask(source, entry.path, entry.stat, row))
            continue
        if current is not row:
            touched.append(current)
        if row.status == "failed":
            failed.append(row)
        elif row.status == "skipped":
            skipped[source] = row.reason
        else:
            unchanged += 1
    removed = [
        row
        for source, row in known.items()
        if source not in kept
        and any(is_within(source, root) for root in roots)
        and not any(is_within(source, folder) and source != folder for folder in unreadable)
    ]
    return IndexPlan(tuple(work), tuple(touched), unchanged, tuple(removed), tuple(failed), tuple(skipped.items()))


def stat_to_store(stat: FileStat, looked_at_ns: int) -> FileStat:
    """The stat to write down: one that never matches if the file was changed too shortly before."""
    if max(stat.mtime_ns, stat.ctime_ns) > looked_at_ns - RACY_NS:
        return replace(stat, mtime_ns=0)
    return stat


def _current_row(found: FoundFile, row: FileRow | None, options: IndexPlanOptions) -> FileRow | None:
    """The row that describes the file as it is now, or None when the file must be worked on."""
    if row is None or options.reindex_all or row.recipe != options.current_fingerprint(row.recipe):
        return None
    if row.status == "failed" and options.retry_failed:
        return None
    stat = found.stat
    if (row.size, row.mtime_ns, row.ctime_ns, row.inode) == (stat.size, stat.mtime_ns, stat.ctime_ns, stat.inode):
        return row
    if not _has_same_content(found.path, row, options):
        return None
    return replace(row, size=stat.size, mtime_ns=stat.mtime_ns, ctime_ns=stat.ctime_ns, inode=stat.inode)


def _has_same_content(path: Path, row: FileRow, options: IndexPlanOptions) -> bool:
    try:
        return bool(row.content_hash) and options.content_hash(path) == row.content_hash
    except (LoadError, OSError):
        return False
