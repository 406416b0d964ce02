"""The common scale of cosines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ragkit.answer.score_calibration import ScoreCalibration, measure_calibration
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


def test_with_the_shipped_embedder_an_answer_is_nearer_to_its_question_than_other_texts() -> None:
    ruler = measure_calibration(Meanings().embed)
    assert ruler.is_discriminative
    assert ruler.related == pytest.approx(0.63, abs=0.03)
    assert ruler.unrelated == pytest.approx(0.02, abs=0.03)


def test_word_count_embedders_give_no_calibration() -> None:
    assert not measure_calibration(Shelf({}).embed).is_discriminative


def test_a_stored_calibration_is_that_of_its_embedder() -> None:
    calibration = ScoreCalibration(0.6, 0.01, 0.05)
    assert ScoreCalibration.from_json(calibration.to_json("a"), "a") == calibration
    assert ScoreCalibration.from_json(calibration.to_json("a"), "b") is None
    assert ScoreCalibration.from_json("{}", "a") is None


def test_calibration_is_independent_of_scale_and_offset_of_cosines() -> None:
    narrow, wide = ScoreCalibration(0.9, 0.7, 0.02), ScoreCalibration(0.6, 0.0, 0.06)
    assert narrow.is_discriminative and wide.is_discriminative
    assert [narrow.normalize(x) for x in (0.7, 0.8, 0.9)] == pytest.approx([0, 0.5, 1])
    assert [wide.normalize(x) for x in (0.0, 0.3, 0.6)] == pytest.approx([0, 0.5, 1])
