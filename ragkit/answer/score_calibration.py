"""Calibrates the cosines of an embedder, so that scores of different embedders share one scale.

A cosine of 0.5 is a paraphrase for one embedder and noise for another. The scale is measured on a few pairs of
questions and answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from ragkit.records import content_id

_CALIBRATION_PAIRS = (
    ("How do I get my money back?", "Customers may return goods within thirty days and receive a full refund."),
    (
        "When does the library open on Sundays?",
        "Opening hours of the library: weekdays from 9 to 20, Sundays from noon.",
    ),
    ("Who painted the ceiling of the chapel?", "The frescoes above the altar are the work of an artist from Florence."),
    ("Why did the bridge collapse?", "Investigators found that corroded cables had caused the failure of the bridge."),
    ("How much water should tomatoes get?", "Tomato plants need two litres of water a day while the fruit is growing."),
    ("What causes high blood pressure?", "Salt, stress and lack of exercise are known to raise blood pressure."),
    (
        "How is the server restarted after an update?",
        "Once the update is installed, restart the service from the console.",
    ),
    ("Where do these birds spend the winter?", "In autumn the flock migrates south and stays on the African coast."),
)
_MIN_SEPARATION = 3.0  # standard deviations


CALIBRATION_TEXTS = [text for pair in _CALIBRATION_PAIRS for text in pair]
"""The texts that a calibration embeds."""
_TEXTS_ID = content_id(*CALIBRATION_TEXTS)[:16]


@dataclass(frozen=True)
class ScoreCalibration:
    """The mean cosine of a question with its own answer (`related`) and with other answers (`unrelated`)."""

    related: float
    unrelated: float
    unrelated_std: float
    """Standard deviation of the cosines with other answers."""

    @property
    def is_discriminative(self) -> bool:
        """Whether the two means are far enough apart to tell an answer from another text."""
        return self.span > _MIN_SEPARATION * self.unrelated_std

    @property
    def span(self) -> float:
        """The distance of the two means: 0.6 for the included embedder, 0.1 for `multilingual`."""
        return self.related - self.unrelated

    def normalize(self, cosine: float) -> float:
        """A cosine on the common scale: 0 for unrelated texts, 1 for an answer. Requires `is_discriminative`."""
        return (cosine - self.unrelated) / self.span

    def to_json(self, embedder: str) -> str:
        """As text to store, with the fingerprint of the embedder."""
        return json.dumps({**asdict(self), "embedder": embedder, "texts": _TEXTS_ID})

    @classmethod
    def from_json(cls, text: str, embedder: str) -> ScoreCalibration | None:
        """The stored calibration; None if it is of another embedder or was measured on other sentences."""
        values = json.loads(text)
        if (values.pop("embedder", None), values.pop("texts", None)) != (embedder, _TEXTS_ID):
            return None
        return cls(**values)


def measure_calibration(embed: Callable[[Sequence[str]], NDArray[np.float32]]) -> ScoreCalibration:
    """The calibration of an embedder: texts -> unit vectors, (texts, dimension). Embeds sixteen sentences."""
    rows = np.asarray(embed(CALIBRATION_TEXTS), np.float64)
    cosines = rows[0::2] @ rows[1::2].T
    others = cosines[~np.eye(len(_CALIBRATION_PAIRS), dtype=bool)]
    return ScoreCalibration(float(np.diag(cosines).mean()), float(others.mean()), float(others.std()))
