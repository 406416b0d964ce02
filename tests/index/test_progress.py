"""The progress of an index run: one measure that only grows, and a time left that is true."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.index.progress import RunProgress
from ragkit.index.report import FileRead, IndexEvent, IndexReport, PlanCreated, SearchReady, TextsEmbedded

REPORT = IndexReport("kb", {}, {}, 0, 0, (), (), 1.0)


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def shares(progress: RunProgress, clock: Clock, events: list[tuple[float, IndexEvent]]) -> Iterator[float]:
    """The share of the work after each event, which takes some seconds."""
    for seconds, event in events:
        clock.now += seconds
        progress.handle_event(event)
        yield progress.share


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(0, 40), st.booleans()), min_size=1, max_size=30))
def test_the_measure_only_grows_to_the_end(files: list[tuple[int, int, bool]]) -> None:
    progress = RunProgress(Clock())
    progress.handle_event(PlanCreated(len(files), sum(size for size, _, _ in files), 0))
    found, pending = [0.0], 0
    for size, chunks, embeds in files:
        progress.handle_event(FileRead("a", chunks, size))
        found.append(progress.share)
        pending += chunks
        if embeds and pending:
            progress.handle_event(TextsEmbedded(pending - pending // 2, 1, pending // 2))
            pending //= 2
            found.append(progress.share)
    if pending:
        progress.handle_event(TextsEmbedded(pending, 1, 0))
    found.append(progress.share)
    assert found == sorted(found)
    assert found[-1] == 1


@pytest.mark.parametrize("sizes", [[100] * 20, [10] * 19 + [1810], [1810] + [10] * 19])
def test_the_time_left_is_that_of_the_bytes_not_of_the_files(sizes: list[int]) -> None:
    clock = Clock()
    progress = RunProgress(clock)
    progress.handle_event(PlanCreated(len(sizes), sum(sizes), 0))
    for size in sizes:
        clock.now += size / 10
        progress.handle_event(FileRead("a", size // 10, size))
        if progress.seconds_left is not None:
            assert progress.seconds_left == pytest.approx(200 - clock.now, abs=0.01)
            assert progress.expected_chunks == pytest.approx(200, abs=2)


def test_the_second_part_counts_chunks_from_nothing() -> None:
    clock = Clock()
    progress = RunProgress(clock)
    reading: list[tuple[float, IndexEvent]] = [(0, PlanCreated(1, 50, 0)), (30, FileRead("a", 640, 50))]
    embedding: list[tuple[float, IndexEvent]] = [(0, SearchReady(640, 640, REPORT))]
    embedding += [(2.0, TextsEmbedded(64, 1, 640 - 64 * n)) for n in range(1, 11)]
    assert list(shares(progress, clock, reading)) == [0, 1]
    assert list(shares(progress, clock, embedding)) == pytest.approx([n / 10 for n in range(11)])
    assert progress.seconds_left == 0


def test_the_speed_is_not_guessed_too_early() -> None:
    clock = Clock()
    progress = RunProgress(clock)
    progress.handle_event(PlanCreated(2, 100, 0))
    clock.now = 1.0
    progress.handle_event(FileRead("a", 4, 50))
    assert progress.seconds_left is None
    clock.now = 3.0
    assert progress.seconds_left == 3
