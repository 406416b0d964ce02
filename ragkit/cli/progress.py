"""Progress on stderr: a bar on a terminal, else a log line now and then."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Self

from ragkit.cli.common import CliContext, format_count
from ragkit.cli.terminal import replace_control_chars
from ragkit.index.report import FileRead, IndexEvent, PlanCreated, SearchReady, TextsEmbedded
from ragkit.index.sources.ids import display_name

LOG_INTERVAL_S = 15.0
"""Seconds between two log lines."""
_REDRAW_INTERVAL_S = 0.1
_BAR_WIDTH = 30
_ERASE_LINE = "\r\x1b[K"


class ProgressBar:
    """A progress bar, or log lines without a terminal. Use it in a `with` block."""

    def __init__(self, context: CliContext) -> None:
        self._context = context
        self._started_at = self._logged_at = time.monotonic()
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
        if self._stopped or self._context.quiet:
            return
        now = time.monotonic()
        if sys.stderr.isatty():
            if now - self._drawn_at >= _REDRAW_INTERVAL_S or done == total:
                self._drawn_at = now
                self._draw(format_bar(done, total, description, details, now - self._started_at))
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
    filled = int(share * _BAR_WIDTH)
    bar = "━" * filled + "─" * (_BAR_WIDTH - filled)
    parts = [description, bar, f"{done:,}/{total:,}" if total else f"{done:,}", details]
    if share > 0:
        remaining = int(seconds * (1 - share) / share)
        parts.append(f"{remaining // 60}:{remaining % 60:02} left")
    return " ".join(filter(None, parts))


class IndexProgress(ProgressBar):
    """Shows the progress of an index run. Use it in a `with` block."""

    def __init__(self, context: CliContext) -> None:
        super().__init__(context)
        self._total_files = self._files_read = self._chunks = self._embedded = self._to_embed = 0

    def handle_event(self, event: IndexEvent) -> None:
        """Show one event."""
        if isinstance(event, PlanCreated):
            self._total_files = event.files
        elif isinstance(event, FileRead):
            self._files_read += 1
            self._chunks += event.chunks
            if event.error:
                self.log(f"{display_name(event.source)}: {event.error}", level=1)
        elif isinstance(event, TextsEmbedded):
            self._embedded += event.texts
        elif isinstance(event, SearchReady):
            self._to_embed = event.unembedded
            self._started_at = time.monotonic()
            seconds, chunks = event.report.seconds, format_count(event.chunks, "chunk")
            self.log(f"searchable after {seconds:.1f} s: {chunks}, {event.unembedded:,} to embed (Ctrl-C is safe)")
        if self._to_embed:
            self._show_embedding()
        elif self._total_files:
            self._show_counts()

    def _show_embedding(self) -> None:
        """The progress after everything is searchable."""
        rate = self._embedded / max(time.monotonic() - self._started_at, 1e-9)
        line = f"searchable; {self._embedded:,} of {self._to_embed:,} chunks embedded ({rate:.0f}/s)"
        details = f"{rate:.0f} chunks/s"
        self.update(self._embedded, self._to_embed, line, description="searchable, embedding", details=details)

    def _show_counts(self) -> None:
        rate = self._embedded / max(time.monotonic() - self._started_at, 1e-9)
        # unread files are estimated to have as many chunks as the mean of those read
        estimate = self._chunks * self._total_files // max(self._files_read, 1)
        files = f"{self._files_read}/{self._total_files} files" + (f", {rate:.0f} chunks/s" if self._embedded else "")
        line = (
            f"{self._files_read} of {self._total_files} files read, {self._embedded:,} chunks embedded ({rate:.0f}/s)"
        )
        total = max(estimate, self._embedded) or None
        self.update(self._embedded, total, line, description="indexing", details=files)
