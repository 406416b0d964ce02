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

from ragkit.errors import KnowledgeBaseLocked, LoadError, RagkitError
from ragkit.index.report import FileRead, IndexEvent, IndexReport, PlanCreated
from ragkit.index.source_ids import is_within
from ragkit.knowledge_base.indexing import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase

QUIET_PERIOD_MS = 300
"""A run begins when nothing has changed for so long: an editor writes a file in several steps."""
MAX_DELAY_MS = 3_000
"""A run begins after so long even if changes go on."""
POLL_INTERVAL_MS = 1_000
RESCAN_SECONDS = 30.0
"""How often folders are looked at for changes that no event told of."""
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 2.0, 60.0


@dataclass(frozen=True)
class IndexCompleted:
    """A run is done."""

    report: IndexReport
    files_read: tuple[FileRead, ...]
    """The files that were read, in order."""
    removed_sources: tuple[str, ...]
    """The files that went."""


@dataclass(frozen=True)
class IndexFailed:
    """A run ended with an error. The watch goes on, and tries again."""

    error: RagkitError


WatchEvent: TypeAlias = IndexCompleted | IndexFailed


@dataclass
class _RetryTimer:
    """When to try again after an error: soon at first, then less and less often."""

    delay_seconds: float = 0.0
    retry_at: float = 0.0
    last_error: str = ""

    def record_failure(self, error: RagkitError) -> bool:
        """Note a failure; whether it is another one than the last."""
        longest = FIRST_RETRY_SECONDS if isinstance(error, KnowledgeBaseLocked) else MAX_RETRY_SECONDS
        self.delay_seconds = min(max(2 * self.delay_seconds, FIRST_RETRY_SECONDS), longest)
        self.retry_at = time.monotonic() + self.delay_seconds
        before, self.last_error = self.last_error, str(error)
        return self.last_error != before

    @property
    def is_due(self) -> bool:
        return bool(self.delay_seconds) and time.monotonic() >= self.retry_at


@dataclass
class _EventCollector:
    """What the events of one run said."""

    files_read: list[FileRead] = field(default_factory=list)
    removed_sources: tuple[str, ...] = ()

    def collect(self, event: IndexEvent) -> None:
        if isinstance(event, FileRead):
            self.files_read.append(event)
        elif isinstance(event, PlanCreated):
            self.removed_sources = event.removed_sources


def watch_and_index(kb: KnowledgeBase, sources: Sequence[Path], run: IndexOptions) -> Iterator[WatchEvent]:
    """Index now, and again after every change, for ever. An error that repeats itself is told once.

    Args:
        kb: the knowledge base.
        sources: folders and files, which exist.
        run: how each run goes; `rebuild` and `retry_failed` hold for the first one only.

    Yields:
        The outcome of the first run, and of each later one that changed something or failed.
    """
    later = replace(run, rebuild=False, retry_failed=False)
    attempts = _RetryTimer()
    first = True
    for changed in chain([True], _poll_changes(kb, sources)):
        if not (changed or attempts.is_due):
            continue
        outcome = _run_index(kb, sources, run if first else later)
        if isinstance(outcome, IndexFailed):
            if attempts.record_failure(outcome.error):
                yield outcome
            continue
        attempts = _RetryTimer()
        if first or outcome.files_read or outcome.removed_sources or outcome.report.notes:
            yield outcome
        first = False


def _run_index(kb: KnowledgeBase, sources: Sequence[Path], run: IndexOptions) -> WatchEvent:
    heard = _EventCollector()

    def tell(event: IndexEvent) -> None:
        heard.collect(event)
        run.on_event(event)

    try:
        report = kb.index(*sources, options=replace(run, on_event=tell))
    except RagkitError as error:
        return IndexFailed(error)
    return IndexCompleted(report, tuple(heard.files_read), heard.removed_sources)


def _poll_changes(kb: KnowledgeBase, sources: Sequence[Path]) -> Iterator[bool]:
    """Whether something may have changed, at least once a tick. What changes between two answers is not lost.

    The first answer comes when the system is listening, from a look at what changed before.
    """
    folders = [source for source in sources if source.is_dir()]
    own = str(kb.path.resolve())
    every = RESCAN_SECONDS if len(folders) == len(sources) else POLL_INTERVAL_MS / 1000
    look_at = 0.0
    for changed in _poll_file_events(folders, own):
        if changed or time.monotonic() < look_at:
            yield changed
        else:
            yield _has_changes(kb)
            look_at = time.monotonic() + every


def _poll_file_events(folders: Sequence[Path], own: str) -> Iterator[bool]:
    """Whether the file system told of a change, at least once a tick; changes of the knowledge base do not count."""
    if not folders:
        while True:
            yield False
            time.sleep(POLL_INTERVAL_MS / 1000)
    changes = watch(
        *folders,
        watch_filter=lambda _, path: not is_within(path, own),
        debounce=MAX_DELAY_MS,
        step=QUIET_PERIOD_MS,
        rust_timeout=POLL_INTERVAL_MS,
        yield_on_timeout=True,
        raise_interrupt=True,
        ignore_permission_denied=True,
    )
    try:
        yield from map(bool, changes)
    except OSError as error:  # most often the system's limit of watched folders
        hint = "raise fs.inotify.max_user_watches, or set WATCHFILES_FORCE_POLLING=true"
        raise LoadError(", ".join(map(str, folders)), f"cannot be watched ({error})", hint) from error


def _has_changes(kb: KnowledgeBase) -> bool:
    try:
        found = kb.freshness(timeout_s=RESCAN_SECONDS / 10)
    except RagkitError:
        return False  # an index run will say it, when there is something to do
    return bool(found.added or found.changed or found.removed or not found.is_complete)
