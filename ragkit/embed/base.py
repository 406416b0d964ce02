"""Protocols of embedders: texts -> float32 unit vectors; and how they are called, also those of programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragkit.usage.meter import Meter, current_meter, record_unknown_embedding, use_meter

Rows: TypeAlias = NDArray[np.float32]
"""(n, dimension), float32."""
Row: TypeAlias = NDArray[np.float32]
"""(dimension,), float32."""

T = TypeVar("T")
_SURROGATE = re.compile("[\ud800-\udfff]")


class EmbeddingProvider(Protocol):
    """Embeds texts as vectors of length 1, so that a dot product is the cosine."""

    @property
    def dimension(self) -> int:
        """Dimension of the vectors."""

    @property
    def fingerprint(self) -> str:
        """Identity of the embedding: model, weights and every setting that changes a vector."""

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One vector per text, in order: (len(texts), dimension). An empty text has a valid vector, too."""

    def embed_query(self, text: str) -> Row:
        """The vector of a question: (dimension,). Some models use a query prefix."""


@runtime_checkable
class TokenizingEmbedder(Protocol):
    """An embedder with a tokenizer. The splitter measures chunks in its tokens."""

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens of a text, including special tokens; longer texts are truncated."""

    def token_starts(self, text: str) -> NDArray[np.int64]:
        """Character offset of each token of `text`, without special tokens: (n_tokens,), non-decreasing.

        Adjacent offsets may be equal: some models split one character into several tokens.
        """


@runtime_checkable
class MonolingualEmbedder(Protocol):
    """An embedder that was trained on one language: hybrid search trusts it less in other scripts."""

    @property
    def language(self) -> str:
        """The language, as an ISO 639-1 code: `en`."""


@runtime_checkable
class WeightedEmbedder(Protocol):
    """An embedder whose cosines have a weight of their own in hybrid search."""

    @property
    def dense_weight(self) -> float:
        """The weight, in [0, 1], unless `retrieve.dense_weight` is set."""


@runtime_checkable
class ApproximatedEmbedder(Protocol):
    """An embedder with a faster one of its own, which finds the candidates among chunks that have no vector yet."""

    @property
    def static_embedder(self) -> EmbeddingProvider:
        """Its vectors cost nothing, and have a dimension and a fingerprint of their own."""


@runtime_checkable
class PricedEmbedder(Protocol):
    """An embedder with a provider and model name, for the prices of `PriceBook`."""

    @property
    def provider(self) -> str:
        """`openai`, `cohere`, ...; `local` for a model on this machine, which is free."""

    @property
    def model(self) -> str:
        """The model name of the service."""


PROBE_TEXT = "The quick brown fox jumps over the lazy dog, 1984 times."
"""The text of `ProbingEmbedder.probe`."""
PROBE_COSINE = 0.98
"""Minimum cosine between probes of the same weights on different processors; other weights are far below."""


@runtime_checkable
class ProbingEmbedder(Protocol):
    """An embedder that identifies its weights, at no cost."""

    def probe(self) -> Row:
        """The vector of PROBE_TEXT: (dimension,). An index stores it, and compares it in later runs."""


def normalize_rows(rows: NDArray[np.floating]) -> Rows:
    """Scale every row to length 1; a zero row stays zero. (n, dimension) -> (n, dimension) float32."""
    rows = np.asarray(rows, np.float32)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths == 0, 1, lengths), np.float32)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by U+FFFD. Offsets stay the same."""
    return _SURROGATE.sub("\ufffd", text)


def embed_probe(embedder: EmbeddingProvider) -> Row:
    """The vector of PROBE_TEXT, by the embedder's `probe` if it has one: (dimension,)."""
    return embedder.probe() if isinstance(embedder, ProbingEmbedder) else embedder.embed_query(PROBE_TEXT)


@runtime_checkable
class BatchingEmbedder(Protocol):
    """An embedder that sends texts to a service, in several parallel batches."""

    @property
    def concurrency(self) -> int:
        """Number of parallel batches."""

    def batches(self, texts: Sequence[str]) -> list[list[int]]:
        """Indexes of `texts`, one list per request; each index occurs once."""


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
