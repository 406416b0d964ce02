"""An embedder that hashes words and character trigrams: no model, identical vectors on every machine.

It matches shared words and stems, not meaning. For tests, and when only speed matters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import cast
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import PROBE_TEXT, Row, Rows, normalize_rows
from ragkit.embed.options import HashingOptions

HASHING_VERSION = 1
"""Incremented whenever a vector changes for the same text and dimension."""
TRIGRAM_WEIGHT = 0.5
"""Norm of the trigram features of a word, relative to 1 for the word itself."""

_WORD = re.compile(r"\w+")


class HashingEmbedder:
    """Bag of words: each word and each of its character trigrams is hashed to one column.

    A word that occurs n times has the weight 1 + log n. A text without words has the first unit vector. Thread-safe.
    """

    provider = "local"
    model = "hashing"

    def __init__(self, options: HashingOptions | None = None) -> None:
        self._options = options or HashingOptions()

    @property
    def dimension(self) -> int:
        """`options.dimension`."""
        return self._options.dimension

    @property
    def max_tokens(self) -> int:
        """No limit: 2,147,483,647."""
        return 2**31 - 1

    @property
    def fingerprint(self) -> str:
        """Version of the method, and dimension."""
        return f"hashing-{HASHING_VERSION}:{self.dimension}"

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One vector per text, in order: (len(texts), dimension)."""
        rows = np.empty((len(texts), self.dimension), np.float64)
        for place, text in enumerate(texts):
            rows[place] = self._sum_features(text)
        rows[~rows.any(axis=1), 0] = 1
        return normalize_rows(rows)

    def embed_query(self, text: str) -> Row:
        """The vector of a question: (dimension,)."""
        return cast("Row", self.embed_texts([text])[0])

    def probe(self) -> Row:
        """The vector of PROBE_TEXT: (dimension,)."""
        return self.embed_query(PROBE_TEXT)

    def token_starts(self, text: str) -> NDArray[np.int64]:
        """Character offset of each word: (n_words,), ascending. Punctuation is ignored."""
        return np.array([match.start() for match in _WORD.finditer(text)], np.int64)

    def _sum_features(self, text: str) -> NDArray[np.float64]:
        # sorted, since a float sum depends on the order of its terms
        counts = sorted(Counter(_WORD.findall(text.lower())).items())
        if not counts:
            return np.zeros(self.dimension)
        features = [_hash_features(word, self.dimension) for word, _ in counts]
        columns = np.concatenate([columns for columns, _ in features])
        weights = [values * (1 + np.log(count)) for (_, values), (_, count) in zip(features, counts, strict=True)]
        return np.bincount(columns, np.concatenate(weights), self.dimension).astype(np.float64)


@lru_cache(maxsize=16_384)
def _hash_features(word: str, dimension: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Columns and signed weights of a word: the word itself, then the trigrams of `<word>`."""
    framed = f"<{word}>"
    trigrams = [framed[place : place + 3] for place in range(len(framed) - 2)]
    # crc32, since hash() of a str differs between processes; a word may contain lone surrogates
    hashes = np.array([crc32(part.encode("utf-8", "surrogatepass")) for part in (word, *trigrams)], np.int64)
    values = np.full(len(hashes), TRIGRAM_WEIGHT / np.sqrt(len(trigrams)))
    values[0] = 1
    # random signs: colliding words cancel out instead of looking similar
    return (hashes >> 1) % dimension, np.where(hashes & 1, values, -values)
