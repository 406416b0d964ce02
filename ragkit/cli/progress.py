"""Progress on stderr: a bar on a terminal, else a log line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from ragkit.cli.common import CliContext
from ragkit.index.report import FileRead, IndexEvent, PlanCreated, TextsEmbedded
from ragkit.index.source_ids import display_name

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

LOG_INTERVAL_S = 15.0
"""Seconds between two log lines."""


class ProgressBar:
    """A progress bar, or log lines without a terminal. Use it in a `with` block."""

    def __init__(self, context: CliContext, columns: Callable[[], Sequence[ProgressColumn]] = tuple) -> None:
        """`columns` creates the columns of the bar; by default, those of Rich."""
        self._context = context
        self._columns = columns
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._logged_at = time.monotonic()
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove the bar; later updates are ignored. Idempotent."""
        self._stopped = True
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, total: int | None, line: str, **fields: str) -> None:
        """Show `done` of `total` with the fields of the columns; without a terminal, log `line`."""
        if self._stopped or self._context.quiet:
            return
        if sys.stderr.isatty():
            self._update_bar(done, total, fields)
        elif time.monotonic() - self._logged_at >= LOG_INTERVAL_S:
            self._logged_at = time.monotonic()
            self._context.log(line)

    def _update_bar(self, done: int, total: int | None, fields: Mapping[str, Any]) -> None:
        if self._bar is None or self._task is None:
            # imported here to keep runs without a terminal fast
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(*self._columns(), console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(**{"description": "", "total": total, **fields})
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total, **fields)


class IndexProgress(ProgressBar):
    """Shows the progress of an index run. Use it in a `with` block."""

    def __init__(self, context: CliContext) -> None:
        super().__init__(context, _index_columns)
        self._total_files = self._files_read = self._chunks = self._embedded = 0
        self._started_at = time.monotonic()

    def handle_event(self, event: IndexEvent) -> None:
        """Show one event."""
        if isinstance(event, PlanCreated):
            self._total_files = event.files
        elif isinstance(event, FileRead):
            self._files_read += 1
            self._chunks += event.chunks
            if event.error:
                self._context.log(f"{display_name(event.source)}: {event.error}", level=1)
        elif isinstance(event, TextsEmbedded):
            self._embedded += event.texts
        if self._total_files:
            self._show_counts()

    def _show_counts(self) -> None:
        rate = self._embedded / max(time.monotonic() - self._started_at, 1e-9)
        # unread files are estimated to have as many chunks as the mean of those read
        estimate = self._chunks * self._total_files // max(self._files_read, 1)
        files = f"{self._files_read}/{self._total_files} files" + (f", {rate:.0f} chunks/s" if self._embedded else "")
        line = (
            f"{self._files_read} of {self._total_files} files read, {self._embedded:,} chunks embedded ({rate:.0f}/s)"
        )
        total = max(estimate, self._embedded) or None
        self.update(self._embedded, total, line, description="indexing", rate=files)


def _index_columns() -> Sequence[ProgressColumn]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    return (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True),
    )
