"""An embedder that remembers: no text is embedded twice. Knows nothing of what the inner embedder is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ragkit.embed.base import EmbeddingProvider, Row, Rows
from ragkit.embed.embedding_job import EmbeddingJob
from ragkit.records import content_id


class VectorCache(Protocol):
    """Rows by key. Every method may be called from several threads at once."""

    def get_many(self, keys: Sequence[str]) -> dict[str, Row]:
        """The rows of those keys that are known."""

    def put_many(self, rows: Mapping[str, Row]) -> None:
        """Keep these rows; a key that is known gets the new row."""


def text_cache_key(fingerprint: str, text: str) -> str:
    """The key of a text's row: 32 hex digits, of the text and of what embeds it."""
    return content_id(fingerprint, "text", text)


def query_cache_key(fingerprint: str, text: str) -> str:
    """The key of a question's row. Some models embed the same words otherwise when they are a question."""
    return content_id(fingerprint, "query", text)


class CachedEmbedder:
    """Asks `inner` only for texts that the cache does not hold; equal texts of one call are embedded once.

    Thread-safe where `inner` is. Two threads that ask for the same new text at the same moment may both embed it.
    """

    def __init__(self, inner: EmbeddingProvider, cache: VectorCache) -> None:
        self.inner = inner
        self._cache = cache

    @property
    def dimension(self) -> int:
        """As of the inner embedder."""
        return self.inner.dimension

    @property
    def fingerprint(self) -> str:
        """As of the inner embedder: a cache changes no vector."""
        return self.inner.fingerprint

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One row per text, in order: (len(texts), dimension). What is new is kept as it comes, error or not."""
        fingerprint = self.fingerprint
        keys = [text_cache_key(fingerprint, text) for text in texts]
        wanted = dict(zip(keys, texts, strict=True))
        known = self._load_cached(list(wanted))
        missing = [key for key in wanted if key not in known]
        if missing:
            known |= self._embed_missing(missing, [wanted[key] for key in missing])
        rows = np.empty((len(keys), self.dimension), np.float32)
        for place, key in enumerate(keys):
            rows[place] = known[key]
        return rows

    def embed_query(self, text: str) -> Row:
        """The row of a question: (dimension,)."""
        key = query_cache_key(self.fingerprint, text)
        known = self._load_cached([key])
        if key not in known:
            known[key] = self.inner.embed_query(text)
            self._cache.put_many(known)
        return known[key]

    def _embed_missing(self, keys: Sequence[str], texts: Sequence[str]) -> dict[str, Row]:
        """Rows of new texts, each kept as soon as it has come: an error later on loses none of them."""
        found: dict[str, Row] = {}
        embedding = EmbeddingJob(self.inner, texts)
        try:
            for places, rows in embedding.iter_remaining():
                new = {keys[place]: row for place, row in zip(places, rows, strict=True)}
                self._cache.put_many(new)
                found |= new
        finally:
            embedding.close()
        return found

    def _load_cached(self, keys: Sequence[str]) -> dict[str, Row]:
        """A row that was kept with another width is as good as none."""
        shape = (self.dimension,)
        return {key: row for key, row in self._cache.get_many(keys).items() if row.shape == shape}
