"""Exact results, and recall against them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragkit.bench import datasets, ground_truth
from ragkit.bench.datasets import Dataset, ExternalVectors, write_dataset
from ragkit.bench.ground_truth import (
    GroundTruth,
    compute_ground_truth,
    condition_name,
    load_ground_truth,
    save_ground_truth,
)


def test_the_threshold_is_the_kth_best_of_a_full_sort_under_every_condition(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ground_truth, "BLOCK_ROWS", 64)  # more than one block
    result = compute_ground_truth(data, (0.5, 0.1), 5)
    scores = data.queries.astype(np.float64) @ np.array(data.rows).astype(np.float64).T
    number = np.arange(505)
    masks = {
        "all": number < 500,
        "quarter": number < 125,
        "f50": (number < 500) & (data.buckets < 5000),
        "f10": (number < 500) & (data.buckets < 1000),
        "after": ~np.isin(number, data.deleted_rows),
    }
    assert set(result) == set(masks)
    for name, mask in masks.items():
        np.testing.assert_allclose(result[name].kth_scores, np.sort(scores[:, mask], axis=1)[:, -5], atol=1e-12)
        assert result[name].expected_count == 5


def test_all_matches_are_expected_if_there_are_fewer_than_top_k(data: Dataset) -> None:
    result = compute_ground_truth(data, (0.004,), 10)["f0.4"]
    matching = np.flatnonzero(result.matching_rows)
    assert result.expected_count == len(matching) < 10
    query = data.queries[0]
    assert result.recall(data.rows, query, 0, matching.tolist()) == 1.0
    assert result.recall(data.rows, query, 0, matching.tolist()[:-1]) == (len(matching) - 1) / len(matching)


ROWS = np.array([[1, 0], [0.6, 0.8], [0.6, 0.8], [0.6, 0.8], [0, 1]], np.float32)
QUERY = np.array([1, 0], np.float32)


def truth_of(allowed: list[int], expected_count: int = 2) -> GroundTruth:
    return GroundTruth(np.array([0.6]), expected_count, np.isin(np.arange(5), allowed))


def test_any_row_that_ties_with_the_kth_counts() -> None:
    everything = truth_of([0, 1, 2, 3, 4])
    assert [everything.recall(ROWS, QUERY, 0, result) for result in ([0, 1], [0, 3], [2, 3], [0, 4], [4])] == [
        1.0, 1.0, 1.0, 0.5, 0.0,
    ]  # fmt: skip


def test_a_row_that_is_returned_twice_counts_once() -> None:
    assert truth_of([0, 1, 2, 3, 4]).recall(ROWS, QUERY, 0, [0, 0]) == 0.5


def test_a_row_that_does_not_match_never_counts() -> None:
    assert truth_of([1, 2]).recall(ROWS, QUERY, 0, [0, 1]) == 0.5


def test_recall_is_at_most_one() -> None:
    assert truth_of([0, 1, 2, 3]).recall(ROWS, QUERY, 0, [0, 1, 2, 3]) == 1.0


def test_without_matches_the_correct_result_is_empty() -> None:
    nothing = truth_of([], 0)
    assert nothing.recall(ROWS, QUERY, 0, []) == 1.0
    assert nothing.recall(ROWS, QUERY, 0, [1]) == 0.0


def test_equal_rows_tie(tmp_path: Path) -> None:
    rows = np.repeat(np.eye(4, dtype=np.float32), 30, axis=0)
    data = write_dataset(tmp_path, ExternalVectors("equal", rows, np.eye(4)[:1], shuffle=False))
    result = compute_ground_truth(data, (), 10)["all"]
    np.testing.assert_allclose(result.kth_scores, 1.0)
    assert result.recall(data.rows, data.queries[0], 0, [*range(20, 30)]) == 1.0


def test_saved_ground_truth_is_loaded(data: Dataset) -> None:
    result = compute_ground_truth(data, (0.5,), 3)
    save_ground_truth(data.folder, result)
    again = load_ground_truth(data.folder, "f50")
    np.testing.assert_array_equal(again.kth_scores, result["f50"].kth_scores)
    np.testing.assert_array_equal(again.matching_rows, result["f50"].matching_rows)
    assert again.expected_count == 3


def test_a_condition_is_named_by_its_percentage() -> None:
    assert [condition_name(share) for share in (0.5, 0.1, 0.01, 0.001)] == ["f50", "f10", "f1", "f0.1"]
    assert datasets.BUCKETS * 0.001 >= 1
