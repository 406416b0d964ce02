"""Progress on stderr: a bar on a terminal, else a log line now and then."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Self

from ragkit.cli.common import CliContext, format_count
from ragkit.cli.terminal import replace_control_chars
from ragkit.index.progress import RunProgress
from ragkit.index.report import FileRead, IndexEvent, SearchReady
from ragkit.index.sources.ids import display_name

LOG_INTERVAL_S = 15.0
"""Seconds between two log lines."""
FIRST_LINE_S = 1.5
"""Seconds after which the first one comes."""
LONG_S = 60
"""A run that takes longer says so before it."""
_REDRAW_INTERVAL_S = 0.1
_BAR_WIDTH = 30
_ERASE_LINE = "\r\x1b[K"


class ProgressBar:
    """A progress bar, or log lines without a terminal. Use it in a `with` block."""

    def __init__(self, context: CliContext) -> None:
        self._context = context
        self._started_at = time.monotonic()
        self._logged_at = self._started_at - LOG_INTERVAL_S + FIRST_LINE_S
        self._drawn_at = -_REDRAW_INTERVAL_S
        self._is_drawn = False
        self._stopped = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove the bar; later updates are ignored. Idempotent."""
        self._stopped = True
        self._erase()

    def log(self, line: str, *, level: int = 0) -> None:
        """Print a line above the bar; the next update draws the bar again."""
        self._erase()
        self._context.log(line, level=level)

    def update(self, done: int, total: int | None, line: str, *, description: str = "", details: str = "") -> None:
        """Show `done` of `total` between a description and details; without a terminal, log `line`."""
        self._show(line, lambda seconds: format_bar(done, total, description, details, seconds), at_once=done == total)

    def _show(self, line: str, format_text: Callable[[float], str], *, at_once: bool = False) -> None:
        """Draw a text, made from the seconds so far; without a terminal, log `line`. Not too often."""
        if self._stopped or self._context.quiet:
            return
        now = time.monotonic()
        if sys.stderr.isatty():
            if now - self._drawn_at >= _REDRAW_INTERVAL_S or at_once:
                self._drawn_at = now
                self._draw(format_text(now - self._started_at))
        elif now - self._logged_at >= LOG_INTERVAL_S:
            self._logged_at = now
            self._context.log(line)

    def _draw(self, text: str) -> None:
        # one column is left free: a full line would make some terminals begin a new one
        text = replace_control_chars(text)[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write(_ERASE_LINE + text)
        sys.stderr.flush()
        self._is_drawn = True

    def _erase(self) -> None:
        if self._is_drawn:
            sys.stderr.write(_ERASE_LINE)
            sys.stderr.flush()
            self._is_drawn = False


def format_bar(done: int, total: int | None, description: str, details: str, seconds: float) -> str:
    """A bar with its texts, and the remaining time, estimated from the mean speed so far."""
    share = min(done / total, 1.0) if total else 0.0
    count = f"{done:,}/{total:,}" if total else f"{done:,}"
    return join_bar(share, description, f"{count} {details}".strip(), seconds * (1 - share) / share if share else None)


def join_bar(share: float, description: str, details: str, seconds_left: float | None) -> str:
    """A bar of which `share`, in [0, 1], is full, between its texts."""
    filled = int(share * _BAR_WIDTH)
    bar = "━" * filled + "─" * (_BAR_WIDTH - filled)
    left = "" if seconds_left is None else f"{int(seconds_left) // 60}:{int(seconds_left) % 60:02} left"
    return " ".join(filter(None, (description, bar, details, left)))


def format_duration(seconds: float) -> str:
    """`about 7 minutes`, `about 40 s`."""
    if seconds < LONG_S:
        return f"about {max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"about {format_count(minutes, 'minute')}" if minutes < 120 else f"about {round(minutes / 60)} hours"


class IndexProgress(ProgressBar):
    """Shows the progress of an index run. Use it in a `with` block."""

    def __init__(self, context: CliContext) -> None:
        super().__init__(context)
        self._run = RunProgress()
        self._is_announced = False
        self._timer = threading.Timer(FIRST_LINE_S, self._show_first)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Remove the bar; later updates are ignored. Idempotent."""
        self._timer.cancel()
        super().stop()

    def handle_event(self, event: IndexEvent) -> None:
        """Show one event."""
        self._run.handle_event(event)
        if isinstance(event, FileRead) and event.error:
            self.log(f"{display_name(event.source)}: {event.error}", level=1)
        elif isinstance(event, SearchReady):
            self._timer.cancel()
            self._is_announced = False
            seconds, chunks = event.report.seconds, format_count(event.chunks, "chunk")
            self.log(f"searchable after {seconds:.1f} s: {chunks}, {event.unembedded:,} to embed (Ctrl-C is safe)")
        self._announce()
        if self._run.files or self._run.to_embed:
            self._show_run()

    def _show_first(self) -> None:
        """Say something in time, whatever the first event waits for."""
        if not self._run.files and not self._run.to_embed:
            self._show("looking for changes in the sources", lambda _: "looking for changes in the sources")
        else:
            self._show_run()

    def _announce(self) -> None:
        """Say before a long part how long it takes here, as soon as its speed is known."""
        left = self._run.seconds_left
        if left is None or self._is_announced or self._stopped:
            return
        self._is_announced = True
        if left > LONG_S:
            chunks = self._run.to_embed or self._run.expected_chunks
            what = f"{chunks:,} chunks to embed" if self._run.to_embed else f"about {chunks:,} chunks"
            self.log(f"{what}, {format_duration(left)} here")

    def _show_run(self) -> None:
        run = self._run
        rate = f", {run.speed:.0f} chunks/s" if run.embedded else ""
        if run.to_embed:
            description, details = "searchable, embedding", f"{run.embedded:,}/{run.to_embed:,} chunks{rate}"
        else:
            description = "indexing"
            details = f"{run.files_read:,}/{run.files:,} files, {run.chunks:,} chunks{rate}"
        left = run.seconds_left
        line = f"{description}: {details}" + ("" if left is None else f", {format_duration(left)} left")
        self._show(line, lambda _: join_bar(run.share, description, details, left), at_once=run.share == 1)
