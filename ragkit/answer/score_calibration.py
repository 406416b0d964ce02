"""What the cosines of an embedder mean: how near it puts a question to a text that answers it, and to another one.

Cosines of different embedders cannot be compared: for one .5 is a paraphrase, for another it is nothing. Measured on
a few pairs of questions and answers, they can be brought to one scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from ragkit.answer.base import FilteringSearcher, Searcher

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
_MIN_SEPARATION = 3.0  # deviations


@dataclass(frozen=True)
class ScoreCalibration:
    """The mean cosine of a question with its answer, and with the answers to others."""

    related: float
    unrelated: float
    unrelated_std: float
    """Standard deviation of the cosines with the answers to others."""

    @property
    def is_discriminative(self) -> bool:
        """Whether the two lie apart far enough to tell an answer from another text."""
        return self.related - self.unrelated > _MIN_SEPARATION * self.unrelated_std

    def normalize(self, cosine: float) -> float:
        """A cosine on the common scale: 0 is as near as any text, 1 as near as an answer. Only if `tells`."""
        return (cosine - self.unrelated) / (self.related - self.unrelated)


_CALIBRATIONS: WeakKeyDictionary[Searcher, ScoreCalibration] = WeakKeyDictionary()
_LOCK = Lock()


def get_calibration(searcher: Searcher) -> ScoreCalibration:
    """The ruler of a searcher's embedder; measured when it is first asked for, which embeds sixteen sentences.

    It is kept for as long as the searcher lives, which therefore must be hashable, as objects of plain classes are.
    """
    searcher = searcher.inner if isinstance(searcher, FilteringSearcher) else searcher
    known = _CALIBRATIONS.get(searcher)
    if known is None:
        with _LOCK:  # runs that begin side by side shall not pay for it one by one
            known = _CALIBRATIONS.get(searcher)
            if known is None:
                known = _CALIBRATIONS[searcher] = _calibrate(searcher)
    return known


def _calibrate(searcher: Searcher) -> ScoreCalibration:
    rows = np.asarray(searcher.embed([text for pair in _CALIBRATION_PAIRS for text in pair]), np.float64)
    cosines = rows[0::2] @ rows[1::2].T
    others = cosines[~np.eye(len(_CALIBRATION_PAIRS), dtype=bool)]
    return ScoreCalibration(float(np.diag(cosines).mean()), float(others.mean()), float(others.std()))
