"""Batches of a limited number and total size. Imports nothing of ragkit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def batches_by_size(
    items: Iterable[Item], size_of: Callable[[Item], int], max_items: int, max_size: int
) -> Iterator[list[Item]]:
    """The items in order, in batches of at most `max_items` items and a total size of at most `max_size`.

    A larger item is its own batch. Lazy: a batch is returned when the item after it is known.
    """
    batch: list[Item] = []
    total = 0
    for item in items:
        size = size_of(item)
        if batch and (len(batch) >= max_items or total + size > max_size):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch
