"""Check whether the sources changed since the last index run, within a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragkit.errors import LoadError
from ragkit.index.catalog.sqlite import FileRow
from ragkit.index.plan import IndexPlanOptions, make_plan
from ragkit.index.sources.ids import is_within, source_id
from ragkit.load.files.walk import FoundFile, SkippedPath
from ragkit.records import JSON

CHECK_TIMEOUT_S = 0.06
"""Time limit of a check during a search: enough for about 3,000 files."""


@dataclass(frozen=True)
class Freshness:
    """Differences between the sources and the index."""

    added: int
    """Files that are new since the last run."""
    changed: int
    """Files with a different content, or that could not be compared in time."""
    removed: int
    """Deleted files; 0 if the check was incomplete."""
    files_checked: int
    """Files found in the sources."""
    is_complete: bool
    """Whether every folder was checked."""
    seconds: float
    outdated_store: str = ""
    """The pipeline's vector store, if it is not synchronized; then the catalog is searched instead."""

    @property
    def is_current(self) -> bool:
        """Whether the check was complete and found no difference."""
        return self.is_complete and not (self.added or self.changed or self.removed or self.outdated_store)

    def messages(self) -> list[str]:
        """Messages for the user; none if the index is current."""
        lines: list[str] = []
        counts = ((self.changed, "changed"), (self.added, "new"), (self.removed, "removed"))
        parts = [f"{count:,} {word}" for count, word in counts if count]
        if parts:
            scope = "" if self.is_complete else f" among the first {self.files_checked:,} files"
            lines.append(f"the sources changed since the last run ({', '.join(parts)}{scope}): run `ragkit index`")
        elif not self.is_complete:
            which = f"only the first {self.files_checked:,} files were" if self.files_checked else "no file was"
            checked = f"{which} checked for changes"
            lines.append(f"{checked}: `ragkit status` checks all")
        if self.outdated_store:
            state = "is not synchronized, the catalog was searched instead"
            lines.append(f"the store {self.outdated_store!r} {state}: run `ragkit copy`")
        return lines

    def to_json(self) -> dict[str, JSON]:
        """The field `freshness` of `search --json` and `ask --json`."""
        return {
            "current": self.is_current,
            "added": self.added,
            "changed": self.changed,
            "removed": self.removed,
            "looked_at": self.files_checked,
            "complete": self.is_complete,
            "store_behind": self.outdated_store or None,
        }


def check_freshness(
    found: Iterable[FoundFile | SkippedPath],
    roots: Sequence[str],
    known: Mapping[str, FileRow],
    digest: Callable[[Path], str],
    seconds: float,
    name_of: Callable[[Path], str] = source_id,
) -> Freshness:
    """Compare the sources with the catalog as an index run would, for at most `seconds`.

    Args:
        found: a walk over `roots`; abandoned at the time limit.
        roots: source ids.
        known: the file rows of the catalog.
        digest: digest of a file's bytes; called only if the file's times differ.
        seconds: time limit.
        name_of: path -> source id.
    """
    started = time.perf_counter()
    deadline = _Deadline(started + seconds)

    def compare(path: Path) -> str:
        if deadline.is_expired():
            raise LoadError(str(path), "was not compared: the time limit was reached")
        return digest(path)

    # a new loader version is no change of the sources: keep each row's fingerprint
    options = IndexPlanOptions(
        lambda recipe: recipe,
        compare,
        resolve_source_id=name_of,
        is_removable=lambda source, root: not deadline.stopped_early and is_within(source, root),
    )
    plan = make_plan(deadline.take_until_expired(found), roots, known, options)
    added = sum(work.previous is None for work in plan.tasks)
    changed, removed = len(plan.tasks) - added, 0 if deadline.stopped_early else len(plan.removed)
    seconds = time.perf_counter() - started
    return Freshness(added, changed, removed, deadline.file_count, not deadline.stopped_early, seconds)


class _Deadline:
    """Stops a walk at the time limit."""

    def __init__(self, end: float) -> None:
        self._ends_at = end
        self.file_count = 0
        self.stopped_early = False

    def is_expired(self) -> bool:
        return time.perf_counter() > self._ends_at

    def take_until_expired(self, found: Iterable[FoundFile | SkippedPath]) -> Iterator[FoundFile | SkippedPath]:
        for entry in found:
            if self.is_expired():
                self.stopped_early = True
                return
            self.file_count += isinstance(entry, FoundFile)
            yield entry
