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
        pending += chunks
        progress.handle_event(FileRead("a", chunks, size, pending_texts=pending))
        found.append(progress.share)
        if embeds and pending:
            progress.handle_event(TextsEmbedded(pending - pending // 2, 1, pending // 2))
            pending //= 2
            found.append(progress.share)
    if pending:
        progress.handle_event(TextsEmbedded(pending, 1, 0))
    found.append(progress.share)
    assert found == sorted(found)
    assert found[-1] == 1


def test_a_run_is_complete_when_what_was_read_is_embedded() -> None:
    progress = RunProgress(Clock())
    progress.handle_event(PlanCreated(2, 20, 0))
    for pending in (4, 8):
        progress.handle_event(FileRead("a", 4, 10, pending_texts=pending))
    assert not progress.is_complete  # both are read
    progress.handle_event(TextsEmbedded(4, 1, 4))
    assert not progress.is_complete
    progress.handle_event(TextsEmbedded(4, 1, 0))
    assert progress.is_complete
    nothing = RunProgress(Clock())
    nothing.handle_event(PlanCreated(0, 0, 3))
    assert nothing.is_complete


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


def run_events(events: list[tuple[float, IndexEvent]]) -> tuple[RunProgress, list[tuple[float, float | None]]]:
    """The progress of a run, and the time left as shown every quarter of a second: (seconds since the start, left)."""
    clock = Clock()
    progress = RunProgress(clock)
    shown: list[tuple[float, float | None]] = []
    for at, event in events:
        while clock.now < at:
            shown.append((clock.now, progress.seconds_left))
            clock.now = min(clock.now + 0.25, at)
        progress.handle_event(event)
    return progress, [*shown, (clock.now, progress.seconds_left)]


def test_the_time_left_of_one_file_is_that_of_its_embedding() -> None:
    """Measured: an upload of 787 kB that is read in 2.6 s and embedded in 13.6 s."""
    _, shown = run_events(
        [
            (0.0, PlanCreated(1, 787_000, 0)),
            (2.6, FileRead("a", 736, 787_000, pending_texts=736)),
            (7.5, TextsEmbedded(256, 1, 480)),
            (12.3, TextsEmbedded(256, 1, 224)),
            (16.2, TextsEmbedded(224, 1, 0)),
        ]
    )
    assert all(left is None for at, left in shown if at < 7.5)
    for at, left in shown:
        if at >= 7.5:
            assert left == pytest.approx(16.2 - at, abs=1.2)
    assert shown[-1][1] == 0


def test_small_files_and_the_start_of_workers_say_nothing_about_a_large_file() -> None:
    """Three notes, after workers have started in 2 s, and a large PDF: 3 minutes were shown for 15 s."""
    notes: list[tuple[float, IndexEvent]] = [(2 + n / 10, FileRead("note", 2, 3_000)) for n in range(3)]
    _, shown = run_events([(0.0, PlanCreated(4, 790_000, 0)), *notes, (15.0, FileRead("pdf", 700, 781_000))])
    assert [left for at, left in shown if at < 15 and left is not None] == []
    assert shown[-1] == (15.0, 0)


def test_vectors_that_are_known_count_as_done() -> None:
    progress, _ = run_events(
        [
            (0.0, PlanCreated(2, 200, 0)),
            (1.0, FileRead("a", 50, 100, pending_texts=50)),
            (2.0, FileRead("b", 50, 100, pending_texts=25)),
        ]
    )
    assert progress.share == 0.75


def test_the_time_left_runs_down_between_two_events_and_does_not_reach_0() -> None:
    events: list[tuple[float, IndexEvent]] = [(0.0, PlanCreated(1, 100, 0)), (0.0, SearchReady(200, 200, REPORT))]
    events += [(4.0, TextsEmbedded(100, 1, 100)), (12.0, TextsEmbedded(100, 1, 0))]
    _, shown = run_events(events)
    left = dict(shown)
    assert [left[at] for at in (4.0, 5.0, 7.0, 9.0, 12.0)] == [4.0, 3.0, 1.0, 1.0, 0.0]


def test_the_speed_is_not_guessed_too_early() -> None:
    clock = Clock()
    progress = RunProgress(clock)
    progress.handle_event(PlanCreated(4, 100, 0))
    for at, left in ((1.0, None), (2.0, None), (4.0, 1.5)):
        clock.now = at
        progress.handle_event(FileRead("a", 4, 25))
        assert progress.seconds_left == left


def test_the_chunks_of_files_to_come_are_those_of_files_of_their_suffix() -> None:
    """Measured in kind: PDFs have a tenth of the chunks of Markdown; read first, they were half of the work."""
    clock = Clock()
    progress = RunProgress(clock)
    progress.handle_event(PlanCreated(4, 400_000, 0, suffix_bytes={".pdf": 200_000, ".md": 200_000}))
    for name, chunks in (("a.pdf", 10), ("b.pdf", 10), ("a.md", 100)):
        progress.handle_event(FileRead(name, chunks, 100_000, pending_texts=progress.chunks + chunks))
    assert progress.expected_chunks == 220
    for left in (80, 40, 0):
        clock.now += 4
        progress.handle_event(TextsEmbedded(40, 1, left))
        assert progress.share == pytest.approx((120 - left) / 220, abs=0.001)
        assert progress.seconds_left == pytest.approx((100 + left) / 10, abs=0.1)
    progress.handle_event(FileRead("b.md", 100, 100_000, pending_texts=100))
    clock.now += 10
    progress.handle_event(TextsEmbedded(100, 1, 0))
    assert progress.is_complete
