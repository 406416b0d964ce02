"""The common scale of cosines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ragkit.answer.score_calibration import ScoreCalibration, get_calibration
from ragkit.embed.minilm import MiniLM
from tests.answer.passages import Shelf


class Meanings(Shelf):
    """A shelf with the shipped embedder; counts its calls."""

    def __init__(self) -> None:
        super().__init__({})
        self.model = MiniLM()
        self.calls = 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls += 1
        return self.model.embed_texts(texts)


def test_an_answer_is_nearer_to_its_question_than_other_texts_for_the_embedder_that_ships() -> None:
    ruler = get_calibration(Meanings())
    assert ruler.is_discriminative
    assert ruler.related == pytest.approx(0.63, abs=0.03)
    assert ruler.unrelated == pytest.approx(0.02, abs=0.03)


def test_counts_of_words_tell_nothing() -> None:
    assert not get_calibration(Shelf({})).is_discriminative


def test_it_is_measured_once() -> None:
    searcher = Meanings()
    assert get_calibration(searcher) is get_calibration(searcher)
    assert searcher.calls == 1


def test_nearness_is_the_same_for_embedders_whose_cosines_differ_by_scale_and_offset() -> None:
    narrow, wide = ScoreCalibration(0.9, 0.7, 0.02), ScoreCalibration(0.6, 0.0, 0.06)
    assert narrow.is_discriminative and wide.is_discriminative
    assert [narrow.normalize(x) for x in (0.7, 0.8, 0.9)] == pytest.approx([0, 0.5, 1])
    assert [wide.normalize(x) for x in (0.0, 0.3, 0.6)] == pytest.approx([0, 0.5, 1])
