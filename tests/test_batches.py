"""Batches of a limited number and total size."""

from __future__ import annotations

from ragkit.batches import batches_by_size


def test_batches_are_limited_by_count_and_size() -> None:
    assert list(batches_by_size([1, 1, 1, 5, 9, 1], int, 2, 5)) == [[1, 1], [1], [5], [9], [1]]
    assert list(batches_by_size([], int, 2, 5)) == []


def test_a_batch_is_returned_when_the_item_after_it_is_known() -> None:
    items = iter([3, 3, 3, 3])
    assert next(batches_by_size(items, int, 10, 5)) == [3]
    assert len(list(items)) == 2
