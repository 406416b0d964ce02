"""How an index run is shown: a bar on a terminal, a line now and then elsewhere. All of it on stderr."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from ragkit.cli.common import CliContext
from ragkit.index.report import FileRead, IndexEvent, PlanCreated, TextsEmbedded
from ragkit.index.source_ids import display_name

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

LOG_INTERVAL_S = 15.0
"""Between two lines where there is no terminal."""


class CountProgress:
    """A bar over things that are counted one way, on a terminal; elsewhere a line now and then."""

    def __init__(self, shell: CliContext, what: str, verb: str) -> None:
        self._shell = shell
        self._noun, self._verb = what, verb
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._logged_at = time.monotonic()

    def __enter__(self) -> CountProgress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, total: int) -> None:
        """Show how far it is."""
        if self._bar is None and not self._shell.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as Bar

            self._bar = Bar(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._verb, total=total)
            self._bar.start()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total)
        elif time.monotonic() - self._logged_at >= LOG_INTERVAL_S:
            self._logged_at = time.monotonic()
            self._shell.log(f"{done:,} of {total:,} {self._noun} {self._verb}")


class IndexProgress:
    """Told of every event of a run, in a `with` block."""

    def __init__(self, shell: CliContext) -> None:
        self._shell = shell
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._total_files = self._files_read = self._chunks = self._embedded = 0
        self._started = self._logged_at = time.monotonic()
        self._stopped = False

    def __enter__(self) -> IndexProgress:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar away; events after this are not shown."""
        self._stopped = True
        if self._bar is not None:
            self._bar.stop()

    def handle_event(self, event: IndexEvent) -> None:
        """Show one event."""
        if self._stopped:
            return
        if isinstance(event, PlanCreated):
            self._total_files = event.files
            if event.files and not self._shell.quiet and sys.stderr.isatty():
                self._start_bar()
        elif isinstance(event, FileRead):
            self._files_read += 1
            self._chunks += event.chunks
            if event.error:
                self._shell.log(f"{display_name(event.source)}: {event.error}", level=1)
        elif isinstance(event, TextsEmbedded):
            self._embedded += event.texts
        self._update()

    def _start_bar(self) -> None:
        # here, not at the head: a run without a terminal shall not pay for the import
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("indexing", total=None, rate="")
        self._bar.start()

    def _update(self) -> None:
        rate = self._embedded / max(time.monotonic() - self._started, 1e-9)
        if self._bar is not None and self._task is not None:
            # files that are not yet read count as the mean of those that are
            guess = self._chunks * self._total_files // max(self._files_read, 1)
            text = f"{self._files_read}/{self._total_files} files" + (
                f", {rate:.0f} chunks/s" if self._embedded else ""
            )
            self._bar.update(self._task, completed=self._embedded, total=max(guess, self._embedded) or None, rate=text)
        elif time.monotonic() - self._logged_at >= LOG_INTERVAL_S:
            self._logged_at = time.monotonic()
            self._shell.log(
                f"{self._files_read} of {self._total_files} files read, {self._embedded:,} chunks embedded ({rate:.0f}/s)"
            )
