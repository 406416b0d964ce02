"""How far an index run is, in one measure that only grows, and how long the rest takes."""

from __future__ import annotations

import time
from collections.abc import Callable

from ragkit.index.report import FileRead, IndexEvent, PlanCreated, SearchReady, TextsEmbedded

MIN_ESTIMATE_S = 2.0
"""Before that, the speed is not known."""
MIN_SHARE = 0.01
"""Share of the work below which the speed is not known."""


class RunProgress:
    """The counts of a run, by its events. A run has one or two parts: it reads files, and then embeds what it read.

    The measure of the first part is the bytes of the files that are read, and embedded if the run embeds meanwhile.
    That of the second part is the chunks.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begin(0, 0)

    def _begin(self, files: int, total_bytes: int) -> None:
        self._started_at = self._clock()
        self._bytes, self._bytes_read, self._done, self._pending = total_bytes, 0, 0, 0
        self.files = files
        """Files to read; 0 before they are known."""
        self.files_read = 0
        self.chunks = 0
        """Of the files that were read."""
        self.embedded = 0
        """Texts embedded in this part."""
        self.to_embed = 0
        """Chunks to embed when everything can be searched; 0 before."""

    def handle_event(self, event: IndexEvent) -> None:
        """Count an event."""
        if isinstance(event, PlanCreated):
            self._begin(event.files, event.bytes)
        elif isinstance(event, FileRead):
            self.files_read += 1
            self.chunks += event.chunks
            self._bytes_read += event.bytes
        elif isinstance(event, TextsEmbedded):
            self.embedded += event.texts
            self._pending = event.pending_texts
        elif isinstance(event, SearchReady):
            self.to_embed, self.embedded, self._started_at = event.unembedded, 0, self._clock()
        if self.to_embed:
            self._done = min(self.embedded, self.to_embed)
        elif self.embedded:  # what waits for the embedder counts for nothing yet
            finished = self._bytes_read * self.embedded // (self.embedded + self._pending)
            self._done = max(self._done, finished)
        elif not self._pending:
            self._done = self._bytes_read

    @property
    def share(self) -> float:
        """The part of the work that is done, in [0, 1]."""
        total = self.to_embed or self._bytes
        return min(self._done / total, 1.0) if total else 0.0

    @property
    def expected_chunks(self) -> int:
        """Of all files: those to be read are taken to have as many chunks a byte as those that were read."""
        left = max(self._bytes - self._bytes_read, 0)
        return self.chunks + (self.chunks * left // self._bytes_read if self._bytes_read else 0)

    @property
    def speed(self) -> float:
        """Texts embedded a second."""
        return self.embedded / max(self._clock() - self._started_at, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """Estimated from the speed so far; None if it is too early."""
        seconds = self._clock() - self._started_at
        if seconds < MIN_ESTIMATE_S or self.share < MIN_SHARE:
            return None
        return seconds * (1 - self.share) / self.share
