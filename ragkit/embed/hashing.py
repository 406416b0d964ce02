"""Counts of hashed words and letter triples: no model, the same rows on every machine.

It finds shared words and shared stems, not meaning. For tests, and for folders where speed is all that counts.
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
"""Raised whenever a row changes for the same text and dimension."""
TRIGRAM_WEIGHT = 0.5
"""Length of the part of a word that its letter triples make up, against 1 for the word itself."""

_WORD = re.compile(r"\w+")


class HashingEmbedder:
    """A bag of words, each hashed to one column and its letter triples to others.

    A word that comes n times counts 1 + log n. A text without words gets the row that is 1 in the first column.
    Every method may be called from several threads at once.
    """

    provider = "local"
    model = "hashing"

    def __init__(self, options: HashingOptions | None = None) -> None:
        self._options = options or HashingOptions()

    @property
    def dimension(self) -> int:
        """As the options say."""
        return self._options.dimension

    @property
    def max_tokens(self) -> int:
        """No text is too long: 2,147,483,647."""
        return 2**31 - 1

    @property
    def fingerprint(self) -> str:
        """The version of the method and the dimension."""
        return f"hashing-{HASHING_VERSION}:{self.dimension}"

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One row per text, in order: (len(texts), dimension)."""
        rows = np.empty((len(texts), self.dimension), np.float64)
        for place, text in enumerate(texts):
            rows[place] = self._sum_features(text)
        rows[~rows.any(axis=1), 0] = 1
        return normalize_rows(rows)

    def embed_query(self, text: str) -> Row:
        """The row of a question: (dimension,)."""
        return cast("Row", self.embed_texts([text])[0])

    def probe(self) -> Row:
        """The row of a fixed sentence: (dimension,)."""
        return self.embed_query(PROBE_TEXT)

    def token_starts(self, text: str) -> NDArray[np.int64]:
        """Character offset of each word's start: (n_words,), rising. Punctuation is no word."""
        return np.array([match.start() for match in _WORD.finditer(text)], np.int64)

    def _sum_features(self, text: str) -> NDArray[np.float64]:
        # sorted: a sum of floats depends on its order, a bag of words must not
        counts = sorted(Counter(_WORD.findall(text.lower())).items())
        if not counts:
            return np.zeros(self.dimension)
        features = [_hash_features(word, self.dimension) for word, _ in counts]
        columns = np.concatenate([columns for columns, _ in features])
        weights = [values * (1 + np.log(count)) for (_, values), (_, count) in zip(features, counts, strict=True)]
        return np.bincount(columns, np.concatenate(weights), self.dimension).astype(np.float64)


@lru_cache(maxsize=16_384)
def _hash_features(word: str, dimension: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Columns and signed weights of a word: itself first, then the letter triples of `<word>`."""
    framed = f"<{word}>"
    triples = [framed[place : place + 3] for place in range(len(framed) - 2)]
    # the hash of a str differs from one process to the next, crc32 does not; a lone surrogate may stand in a word
    hashes = np.array([crc32(part.encode("utf-8", "surrogatepass")) for part in (word, *triples)], np.int64)
    values = np.full(len(hashes), TRIGRAM_WEIGHT / np.sqrt(len(triples)))
    values[0] = 1
    # a sign of its own lets words that fall together cancel out instead of looking alike
    return (hashes >> 1) % dimension, np.where(hashes & 1, values, -values)
