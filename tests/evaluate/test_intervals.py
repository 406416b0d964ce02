"""Coverage of intervals and error rates of difference tests."""

from __future__ import annotations

import numpy as np
import pytest

from ragkit.evaluate.intervals import bootstrap_mean, paired_p_value


def test_the_interval_contains_the_true_mean_in_95_percent_of_the_samples() -> None:
    chance = np.random.default_rng(7)
    contained = 0
    for trial in range(300):
        result = bootstrap_mean(list(chance.beta(2, 3, 80)), seed=trial)
        assert result is not None
        contained += result.low <= 0.4 <= result.high  # the mean of Beta(2, 3)
    assert 0.90 <= contained / 300 <= 0.98


def test_the_mean_of_no_values_is_none_and_of_one_value_that_value() -> None:
    assert bootstrap_mean([]) is None
    result = bootstrap_mean([0.25])
    assert result is not None
    assert (result.mean, result.low, result.high, result.n) == (0.25, 0.25, 0.25, 1)


def test_the_same_seed_gives_the_same_interval() -> None:
    values = [n * 0.377 % 1 for n in range(50)]
    assert bootstrap_mean(values, 3) == bootstrap_mean(values, 3)
    assert bootstrap_mean(values, 3) != bootstrap_mean(values, 4)


def test_equal_distributions_are_rarely_significant() -> None:
    chance = np.random.default_rng(1)
    result = [paired_p_value(list(chance.random(60)), list(chance.random(60)), seed) for seed in range(200)]
    assert sum(p < 0.05 for p in result) <= 20  # five in a hundred are expected


def test_a_small_consistent_difference_is_significant() -> None:
    before = list(np.random.default_rng(2).random(100))
    assert paired_p_value(before, [value + 0.01 for value in before]) < 0.001
    assert paired_p_value(before, before) == 1.0


def test_the_p_value_equals_the_exact_sign_permutations() -> None:
    # differences 1, 1, 1: of the eight choices of signs two are as large
    assert paired_p_value([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]) == pytest.approx(0.25, abs=0.02)
    assert paired_p_value([], []) == 1.0
