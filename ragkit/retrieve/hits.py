"""From what an index found to hits: what the retrievers share."""

from __future__ import annotations

from ragkit.records import Hit
from ragkit.retrieve.base import Explanation, Found, Passages


def explained(retriever: str, found: Found, passages: Passages) -> list[Explanation]:
    """The hits of a retriever that ranks by its own score alone."""
    chunks = passages.chunks([key for key, _ in found]) if found else []
    return [
        Explanation(Hit(chunk, score, {retriever: score}, rank), {retriever: rank}, {retriever: score})
        for rank, (chunk, (_, score)) in enumerate(zip(chunks, found, strict=True), start=1)
    ]
