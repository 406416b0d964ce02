"""What every embedder keeps: texts in, float32 rows of length 1 out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.float32]
"""(n, dimension), float32."""
Row: TypeAlias = NDArray[np.float32]
"""(dimension,), float32."""


class EmbeddingProvider(Protocol):
    """Turns texts into rows of length 1, so that a dot product is the cosine."""

    @property
    def dimension(self) -> int:
        """Columns of every row."""

    @property
    def fingerprint(self) -> str:
        """The identity of what it computes: model, weights and every setting that changes a vector."""

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One row per text, in order: (len(texts), dimension). An empty text gives a valid row too."""

    def embed_query(self, text: str) -> Row:
        """The row of a question: (dimension,). Some models put a prefix of their own before it."""


@runtime_checkable
class TokenizingEmbedder(Protocol):
    """An embedder that knows its own tokens. The splitter measures chunks with them."""

    @property
    def max_tokens(self) -> int:
        """Tokens of one text that the model reads, special tokens included; what is beyond is cut off."""

    def token_starts(self, text: str) -> NDArray[np.int64]:
        """Character offset at which each token of `text` begins: (n_tokens,), never falling, special tokens left out.

        Neighbours may be equal: some models read one character as several tokens.
        """


@runtime_checkable
class PricedEmbedder(Protocol):
    """An embedder that says who charges for its tokens, as the price book knows them. Most do; see `PriceBook`."""

    @property
    def provider(self) -> str:
        """`openai`, `cohere`...; `local` for a model on this machine, which costs nothing."""

    @property
    def model(self) -> str:
        """The model's name as its service knows it."""


PROBE_TEXT = "The quick brown fox jumps over the lazy dog, 1984 times."
"""What every embedder embeds when it is asked for its probe."""
PROBE_COSINE = 0.98
"""Probes of the same weights agree at least this well, whatever the processor; other weights are far below."""


@runtime_checkable
class ProbingEmbedder(Protocol):
    """An embedder that can show, at no cost, which weights it runs."""

    def probe(self) -> Row:
        """The row of PROBE_TEXT: (dimension,). An index keeps it and compares it when it is opened again."""


def normalize_rows(rows: NDArray[np.floating]) -> Rows:
    """Scale every row to length 1; a zero row stays zero. (n, dimension) in, (n, dimension) float32 out."""
    rows = np.asarray(rows, np.float32)
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths == 0, 1, lengths), np.float32)


def embed_probe(embedder: EmbeddingProvider) -> Row:
    """The row of PROBE_TEXT, by the embedder's own `probe` where it has one: (dimension,)."""
    return embedder.probe() if isinstance(embedder, ProbingEmbedder) else embedder.embed_query(PROBE_TEXT)


@runtime_checkable
class BatchingEmbedder(Protocol):
    """An embedder that sends texts to a service, in batches of its own, several of them side by side."""

    @property
    def concurrency(self) -> int:
        """Batches under way at once."""

    def batches(self, texts: Sequence[str]) -> list[list[int]]:
        """Places of `texts`, a list for each request; each place comes once."""
