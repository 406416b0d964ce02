"""How likely an answer without a model is right: weights, levels, and words for it.

`benchmarks/confidence.py` fits the weights over collections of questions, and prints the table that the levels are
chosen from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

LIKELY = 0.8
"""From here on, an answer is called likely."""
MIN_ANSWER = 0.3
"""Below this, the closest passages are shown in place of an answer."""
MIN_PASSAGES = 0.1
"""Below this, the documents are said not to hold the answer."""
LOOKED_UP = 0.95
"""Of an answer that was looked up in whole documents: (36 + 1) / (37 + 2) of the held-out questions were right."""

WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"offset": -3.57, "shown": 4.08, "words": 1.87, "gap": 1.47, "far": -2.75, "missing_price": -0.36}
)
"""Weights of a logistic regression, for an embedder that tells answers from other texts.

`shown`: probability of the quoted units among the candidates, the softmax of their scores. `words`: weighted share of
the question's terms in the quotes, their headings, titles and file names. `gap`: highest cosine of a quoted unit with
the question minus that of another candidate, in units of `ScoreCalibration`. `far`: by how much the highest cosine
is below `NEAR`, in the same units. `missing_price`: a price is asked for, and no passage has one.
"""
LEXICAL_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"offset": -4.47, "shown": 4.99, "words": 2.38, "missing_price": -1.08}
)
"""Weights for other embedders."""
NEAR = 0.9
"""A cosine from which nearness says no more, in units of `ScoreCalibration`."""


def confidence(features: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The probability, in (0, 1), that an answer with these features is right."""
    log_odds = sum(weight * (1.0 if name == "offset" else features[name]) for name, weight in weights.items())
    return 1 / (1 + math.exp(-log_odds))


def describe(value: float) -> str:
    """A confidence as a word: "likely" or "uncertain"."""
    return "likely" if value >= LIKELY else "uncertain"
