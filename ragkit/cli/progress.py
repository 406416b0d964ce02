"""How an index run is shown: a bar on a terminal, a line now and then elsewhere. All of it on stderr."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from ragkit.cli.common import Shell
from ragkit.index.names import shown
from ragkit.index.report import Embedded, Event, FileRead, Planned

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

EVERY_SECONDS = 15.0
"""Between two lines where there is no terminal."""


class Counting:
    """A bar over things that are counted one way, on a terminal; elsewhere a line now and then."""

    def __init__(self, shell: Shell, what: str, verb: str) -> None:
        self._shell = shell
        self._what, self._verb = what, verb
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._said = time.monotonic()

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def at(self, done: int, total: int) -> None:
        """Show how far it is."""
        if self._bar is None and not self._shell.quiet and sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415 - as below
            from rich.progress import Progress as Bar  # noqa: PLC0415

            self._bar = Bar(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._verb, total=total)
            self._bar.start()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total)
        elif time.monotonic() - self._said >= EVERY_SECONDS:
            self._said = time.monotonic()
            self._shell.say(f"{done:,} of {total:,} {self._what} {self._verb}")


class Progress:
    """Told of every event of a run, in a `with` block."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._files = self._read = self._chunks = self._embedded = 0
        self._started = self._said = time.monotonic()
        self._over = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Take the bar away; events after this are not shown."""
        self._over = True
        if self._bar is not None:
            self._bar.stop()

    def event(self, event: Event) -> None:
        """Show one event."""
        if self._over:
            return
        if isinstance(event, Planned):
            self._files = event.files
            if event.files and not self._shell.quiet and sys.stderr.isatty():
                self._start()
        elif isinstance(event, FileRead):
            self._read += 1
            self._chunks += event.chunks
            if event.problem:
                self._shell.say(f"{shown(event.source)}: {event.problem}", level=1)
        elif isinstance(event, Embedded):
            self._embedded += event.texts
        self._show()

    def _start(self) -> None:
        # here, not at the head: a run without a terminal shall not pay for the import
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
        from rich.progress import Progress as Bar  # noqa: PLC0415

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

    def _show(self) -> None:
        rate = self._embedded / max(time.monotonic() - self._started, 1e-9)
        if self._bar is not None and self._task is not None:
            # files that are not yet read count as the mean of those that are
            guess = self._chunks * self._files // max(self._read, 1)
            text = f"{self._read}/{self._files} files" + (f", {rate:.0f} chunks/s" if self._embedded else "")
            self._bar.update(self._task, completed=self._embedded, total=max(guess, self._embedded) or None, rate=text)
        elif time.monotonic() - self._said >= EVERY_SECONDS:
            self._said = time.monotonic()
            self._shell.say(
                f"{self._read} of {self._files} files read, {self._embedded:,} chunks embedded ({rate:.0f}/s)"
            )
