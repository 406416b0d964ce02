"""`index --watch`: run the index after every change of the sources, until interrupted.

File system events only trigger a run; each run plans from scratch like any other. Single files, and folders without
events (network shares), are polled.
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
from ragkit.index.sources.ids import is_within
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase

QUIET_PERIOD_MS = 300
"""A run starts after this time without a change: editors write a file in several steps."""
MAX_DELAY_MS = 3_000
"""A run starts after this time even if changes continue."""
POLL_INTERVAL_MS = 1_000
RESCAN_SECONDS = 30.0
"""How often folders are scanned for changes without an event."""
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 2.0, 60.0


@dataclass(frozen=True)
class IndexCompleted:
    """A run succeeded."""

    report: IndexReport
    files_read: tuple[FileRead, ...]
    """The parsed files, in order."""
    removed_sources: tuple[str, ...]
    """The removed files."""


@dataclass(frozen=True)
class IndexFailed:
    """A run failed. The watch continues and retries."""

    error: RagkitError


WatchEvent: TypeAlias = IndexCompleted | IndexFailed


@dataclass
class _RetryTimer:
    """Exponential backoff after errors."""

    delay_seconds: float = 0.0
    retry_at: float = 0.0
    last_error: str = ""

    def record_failure(self, error: RagkitError) -> bool:
        """Schedule the next attempt. Returns whether the error differs from the previous one."""
        max_delay = FIRST_RETRY_SECONDS if isinstance(error, KnowledgeBaseLocked) else MAX_RETRY_SECONDS
        self.delay_seconds = min(max(2 * self.delay_seconds, FIRST_RETRY_SECONDS), max_delay)
        self.retry_at = time.monotonic() + self.delay_seconds
        before, self.last_error = self.last_error, str(error)
        return self.last_error != before

    @property
    def is_due(self) -> bool:
        return bool(self.delay_seconds) and time.monotonic() >= self.retry_at


@dataclass
class _EventCollector:
    """Collects the events of one run."""

    files_read: list[FileRead] = field(default_factory=list)
    removed_sources: tuple[str, ...] = ()

    def collect(self, event: IndexEvent) -> None:
        if isinstance(event, FileRead):
            self.files_read.append(event)
        elif isinstance(event, PlanCreated):
            self.removed_sources = event.removed_sources


def watch_and_index(kb: KnowledgeBase, sources: Sequence[Path], options: IndexOptions) -> Iterator[WatchEvent]:
    """Index now and after every change, forever. A repeated error is yielded once.

    Args:
        kb: the knowledge base.
        sources: existing folders and files.
        options: settings of the runs; `rebuild` and `retry_failed` apply to the first one only.

    Yields:
        The result of the first run, and of each later run that changed something or failed.
    """
    later = replace(options, rebuild=False, retry_failed=False)
    retry_timer = _RetryTimer()
    first = True
    for has_changed in chain([True], _poll_changes(kb, sources)):
        if not (has_changed or retry_timer.is_due):
            continue
        outcome = _run_index(kb, sources, options if first else later)
        if isinstance(outcome, IndexFailed):
            if retry_timer.record_failure(outcome.error):
                yield outcome
            continue
        retry_timer = _RetryTimer()
        if first or outcome.files_read or outcome.removed_sources or outcome.report.notes:
            yield outcome
        first = False


def _run_index(kb: KnowledgeBase, sources: Sequence[Path], options: IndexOptions) -> WatchEvent:
    collector = _EventCollector()

    def forward(event: IndexEvent) -> None:
        collector.collect(event)
        options.on_event(event)

    try:
        report = kb.index(*sources, options=replace(options, on_event=forward))
    except RagkitError as error:
        return IndexFailed(error)
    return IndexCompleted(report, tuple(collector.files_read), collector.removed_sources)


def _poll_changes(kb: KnowledgeBase, sources: Sequence[Path]) -> Iterator[bool]:
    """Yields whether something may have changed, at least once per poll interval; no change is lost between two yields.

    The first value is yielded once events are being received; it covers changes from before.
    """
    folders = [source for source in sources if source.is_dir()]
    own = str(kb.path.resolve())
    interval = RESCAN_SECONDS if len(folders) == len(sources) else POLL_INTERVAL_MS / 1000
    next_rescan = 0.0
    for changed in _poll_file_events(folders, own):
        if changed or time.monotonic() < next_rescan:
            yield changed
        else:
            yield _has_changes(kb)
            next_rescan = time.monotonic() + interval


def _poll_file_events(folders: Sequence[Path], own: str) -> Iterator[bool]:
    """Yields whether there were file system events, at least once per poll interval; the knowledge base is excluded."""
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
    except OSError as error:  # usually the limit of watched folders
        hint = "raise fs.inotify.max_user_watches, or set WATCHFILES_FORCE_POLLING=true"
        raise LoadError(", ".join(map(str, folders)), f"cannot be watched ({error})", hint) from error


def _has_changes(kb: KnowledgeBase) -> bool:
    try:
        with kb.session() as session:
            freshness = session.freshness(timeout_s=RESCAN_SECONDS / 10)
    except RagkitError:
        return False  # the next index run reports it
    return bool(freshness.added or freshness.changed or freshness.removed or not freshness.is_complete)
