"""Convert search results to explanations; shared by all retrievers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ragkit.records import Hit
from ragkit.retrieve.base import ChunkIndex, Explanation, ScoredKeys

MAX_DEPTH_FACTOR = 16
MIN_MAX_DEPTH = 128


def explain_ranking(retriever: str, ranking: ScoredKeys, index: ChunkIndex) -> list[Explanation]:
    """The hits of a retriever with a single score."""
    chunks = index.chunks([key for key, _ in ranking]) if ranking else []
    return [
        Explanation(Hit(chunk, score, {retriever: score}, rank), {retriever: rank}, {retriever: score})
        for rank, (chunk, (_, score)) in enumerate(zip(chunks, ranking, strict=True), start=1)
    ]


def fill_top_k(
    find: Callable[[int], list[Explanation]], keep: Callable[[list[Explanation]], list[Explanation]], top_k: int
) -> list[Explanation]:
    """The first `top_k` hits that pass `keep`, ranks from 1. Searches deeper until there are enough.

    Looks at no more than the best 16 * `top_k` hits (at least 128): among templated documents the list is shorter.

    Args:
        find: number of hits -> the best hits; fewer if there are no more.
        keep: selects hits, in their order.
        top_k: >= 1.
    """
    depth, max_depth = 2 * top_k, max(MIN_MAX_DEPTH, MAX_DEPTH_FACTOR * top_k)
    while True:
        candidates = find(depth)
        kept = keep(candidates)
        if len(kept) >= top_k or len(candidates) < depth or depth >= max_depth:
            return [replace(entry, hit=replace(entry.hit, rank=i)) for i, entry in enumerate(kept[:top_k], start=1)]
        depth = min(2 * depth, max_depth)
