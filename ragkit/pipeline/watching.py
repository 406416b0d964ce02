"""`index --watch`: index runs whenever something changes in the sources, one after the other, until told to stop.

Events of the file system say that something changed, never what: each run plans anew, as any index run does. Single
files, and folders whose events do not come through (network shares), are looked at now and then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from watchfiles import watch

from ragkit.errors import LoadError, Locked, RagkitError
from ragkit.index.names import is_within
from ragkit.index.report import Event, FileRead, IndexReport, Planned
from ragkit.pipeline.knowledge_base import KnowledgeBase
from ragkit.pipeline.writing import IndexRun

SETTLE_MS = 300
"""A run begins when nothing has changed for so long: an editor writes a file in several steps."""
LONGEST_WAIT_MS = 3_000
"""A run begins after so long even if changes go on."""
TICK_MS = 1_000
LOOK_EVERY_SECONDS = 30.0
"""How often folders are looked at for changes that no event told of."""
FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 2.0, 60.0


@dataclass(frozen=True)
class Ran:
    """A run is done."""

    report: IndexReport
    read: tuple[FileRead, ...]
    """The files that were read, in order."""
    removed: tuple[str, ...]
    """The files that went."""


@dataclass(frozen=True)
class Failed:
    """A run ended with an error. The watch goes on, and tries again."""

    error: RagkitError


Outcome: TypeAlias = Ran | Failed


@dataclass
class _Attempts:
    """When to try again after an error: soon at first, then less and less often."""

    pause: float = 0.0
    at: float = 0.0
    told: str = ""

    def failed(self, error: RagkitError) -> bool:
        """Note a failure; whether it is another one than the last."""
        longest = FIRST_RETRY_SECONDS if isinstance(error, Locked) else LONGEST_RETRY_SECONDS
        self.pause = min(max(2 * self.pause, FIRST_RETRY_SECONDS), longest)
        self.at = time.monotonic() + self.pause
        before, self.told = self.told, str(error)
        return self.told != before

    @property
    def due(self) -> bool:
        return bool(self.pause) and time.monotonic() >= self.at


@dataclass
class _Heard:
    """What the events of one run said."""

    read: list[FileRead] = field(default_factory=list)
    removed: tuple[str, ...] = ()

    def event(self, event: Event) -> None:
        if isinstance(event, FileRead):
            self.read.append(event)
        elif isinstance(event, Planned):
            self.removed = event.removed_sources


def watched(kb: KnowledgeBase, sources: Sequence[Path], run: IndexRun) -> Iterator[Outcome]:
    """Index now, and again after every change, for ever. An error that repeats itself is told once.

    Args:
        kb: the knowledge base.
        sources: folders and files, which exist.
        run: how each run goes; `rebuild` and `retry_failed` hold for the first one only.

    Yields:
        The outcome of the first run, and of each later one that changed something or failed.
    """
    later = replace(run, rebuild=False, retry_failed=False)
    attempts = _Attempts()
    first = True
    for changed in chain([True], _changes(kb, sources)):
        if not (changed or attempts.due):
            continue
        outcome = _attempt(kb, sources, run if first else later)
        if isinstance(outcome, Failed):
            if attempts.failed(outcome.error):
                yield outcome
            continue
        attempts = _Attempts()
        if first or outcome.read or outcome.removed or outcome.report.notes:
            yield outcome
        first = False


def _attempt(kb: KnowledgeBase, sources: Sequence[Path], run: IndexRun) -> Outcome:
    heard = _Heard()

    def tell(event: Event) -> None:
        heard.event(event)
        run.on_event(event)

    try:
        report = kb.index(*sources, run=replace(run, on_event=tell))
    except RagkitError as error:
        return Failed(error)
    return Ran(report, tuple(heard.read), heard.removed)


def _changes(kb: KnowledgeBase, sources: Sequence[Path]) -> Iterator[bool]:
    """Whether something may have changed, at least once a tick. What changes between two answers is not lost.

    The first answer comes when the system is listening, from a look at what changed before.
    """
    folders = [source for source in sources if source.is_dir()]
    own = str(kb.path.resolve())
    every = LOOK_EVERY_SECONDS if len(folders) == len(sources) else TICK_MS / 1000
    look_at = 0.0
    for changed in _events(folders, own):
        if changed or time.monotonic() < look_at:
            yield changed
        else:
            yield _looks_changed(kb)
            look_at = time.monotonic() + every


def _events(folders: Sequence[Path], own: str) -> Iterator[bool]:
    """Whether the file system told of a change, at least once a tick; changes of the knowledge base do not count."""
    if not folders:
        while True:
            yield False
            time.sleep(TICK_MS / 1000)
    changes = watch(
        *folders,
        watch_filter=lambda _, path: not is_within(path, own),
        debounce=LONGEST_WAIT_MS,
        step=SETTLE_MS,
        rust_timeout=TICK_MS,
        yield_on_timeout=True,
        raise_interrupt=True,
        ignore_permission_denied=True,
    )
    try:
        yield from map(bool, changes)
    except OSError as error:  # most often the system's limit of watched folders
        hint = "raise fs.inotify.max_user_watches, or set WATCHFILES_FORCE_POLLING=true"
        raise LoadError(", ".join(map(str, folders)), f"cannot be watched ({error})", hint) from error


def _looks_changed(kb: KnowledgeBase) -> bool:
    try:
        found = kb.freshness(seconds=LOOK_EVERY_SECONDS / 10)
    except RagkitError:
        return False  # an index run will say it, when there is something to do
    return bool(found.added or found.changed or found.removed or not found.complete)
