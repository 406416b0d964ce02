"""Split work into batches, and run batches in threads."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Event


def usable_cpu_count() -> int:
    """Number of CPUs that this process may use; in a container fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def batch_by_length(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield batches of text indexes, longest texts first. Each index occurs once.

    A batch holds texts of equal length, which need no padding and no mask: at most `budget` tokens, or one text.
    """
    indexes_by_length: dict[int, list[int]] = defaultdict(list)
    for index, length in enumerate(lengths):
        indexes_by_length[length].append(index)
    for length in sorted(indexes_by_length, reverse=True):
        indexes = indexes_by_length[length]
        size = max(1, budget // length)
        for start in range(0, len(indexes), size):
            yield indexes[start : start + size]


def run_batches_in_threads(compute: Callable[[list[int]], None], batches: Sequence[list[int]], threads: int) -> None:
    """Compute all batches, at most `threads` at a time, the caller's thread among them.

    An error or Ctrl-C cancels batches that have not started. Other threads run in a copy of the caller's context, so
    that the current meter counts their usage.
    """
    waiting = iter(batches)  # shared by the threads
    stopped = Event()

    def work() -> None:
        try:
            for batch in waiting:
                if stopped.is_set():
                    return
                compute(batch)
        except BaseException:
            stopped.set()
            raise

    others = min(threads, len(batches)) - 1
    if others <= 0:
        work()
        return
    with ThreadPoolExecutor(others, thread_name_prefix="embed") as pool:
        futures = [pool.submit(copy_context().run, work) for _ in range(others)]
        try:
            work()
            for future in futures:
                future.result()
        finally:
            stopped.set()  # Ctrl-C while it waits for the others
