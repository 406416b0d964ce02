"""Batches of texts of one length within a token budget; threads compute all of them or stop at an error."""

from __future__ import annotations

import os
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.embed.batches import batch_by_length, run_batches_in_threads, usable_cpu_count


def test_long_texts_come_first_and_only_equal_lengths_share_a_batch() -> None:
    assert list(batch_by_length([2, 5, 2, 3, 2, 5], budget=10)) == [[1, 5], [3], [0, 2, 4]]


def test_a_budget_limits_a_batch_but_never_below_one_text() -> None:
    assert list(batch_by_length([4, 4, 4, 9], budget=8)) == [[3], [0, 1], [2]]
    assert list(batch_by_length([4, 4], budget=1)) == [[0], [1]]


def test_no_texts_give_no_batches() -> None:
    assert list(batch_by_length([], budget=8)) == []


@given(st.lists(st.integers(1, 256)), st.integers(1, 1000))
def test_every_text_is_in_exactly_one_batch(lengths: list[int], budget: int) -> None:
    batches = list(batch_by_length(lengths, budget))
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    assert all(len(batch) == 1 or sum(lengths[place] for place in batch) <= budget for batch in batches)


@pytest.mark.parametrize("threads", [1, 2, 50])
def test_every_batch_is_computed_once(threads: int) -> None:
    computed: list[int] = []
    run_batches_in_threads(computed.extend, [[n] for n in range(20)], threads)
    assert sorted(computed) == list(range(20))


def test_the_calling_thread_is_one_of_the_threads() -> None:
    used: set[int] = set()

    def compute(batch: list[int]) -> None:
        used.add(threading.get_ident())
        time.sleep(0.001)

    run_batches_in_threads(compute, [[n] for n in range(100)], threads=3)
    assert threading.get_ident() in used
    assert len(used) <= 3


def test_an_error_in_another_thread_stops_the_calling_one() -> None:
    caller = threading.get_ident()
    computed: list[list[int]] = []

    def compute(batch: list[int]) -> None:
        if threading.get_ident() != caller:
            raise ValueError("stop")
        computed.append(batch)
        time.sleep(0.005)

    with pytest.raises(ValueError, match="stop"):
        run_batches_in_threads(compute, [[n] for n in range(1000)], threads=2)
    assert len(computed) < 500


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_is_raised_and_pending_batches_are_cancelled(error: type[BaseException]) -> None:
    started: list[list[int]] = []

    def fail(batch: list[int]) -> None:
        started.append(batch)
        time.sleep(0.005)
        raise error("stop")

    with pytest.raises(error, match="stop"):
        run_batches_in_threads(fail, [[n] for n in range(1000)], threads=2)
    assert len(started) < 500


def test_the_cpu_count_is_that_available_to_the_process() -> None:
    assert usable_cpu_count() == len(os.sched_getaffinity(0))
