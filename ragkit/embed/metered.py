"""Calls embedders, also those of a program: lists become arrays, and a paid service that is not metered is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from ragkit.embed.base import EmbeddingProvider, Row, Rows
from ragkit.usage.meter import Meter, current_meter, record_unknown_embedding, use_meter

T = TypeVar("T")


def embed_texts(embedder: EmbeddingProvider, texts: Sequence[str]) -> Rows:
    """The vectors of texts: (len(texts), dimension), float32. Without texts, the embedder is not asked."""
    if not texts:
        return np.zeros((0, embedder.dimension), np.float32)
    return np.asarray(_call_metered(embedder, lambda: embedder.embed_texts(texts)), np.float32)


def embed_query(embedder: EmbeddingProvider, question: str) -> Row:
    """The vector of a question: (dimension,), float32."""
    return np.asarray(_call_metered(embedder, lambda: embedder.embed_query(question)), np.float32)


def _call_metered(embedder: EmbeddingProvider, call: Callable[[], T]) -> T:
    """The result of a call. If it records nothing, its cost is unknown, except for a model on this machine."""
    outer, provider = current_meter(), getattr(embedder, "provider", "local")
    if outer is None or provider == "local" or type(embedder).__module__.startswith("ragkit."):
        return call()
    meter = Meter(outer.prices)  # inside the scope of the outer one, to which it reports
    with use_meter(meter):
        result = call()
    if not meter.calls:
        record_unknown_embedding(getattr(embedder, "model", type(embedder).__name__), provider)
    return result
