"""Bootstrap confidence intervals and paired randomization tests, both with a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BOOTSTRAP_SAMPLES = 2000
"""Bootstrap samples of a mean."""
PERMUTATIONS = 10_000
"""Random sign flips of a paired test."""


@dataclass(frozen=True, slots=True)
class BootstrapEstimate:
    """A mean over questions with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float
    n: int
    """Number of questions."""


def bootstrap_mean(values: Sequence[float], seed: int = 0) -> BootstrapEstimate | None:
    """The mean with its bootstrap interval; None without values.

    Source: the percentile bootstrap, Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.
    """
    if not values:
        return None
    array = np.asarray(values, dtype=np.float64)
    samples = np.random.default_rng(seed).integers(0, len(array), (BOOTSTRAP_SAMPLES, len(array)))
    low, high = np.percentile(array[samples].mean(axis=1), (2.5, 97.5))
    return BootstrapEstimate(float(array.mean()), float(low), float(high), len(array))


def paired_difference(before: Sequence[float], after: Sequence[float], seed: int = 0) -> BootstrapEstimate:
    """The mean of `after[i] - before[i]` over the questions i.

    If its interval contains 0, the difference is not significant. Source: the paired bootstrap, as `bootstrap_mean`.
    """
    estimate = bootstrap_mean([new - old for old, new in zip(before, after, strict=True)], seed)
    return estimate or BootstrapEstimate(0.0, 0.0, 0.0, 0)


def paired_p_value(before: Sequence[float], after: Sequence[float], seed: int = 0) -> float:
    """Two-sided p-value of the difference of the means, in (0, 1]; `before[i]` and `after[i]` are of one question.

    Source: Fisher's randomization test, recommended for retrieval by Smucker, Allan and Carterette, CIKM 2007,
    doi:10.1145/1321440.1321528.
    """
    difference = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    if not len(difference):
        return 1.0
    signs = np.random.default_rng(seed).integers(0, 2, (PERMUTATIONS, len(difference)), dtype=np.int8) * 2 - 1
    as_large = np.abs(signs @ difference) >= abs(difference.sum()) - 1e-12
    return float((1 + as_large.sum()) / (1 + PERMUTATIONS))
