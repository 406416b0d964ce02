"""The static embedder of `multilingual`: a text has the sum of the vectors of its words, each computed alone."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import Row, Rows, normalize_rows
from ragkit.embed.batches import run_batches_in_threads
from ragkit.embed.model_files import read_verified
from ragkit.embed.multilingual.weights import DIMENSION, E5Model
from ragkit.usage.meter import record_embedding

WORD_MATRIX = Path(__file__).parent / "words.npy"
WORD_MATRIX_SHA256 = "4800148c6da2475e4bb316743dbd8f4c9891fd767b6b747a271e4c35bbf95355"
"""Written by `scripts/make_multilingual_words.py`."""
WORD_DIMENSION = 256
HALF_WEIGHT = 1e-5
"""Probability of a word that has half of the weight of a rare one (SIF: Arora, Liang and Ma, ICLR 2017)."""
MAX_WORD_TOKENS = 30
MAX_KEPT = 100_000
"""Words whose vectors are kept in memory, 50 MB; then they are forgotten."""

Word = tuple[int, ...]
"""The tokens of a word."""

_SEPARATORS = re.compile(r"[\s!-/:-@\[-`{-~\u00a1-\u00bf\u0964\u0965\u2000-\u206f\u3000-\u303f\uff00-\uff0f]+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""Letters of scripts without spaces between words: each token counts as a word."""


class MultilingualWords:
    """Sums of word vectors, dimension 256: 94 languages, and questions across languages.

    A word has the vector that the model gives it alone, made white, and a weight that falls with its probability. It is
    computed when the word is first met, so that a knowledge base costs as many short texts as it has different words:
    about a seventh of the time of its chunks. A vector depends only on its text, bit for bit. A text without words has
    the first unit vector. Thread-safe.

    Raises:
        KnowledgeBaseDamaged: a file is missing, truncated or altered. Raised on first use.
    """

    provider = "local"
    cosine_slope = 0.3
    """By how much the cosine of the model differs between texts whose cosines here differ by 1."""

    def __init__(self, load_model: Callable[[], E5Model], fingerprint: str, threads: int) -> None:
        """`load_model` gives the model that computes the words, and `fingerprint` names it."""
        self._load_model = load_model
        self._model_fingerprint = fingerprint
        self._threads = threads
        self._kept: dict[Word, NDArray[np.float16]] = {}

    @property
    def dimension(self) -> int:
        """256."""
        return WORD_DIMENSION

    @property
    def fingerprint(self) -> str:
        """That of the model, and the hash of the matrix."""
        return f"{self._model_fingerprint}:words:{WORD_MATRIX_SHA256[:8]}"

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One vector per text, in order: (len(texts), 256)."""
        words = self._split(texts)
        distinct = list(dict.fromkeys(word for row in words for word in row))
        vectors = dict(zip(distinct, self._word_vectors(distinct), strict=True))
        rows = np.zeros((len(texts), WORD_DIMENSION), np.float32)
        for place, row in enumerate(words):
            for word in row:
                rows[place] += vectors[word]
        rows[~rows.any(axis=1), 0] = 1
        record_embedding("static", sum(map(len, distinct)), 0.0, provider=self.provider)
        return normalize_rows(rows)

    def embed_query(self, text: str) -> Row:
        """The vector of a question: (256,)."""
        return cast("Row", self.embed_texts([text])[0])

    def _split(self, texts: Sequence[str]) -> list[list[Word]]:
        """The words of each text."""
        rows = [[word for word in _SEPARATORS.split(text) if word] for text in texts]
        distinct = list(dict.fromkeys(word for row in rows for word in row))
        ids = self._load_model().tokenizer.token_ids(distinct)
        words = {word: list(_parts(word, row[1:-1])) for word, row in zip(distinct, ids, strict=True)}
        return [[part for word in row for part in words[word]] for row in rows]

    def _word_vectors(self, words: Sequence[Word]) -> list[NDArray[np.float16]]:
        """The weighted vector of each word, which are distinct."""
        known = {word: vector for word in words if (vector := self._kept.get(word)) is not None}
        missing = [word for word in words if word not in known]
        if missing:
            known |= zip(missing, self._compute(missing), strict=True)
            if len(self._kept) + len(missing) > MAX_KEPT:
                self._kept = {}
            self._kept.update((word, known[word]) for word in missing[:MAX_KEPT])
        return [known[word] for word in words]

    def _compute(self, words: Sequence[Word]) -> NDArray[np.float16]:
        """(len(words), 256)."""
        model, matrix = self._load_model(), self._matrix
        rows = np.empty((len(words), DIMENSION), np.float32)

        def compute(batch: Sequence[int]) -> None:
            for index in batch:
                rows[index] = model.session.compute("states", model.states([0, *words[index], 2]))

        run_batches_in_threads(compute, [[index] for index in range(len(words))], self._threads)
        probabilities = np.exp([model.log_probabilities[list(word)].sum(dtype=np.float64) for word in words])
        weights = HALF_WEIGHT / (HALF_WEIGHT + probabilities)
        vectors = np.stack([row @ matrix[1:] + matrix[0] for row in normalize_rows(rows)])  # each alone: the same bits
        return np.asarray(vectors * weights[:, None], np.float16)

    @cached_property
    def _matrix(self) -> NDArray[np.float32]:
        """What is added, and the products of the 384 values of a word: (385, 256)."""
        return np.asarray(np.load(io.BytesIO(read_verified(WORD_MATRIX, WORD_MATRIX_SHA256))), np.float32)


def _parts(word: str, ids: Sequence[int]) -> Iterator[Word]:
    """The tokens of a word, or each token of text that has no spaces between words."""
    if _UNSPACED.search(word):
        yield from ((token,) for token in ids)
    elif ids:
        yield tuple(ids[:MAX_WORD_TOKENS])
