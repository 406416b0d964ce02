"""Texts embedded in the background: what has come is kept, what has not begun is dropped."""

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


class OneByOne:
    """Sends each text in a batch of its own, after `before` was called with it."""

    dimension, fingerprint = 2, "one by one"

    def __init__(self, before: Callable[[str], object] = str, concurrency: int = 1) -> None:
        self.before, self.concurrency = before, concurrency
        self.embedded: list[str] = []

    def batches(self, texts: Sequence[str]) -> list[list[int]]:
        """One text each."""
        return [[place] for place in range(len(texts))]

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """The length of a text and 1, scaled."""
        for text in texts:
            self.before(text)
            self.embedded.append(text)
            record_embedding("one by one", 1, 0.0)
        return normalize_rows(np.array([[len(text), 1] for text in texts], np.float32))

    def embed_query(self, text: str) -> Row:
        """The same."""
        return np.asarray(self.embed_texts([text])[0], np.float32)


def test_an_embedder_without_batches_gets_all_texts_in_one() -> None:
    embedding = EmbeddingJob(HashingEmbedder(), TEXTS)
    [(places, rows)] = embedding.iter_remaining()
    embedding.close()
    assert places == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(rows, HashingEmbedder().embed_texts(TEXTS))


def test_each_batch_comes_once_by_ready_or_by_rest() -> None:
    gate = Event()
    embedder = OneByOne(lambda text: gate.wait(5) if text == "three" else None)
    embedding = EmbeddingJob(embedder, TEXTS)
    early: list[int] = []
    while len(early) < 2:
        early += [place for places, _ in embedding.take_finished() for place in places]
    gate.set()
    late = [place for places, _ in embedding.iter_remaining() for place in places]
    embedding.close()
    assert (early, sorted(late)) == ([0, 1], [2, 3, 4])


def fails_at_two(text: str) -> None:
    if text == "two":
        raise InvalidRequest("test", "two is refused")


def test_at_an_error_what_came_before_is_given_and_what_has_not_begun_is_dropped() -> None:
    def before(text: str) -> None:
        fails_at_two(text)
        stopped = STOP_EVENT.get()
        assert stopped is not None
        assert text == "one" or stopped.wait(5)

    embedder, came = OneByOne(before), list[int]()
    embedding = EmbeddingJob(embedder, TEXTS)
    with pytest.raises(InvalidRequest, match="two is refused"):
        for places, _ in embedding.iter_remaining():
            came += places
    embedding.close()
    assert (embedder.embedded, came) == (["one", "three"], [0, 2])


def test_what_is_under_way_at_an_error_still_comes() -> None:
    failed = Event()

    def before(text: str) -> None:
        if text == "one":
            failed.wait(5)
        if text == "two":
            failed.set()
            fails_at_two(text)

    embedding = EmbeddingJob(OneByOne(before, concurrency=2), ["one", "two"])
    came: list[int] = []
    with pytest.raises(InvalidRequest, match="two is refused"):
        for places, _ in embedding.iter_remaining():
            came += places
    embedding.close()
    assert came == [0]


def test_who_waits_is_told_when_nobody_wants_the_rows_any_more() -> None:
    begun = Event()

    def before(text: str) -> None:
        begun.set()
        stopped = STOP_EVENT.get()
        assert stopped is not None
        assert stopped.wait(5)

    embedder = OneByOne(before)
    embedding = EmbeddingJob(embedder, TEXTS)
    begun.wait(5)
    embedding.close()
    assert [places for places, _ in embedding.take_finished()] == [[0]]
    assert embedder.embedded == ["one"]


def test_the_meter_of_the_caller_counts() -> None:
    meter = Meter()
    with use_meter(meter):
        embedding = EmbeddingJob(OneByOne(concurrency=3), TEXTS)
        assert len(list(embedding.iter_remaining())) == 5
        embedding.close()
    assert meter.usage().embedding_tokens == 5
