"""Split work into batches, and run batches in threads."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context


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
    """Compute all batches, at most `threads` at a time. An error or Ctrl-C cancels batches that have not started.

    Each batch runs in a copy of the caller's context, so that the current meter counts its usage.
    """
    if min(threads, len(batches)) <= 1:
        for batch in batches:
            compute(batch)
        return
    pool = ThreadPoolExecutor(min(threads, len(batches)), thread_name_prefix="embed")
    try:
        for future in [pool.submit(copy_context().run, compute, batch) for batch in batches]:
            future.result()
    finally:
        pool.shutdown(cancel_futures=True)
