"""Work cut into batches and spread over threads. Knows nothing of models."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context


def usable_cpu_count() -> int:
    """Cores that this process may use, which in a container are fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def batch_by_length(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Places of texts, long ones first; a batch holds texts of one length and at most `budget` tokens, or one text.

    Texts of one length need no padding, which costs time, and no mask. Each place comes once.
    """
    places_of: dict[int, list[int]] = defaultdict(list)
    for place, length in enumerate(lengths):
        places_of[length].append(place)
    for length in sorted(places_of, reverse=True):
        places = places_of[length]
        size = max(1, budget // length)
        for first in range(0, len(places), size):
            yield places[first : first + size]


def run_batches_in_threads(compute: Callable[[list[int]], None], batches: Sequence[list[int]], threads: int) -> None:
    """Compute every batch, at most `threads` at a time. At an error or Ctrl-C what has not begun is dropped.

    Context variables travel with the work: a meter counts what is reported there.
    """
    if min(threads, len(batches)) <= 1:
        for batch in batches:
            compute(batch)
        return
    pool = ThreadPoolExecutor(min(threads, len(batches)), thread_name_prefix="embed")
    try:
        for done in [pool.submit(copy_context().run, compute, batch) for batch in batches]:
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)
