"""How sure a mean is, and whether two runs differ: bootstrap and randomisation, both with a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BOOTSTRAP_SAMPLES = 2000
"""Bootstrap samples of a mean."""
PERMUTATIONS = 10_000
"""Random signs of a paired test."""


@dataclass(frozen=True, slots=True)
class BootstrapEstimate:
    """A mean over questions, with the interval that holds 95 % of its bootstrap samples."""

    mean: float
    low: float
    high: float
    n: int
    """Questions that it is a mean of."""


def bootstrap_mean(values: Sequence[float], seed: int = 0) -> BootstrapEstimate | None:
    """The mean of some values; None of none.

    Source: the percentile bootstrap, Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    if not values:
        return None
    given = np.asarray(values, dtype=np.float64)
    chosen = np.random.default_rng(seed).integers(0, len(given), (BOOTSTRAP_SAMPLES, len(given)))
    low, high = np.percentile(given[chosen].mean(axis=1), (2.5, 97.5))
    return BootstrapEstimate(float(given.mean()), float(low), float(high), len(given))


def paired_difference(before: Sequence[float], after: Sequence[float], seed: int = 0) -> BootstrapEstimate:
    """The mean of `after - before`, question by question; `before[i]` and `after[i]` belong to one.

    When its interval holds 0, the two cannot be told apart. Source: the paired bootstrap, as `figure`.
    """
    found = bootstrap_mean([new - old for old, new in zip(before, after, strict=True)], seed)
    return found or BootstrapEstimate(0.0, 0.0, 0.0, 0)


def paired_p_value(before: Sequence[float], after: Sequence[float], seed: int = 0) -> float:
    """The chance of so large a difference of means between runs that are alike, two-sided, in (0, 1].

    `before[i]` and `after[i]` belong to one question. Source: Fisher's randomisation test, as Smucker, Allan and
    Carterette recommend it for retrieval, CIKM 2007, doi:10.1145/1321440.1321528.
    """
    difference = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    if not len(difference):
        return 1.0
    signs = np.random.default_rng(seed).integers(0, 2, (PERMUTATIONS, len(difference)), dtype=np.int8) * 2 - 1
    as_large = np.abs(signs @ difference) >= abs(difference.sum()) - 1e-12
    return float((1 + as_large.sum()) / (1 + PERMUTATIONS))
