"""Have the sources changed since the last run? A look at the folders that may be cut short, and then says so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragkit.errors import LoadError
from ragkit.index.catalog import FileRow
from ragkit.index.names import source_name
from ragkit.index.plan import PlanOptions, make_plan
from ragkit.load.walk import Found, Skipped
from ragkit.records import JSON

LOOK_SECONDS = 0.1
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
    looked_at: int
    """Files that were found in the sources."""
    complete: bool
    """Whether every folder was looked at."""
    seconds: float
    behind: str = ""
    """The vector store of the pipeline, when it is not in line with the catalog, which then answers in its place."""

    @property
    def current(self) -> bool:
        """Whether all was looked at and nothing has changed."""
        return self.complete and not (self.added or self.changed or self.removed or self.behind)

    def lines(self) -> list[str]:
        """What a person should know, a line each; none when all is current."""
        told: list[str] = []
        counts = ((self.changed, "changed"), (self.added, "new"), (self.removed, "removed"))
        parts = [f"{count:,} {word}" for count, word in counts if count]
        if parts:
            rest = "" if self.complete else f" among the first {self.looked_at:,} files"
            told.append(f"the sources changed since the last run ({', '.join(parts)}{rest}): ragkit index")
        elif not self.complete:
            told.append(f"only the first {self.looked_at:,} files were looked at for changes: ragkit status sees all")
        if self.behind:
            told.append(f"the store {self.behind!r} is not in line with the catalog, which was searched instead: "
                        "ragkit copy")  # fmt: skip
        return told

    def to_json(self) -> dict[str, JSON]:
        """The `freshness` of `search --json` and `ask --json`."""
        return {
            "current": self.current,
            "added": self.added,
            "changed": self.changed,
            "removed": self.removed,
            "looked_at": self.looked_at,
            "complete": self.complete,
            "store_behind": self.behind or None,
        }


def look(
    found: Iterable[Found | Skipped],
    roots: Sequence[str],
    known: Mapping[str, FileRow],
    digest: Callable[[Path], str],
    seconds: float,
    name_of: Callable[[Path], str] = source_name,
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
    clock = _Clock(started + seconds)

    def compare(path: Path) -> str:
        if clock.is_up():
            raise LoadError(str(path), "was not compared in time")
        return digest(path)

    # as each row was made: other versions of loaders are no change of the sources
    plan = make_plan(clock.until_up(found), roots, known, PlanOptions(lambda recipe: recipe, compare, name_of=name_of))
    added = sum(work.before is None for work in plan.work)
    removed = 0 if clock.cut else len(plan.removed)
    return Freshness(added, len(plan.work) - added, removed, clock.files, not clock.cut, time.perf_counter() - started)


class _Clock:
    """Ends a walk when the time is up."""

    def __init__(self, end: float) -> None:
        self._end = end
        self.files = 0
        self.cut = False

    def is_up(self) -> bool:
        return time.perf_counter() > self._end

    def until_up(self, found: Iterable[Found | Skipped]) -> Iterator[Found | Skipped]:
        for entry in found:
            if self.is_up():
                self.cut = True
                return
            self.files += isinstance(entry, Found)
            yield entry
