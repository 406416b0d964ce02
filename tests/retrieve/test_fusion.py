"""Fusion on values that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragkit.retrieve.fusion import convex_combination, reciprocal_rank_fusion, z_scores

finite = st.floats(-1e6, 1e6)


def test_z_scores_count_standard_deviations_from_the_mean() -> None:
    assert z_scores(np.array([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])).tolist() == [-1.5, -0.5, -0.5, -0.5, 0, 0, 1, 2]


def test_equal_values_have_z_scores_of_0() -> None:
    assert z_scores(np.array([0.1, 0.1, 0.1])).tolist() == [0, 0, 0]
    assert z_scores(np.array([7.0])).tolist() == [0]
    assert z_scores(np.array([])).tolist() == []


def test_convex_weighs_the_z_scores_of_each_retriever() -> None:
    scores = np.array([[0.9, 0.1], [10.0, 30.0]])  # z-scores 1, -1 and -1, 1
    assert convex_combination(scores, (0.75, 0.25)).tolist() == [[0.75, -0.75], [-0.25, 0.25]]


def test_convex_divides_weights_by_their_sum() -> None:
    scores = np.array([[1.0, 3.0], [3.0, 1.0]])
    assert convex_combination(scores, (3, 1)).tolist() == convex_combination(scores, (0.75, 0.25)).tolist()


@pytest.mark.parametrize("weights", [(1.0,), (1.0, -0.5), (0.0, 0.0), (1.0, 1.0, 1.0)])
def test_convex_rejects_invalid_weights(weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="weights must be 2 numbers >= 0, not all 0"):
        convex_combination(np.ones((2, 3)), weights)


@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=30), st.floats(0, 1))
def test_convex_scores_have_mean_0_and_stay_in_their_range(pairs: list[tuple[float, float]], weight: float) -> None:
    fused = convex_combination(np.array(pairs).T, (weight, 1 - weight)).sum(axis=0)
    assert abs(fused.mean()) < 1e-6
    assert np.abs(fused).max() <= np.sqrt(len(pairs) - 1) + 1e-6


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=30), st.integers(1, 50), st.integers(-50, 50))
def test_neither_scale_nor_offset_of_a_retriever_changes_its_share(values: list[int], scale: int, offset: int) -> None:
    assert z_scores(np.array(values) * scale + offset) == pytest.approx(z_scores(np.array(values)), abs=1e-9)


def test_reciprocal_rank_fusion_adds_the_reciprocals_of_the_ranks() -> None:
    fused = reciprocal_rank_fusion([[10, 20], [20, 30]], damping=1)
    assert fused == [(20, 1 / 3 + 1 / 2), (10, 1 / 2), (30, 1 / 3)]


def test_ties_of_reciprocal_rank_fusion_keep_the_order_of_first_appearance() -> None:
    assert [key for key, _ in reciprocal_rank_fusion([[2, 1], [1, 2]])] == [2, 1]


def test_reciprocal_rank_fusion_of_no_rankings_is_empty() -> None:
    assert reciprocal_rank_fusion([]) == []
    assert reciprocal_rank_fusion([[], []]) == []


def test_reciprocal_rank_fusion_rejects_a_negative_damping() -> None:
    with pytest.raises(ValueError, match=r"damping must be >= 0 \(got -1\)"):
        reciprocal_rank_fusion([[1]], damping=-1)
