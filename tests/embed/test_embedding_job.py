"""Background embedding: finished batches are kept, pending ones are cancelled at an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event

import numpy as np
import pytest

from ragkit.embed.base import Row, Rows, normalize_rows
from ragkit.embed.embedding_job import STOP_EVENT, EmbeddingJob
from ragkit.embed.hashing import HashingEmbedder
from ragkit.errors import InvalidRequest
from ragkit.usage.meter import Meter, record_embedding, use_meter

TEXTS = ["one", "two", "three", "four", "five"]


class OneByOneEmbedder:
    """Embeds each text in its own batch, after a call of `before` with it."""

    dimension, fingerprint = 2, "one by one"

    def __init__(self, before: Callable[[str], object] = str, concurrency: int = 1) -> None:
        self.before, self.concurrency = before, concurrency
        self.embedded: list[str] = []

    def batches(self, texts: Sequence[str]) -> list[list[int]]:
        """One text per batch."""
        return [[index] for index in range(len(texts))]

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """(length of the text, 1), normalized."""
        for text in texts:
            self.before(text)
            self.embedded.append(text)
            record_embedding("one by one", 1, 0.0)
        return normalize_rows(np.array([[len(text), 1] for text in texts], np.float32))

    def embed_query(self, text: str) -> Row:
        """The same row as for a text."""
        return np.asarray(self.embed_texts([text])[0], np.float32)


def test_an_embedder_without_batches_gets_all_texts_in_one_call() -> None:
    job = EmbeddingJob(HashingEmbedder(), TEXTS)
    [(indices, rows)] = job.iter_remaining()
    job.close()
    assert indices == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(rows, HashingEmbedder().embed_texts(TEXTS))


def test_each_batch_is_returned_once_by_take_finished_or_iter_remaining() -> None:
    gate = Event()
    embedder = OneByOneEmbedder(lambda text: gate.wait(5) if text == "three" else None)
    job = EmbeddingJob(embedder, TEXTS)
    early: list[int] = []
    while len(early) < 2:
        early += [index for indices, _ in job.take_finished() for index in indices]
    gate.set()
    late = [index for indices, _ in job.iter_remaining() for index in indices]
    job.close()
    assert (early, sorted(late)) == ([0, 1], [2, 3, 4])


def fail_at_two(text: str) -> None:
    if text == "two":
        raise InvalidRequest("test", "two is rejected")


def test_after_an_error_finished_batches_are_returned_and_pending_ones_are_cancelled() -> None:
    def before(text: str) -> None:
        fail_at_two(text)
        stop_event = STOP_EVENT.get()
        assert stop_event is not None
        assert text == "one" or stop_event.wait(5)

    embedder, returned = OneByOneEmbedder(before), list[int]()
    job = EmbeddingJob(embedder, TEXTS)
    with pytest.raises(InvalidRequest, match="two is rejected"):
        for indices, _ in job.iter_remaining():
            returned += indices
    job.close()
    assert (embedder.embedded, returned) == (["one", "three"], [0, 2])


def test_a_batch_running_during_an_error_is_still_returned() -> None:
    failed = Event()

    def before(text: str) -> None:
        if text == "one":
            failed.wait(5)
        if text == "two":
            failed.set()
            fail_at_two(text)

    job = EmbeddingJob(OneByOneEmbedder(before, concurrency=2), ["one", "two"])
    returned: list[int] = []
    with pytest.raises(InvalidRequest, match="two is rejected"):
        for indices, _ in job.iter_remaining():
            returned += indices
    job.close()
    assert returned == [0]


def test_closing_a_job_sets_the_stop_event_of_a_waiting_embedder() -> None:
    started = Event()

    def before(text: str) -> None:
        started.set()
        stop_event = STOP_EVENT.get()
        assert stop_event is not None
        assert stop_event.wait(5)

    embedder = OneByOneEmbedder(before)
    job = EmbeddingJob(embedder, TEXTS)
    started.wait(5)
    job.close()
    assert [indices for indices, _ in job.take_finished()] == [[0]]
    assert embedder.embedded == ["one"]


def test_usage_is_recorded_in_the_meter_of_the_caller() -> None:
    meter = Meter()
    with use_meter(meter):
        job = EmbeddingJob(OneByOneEmbedder(concurrency=3), TEXTS)
        assert len(list(job.iter_remaining())) == 5
        job.close()
    assert meter.usage().embedding_tokens == 5
