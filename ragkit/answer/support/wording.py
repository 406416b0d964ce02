"""Estimates from its words, and from the cosine of its embedding, whether passages say what a statement says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

WEIGHTS: Mapping[str, float] = MappingProxyType({"offset": -4.6, "near": 3.6, "anywhere": 3.6, "cosine": 5.9})
"""Of the logistic regression on the wording; `benchmarks/answer_support.py` fits them.

`near`: weighted share of the statement's words in its two best places; `anywhere`: in the passages; `cosine`: of the
statement and its best place.
"""
SUPPORTED_AT = 0.5
PARTLY_AT = 0.3
CERTAIN_SHARE = 0.9
"""With this share of its words in one place, a statement is not embedded."""
_PREFIX = 5
_COSINES = (0.25, 0.9)
LEXICAL_COSINE = 0.55  # stands in for the cosine of an embedder that does not tell paraphrases from other texts


def coverage(wanted: frozenset[str], present: frozenset[str], weights: Mapping[str, float]) -> float:
    """The weighted share of words that are present, in [0, 1]; a word with the same beginning counts most of it."""
    total = sum(weights.get(term, 1.0) for term in wanted)
    if not total:
        return 1.0
    prefixes = {term[:_PREFIX] for term in present if len(term) >= _PREFIX - 1}
    found = sum(
        weights.get(term, 1.0) * (1.0 if term in present else 0.8 if _shares_prefix(term, prefixes) else 0.0)
        for term in wanted
    )
    return found / total


def _shares_prefix(term: str, prefixes: set[str]) -> bool:
    return len(term) >= _PREFIX - 1 and term.isalpha() and term[:_PREFIX] in prefixes


def wording_probability(features: Mapping[str, float]) -> float:
    """The estimated probability, in [0, 1], that passages say what a statement says, by its words."""
    odds = WEIGHTS["offset"] + sum(WEIGHTS[name] * value for name, value in features.items())
    return 1 / (1 + math.exp(-odds))


def needs_cosine(features: Mapping[str, float]) -> bool:
    """Whether the cosine, which is rarely outside of [0.25, 0.9], can change the verdict."""
    if features["near"] >= CERTAIN_SHARE:
        return False
    low = wording_probability({**features, "cosine": _COSINES[0]})
    high = wording_probability({**features, "cosine": _COSINES[1]})
    return not (low >= SUPPORTED_AT or high < PARTLY_AT)
