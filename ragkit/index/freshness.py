"""Have the sources changed since the last run? A look at the folders that may be cut short, and then says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragkit.errors import LoadError
from ragkit.index.catalog.sqlite import FileRow
from ragkit.index.plan import IndexPlanOptions, make_plan
from ragkit.index.source_ids import source_id
from ragkit.load.walk import FoundFile, SkippedPath
from ragkit.records import JSON

CHECK_TIMEOUT_S = 0.1
"""How long a look may take beside a search: about 10,000 files."""


@dataclass(frozen=True)
class Freshness:
    """How the sources compare with what was indexed."""

    added: int
    """Files that were not there at the last run."""
    changed: int
    """Files with another content. One that could not be compared in time counts too."""
    removed: int
    """Files that are gone; 0 when the look was cut short."""
    files_checked: int
    """Files that were found in the sources."""
    is_complete: bool
    """Whether every folder was looked at."""
    seconds: float
    outdated_store: str = ""
    """The vector store of the pipeline, when it is not in line with the catalog, which then answers in its place."""

    @property
    def is_current(self) -> bool:
        """Whether all was looked at and nothing has changed."""
        return self.is_complete and not (self.added or self.changed or self.removed or self.outdated_store)

    def messages(self) -> list[str]:
        """What a person should know, a line each; none when all is current."""
        told: list[str] = []
        counts = ((self.changed, "changed"), (self.added, "new"), (self.removed, "removed"))
        parts = [f"{count:,} {word}" for count, word in counts if count]
        if parts:
            rest = "" if self.is_complete else f" among the first {self.files_checked:,} files"
            told.append(f"the sources changed since the last run ({', '.join(parts)}{rest}): ragkit index")
        elif not self.is_complete:
            told.append(
                f"only the first {self.files_checked:,} files were looked at for changes: ragkit status sees all"
            )
        if self.outdated_store:
            told.append(f"the store {self.outdated_store!r} is not in line with the catalog, which was searched instead: "
                        "ragkit copy")  # fmt: skip
        return told

    def to_json(self) -> dict[str, JSON]:
        """The `freshness` of `search --json` and `ask --json`."""
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
    """Compare the folders with the catalog as an index run would, for at most so many seconds.

    Args:
        found: a walk over `roots`; it is left where the time is up.
        roots: names of the sources.
        known: the files of the catalog.
        digest: digest of a file's bytes; asked only where the times of a file do not tell.
        seconds: how long this may take.
        name_of: the name of the source that a path holds.
    """
    started = time.perf_counter()
    clock = _Deadline(started + seconds)

    def compare(path: Path) -> str:
        if clock.is_expired():
            raise LoadError(str(path), "was not compared in time")
        return digest(path)

    # as each row was made: other versions of loaders are no change of the sources
    plan = make_plan(
        clock.take_until_expired(found),
        roots,
        known,
        IndexPlanOptions(lambda recipe: recipe, compare, resolve_source_id=name_of),
    )
    added = sum(work.previous is None for work in plan.tasks)
    removed = 0 if clock.stopped_early else len(plan.removed)
    return Freshness(
        added,
        len(plan.tasks) - added,
        removed,
        clock.file_count,
        not clock.stopped_early,
        time.perf_counter() - started,
    )


class _Deadline:
    """Ends a walk when the time is up."""

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
