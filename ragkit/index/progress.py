"""How far an index run is, in one measure that only grows, and how long the rest takes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from ragkit.index.report import FileRead, IndexEvent, PlanCreated, SearchReady, TextsEmbedded
from ragkit.load.file_types import file_suffix

MIN_ESTIMATE_S = 2.0
"""Before that, the speed is not known."""
MIN_SHARE = 0.05
"""Share of the work, done since the speed is measured, below which it is not known: files differ too much."""

MIN_LEFT_S = 1.0
"""Shown while an event is overdue."""


class RunProgress:
    """The counts of a run, by its events. A run has one or two parts: it reads files, and then embeds what it read.

    The measure of the first part is the bytes of the files that are read; if the run embeds meanwhile, it is the chunks
    that are embedded, of those expected in all files. That of the second part is the chunks. The speed is measured from
    the first event of a part on, since the start of workers and models comes before it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begin(PlanCreated(0, 0, 0))

    def _begin(self, plan: PlanCreated) -> None:
        self._started_at = self._clock()
        self._measured_from: tuple[float, float] | None = None
        """The time and the share at which the measurement of the speed began."""
        self._last_event_at = self._started_at
        self._bytes, self._bytes_read, self._done = plan.bytes, 0, 0
        self._left = Counter(plan.suffix_bytes)
        """Bytes of the files that are not read, by suffix."""
        self._read: dict[str, tuple[int, int]] = {}
        """Bytes and chunks of the files that were read, by suffix."""
        self._embeds = False
        """Whether the run embeds while it reads."""
        self.files = plan.files
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
            self._begin(event)
            return
        if isinstance(event, FileRead):
            self.files_read += 1
            self.chunks += event.chunks
            self._bytes_read += event.bytes
            suffix = file_suffix(event.source)
            size, chunks = self._read.get(suffix, (0, 0))
            self._read[suffix] = size + event.bytes, chunks + event.chunks
            self._left[suffix] -= event.bytes
            self._count_read(event.pending_texts)
        elif isinstance(event, TextsEmbedded):
            self.embedded += event.texts
            self._count_read(event.pending_texts)
        elif isinstance(event, SearchReady):
            self.to_embed, self.embedded, self._started_at = event.unembedded, 0, self._clock()
            self._done, self._measured_from = 0, None
        self._last_event_at = self._clock()
        if self._measured_from is None:
            self._measured_from = (self._last_event_at, self.share)

    def _count_read(self, pending: int) -> None:
        """Count what is done while `pending` texts of what was read are not embedded."""
        if self.to_embed:
            self._done = min(self.embedded, self.to_embed)
        else:
            self._embeds |= pending > 0
            finished = self._bytes_read
            if self._embeds and self.chunks:
                finished = self._bytes * max(self.chunks - pending, 0) // self.expected_chunks
            self._done = max(self._done, finished)

    @property
    def share(self) -> float:
        """The part of the work that is done, in [0, 1]."""
        total = self.to_embed or self._bytes
        return min(self._done / total, 1.0) if total else 0.0

    @property
    def is_complete(self) -> bool:
        """Whether every file is read, and what was read is embedded."""
        return self.files_read >= self.files and (self.share == 1 or not (self.to_embed or self._bytes))

    @property
    def expected_chunks(self) -> int:
        """Of all files: those to be read are taken to have as many chunks a byte as those that were read, of the same
        suffix if there is one. A PDF has a tenth of the chunks of a text file of its size."""
        if not self._bytes_read:
            return self.chunks
        every = self._bytes_read, self.chunks
        known = {suffix: max(left, 0) for suffix, left in self._left.items()}
        known[""] = known.get("", 0) + max(self._bytes - self._bytes_read - sum(known.values()), 0)
        rates = ((left, *self._read.get(suffix, every)) for suffix, left in known.items())
        return self.chunks + sum(left * chunks // size if size else 0 for left, size, chunks in rates)

    @property
    def speed(self) -> float:
        """Texts embedded a second."""
        return self.embedded / max(self._clock() - self._started_at, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """Estimated from the speed until the last event; None if it is too early."""
        if self._measured_from is None:
            return None
        since, share_before = self._measured_from
        seconds, gained = self._last_event_at - since, self.share - share_before
        if seconds < MIN_ESTIMATE_S or gained < MIN_SHARE:
            return None
        if self.share == 1:
            return 0.0
        return max(seconds * (1 - self.share) / gained - (self._clock() - self._last_event_at), MIN_LEFT_S)
