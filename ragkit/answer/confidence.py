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
MIN_ANSWER = 0.24
"""Below this, the closest passages are shown in place of an answer."""
MIN_PASSAGES = 0.1
"""Below this, the documents are said not to hold the answer."""
LOOKED_UP = 0.95
"""Of an answer that was looked up in whole documents: (36 + 1) / (37 + 2) of the held-out questions were right."""

WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"offset": -2.06, "shown": 4.17, "missing": -2.74, "gap": 1.04, "far": -5.96, "missing_price": -2.85}
)
"""Weights of a logistic regression, for an embedder that tells answers from other texts.

`shown`: probability of the quoted units among the candidates, the softmax of their scores; rows of one table do not
compete. `missing`: weighted share of the question's terms that are neither in the quotes nor in their headings, title
and file name, squared. `gap`: highest cosine of a quoted unit with the question minus that of another candidate, in
units of `ScoreCalibration`. `far`: by how much the highest cosine is below `NEAR`, in the same units, squared.
`missing_price`: a price is asked for, and no passage has one; set by hand.
"""
LEXICAL_WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"offset": -2.27, "shown": 4.73, "missing": -3.41, "missing_price": -2.85}
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
