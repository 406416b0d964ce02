"""What a process that parses files is told: whether to read scans, and how to begin its time limit anew."""

from __future__ import annotations

import gc
from collections.abc import Callable

COLLECT_EVERY = 50_000
"""New objects after which the process looks for cycles."""


class _State:
    restart: Callable[[], None] | None = None
    reads_scans = True


def set_time_limit_restart(restart: Callable[[], None] | None) -> None:
    """Set what `restart_time_limit` calls."""
    _State.restart = restart


def restart_time_limit() -> None:
    """Begin the time limit anew: called for each page that takes seconds, so that the limit holds for a page."""
    if _State.restart is not None:
        _State.restart()


def set_reads_scans(reads: bool) -> None:
    """Set whether scanned pages are read, or only counted, as in a dry run."""
    _State.reads_scans = reads


def reads_scans() -> bool:
    """Whether scanned pages are read."""
    return _State.reads_scans


def reduce_gc() -> None:
    """Look for cycles of objects rarely: those of a file live until it is read, and are searched in vain."""
    gc.set_threshold(COLLECT_EVERY)
