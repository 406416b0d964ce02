"""From what an index found to hits: what the retrievers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ragkit.records import Hit
from ragkit.retrieve.base import ChunkIndex, Explanation, ScoredKeys


def explain_ranking(retriever: str, found: ScoredKeys, passages: ChunkIndex) -> list[Explanation]:
    """The hits of a retriever that ranks by its own score alone."""
    chunks = passages.chunks([key for key, _ in found]) if found else []
    return [
        Explanation(Hit(chunk, score, {retriever: score}, rank), {retriever: rank}, {retriever: score})
        for rank, (chunk, (_, score)) in enumerate(zip(chunks, found, strict=True), start=1)
    ]


def fill_top_k(
    find: Callable[[int], list[Explanation]], keep: Callable[[list[Explanation]], list[Explanation]], top_k: int
) -> list[Explanation]:
    """The first `top_k` hits of those that are kept, ranks from 1; looks further down while there are too few.

    Args:
        find: the best so many hits; fewer when there are no more.
        keep: some of them, in their order.
        top_k: at least 1.
    """
    depth = 2 * top_k
    while True:
        found = find(depth)
        kept = keep(found)
        if len(kept) >= top_k or len(found) < depth:
            return [replace(one, hit=replace(one.hit, rank=rank)) for rank, one in enumerate(kept[:top_k], start=1)]
        depth *= 2
