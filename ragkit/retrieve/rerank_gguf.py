"""Reranking models in GGUF files, which run inside this process."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np

from ragkit.embed.base import EmbeddingProvider, replace_surrogates
from ragkit.errors import InvalidOption
from ragkit.gguf.engine import EngineError, EngineSettings, GGUFEngine, current_engine, get_engine
from ragkit.gguf.header import read_gguf
from ragkit.records import Hit
from ragkit.retrieve.base import RerankScores
from ragkit.retrieve.options import RerankOptions
from ragkit.usage.meter import record_rerank

_OPTION = "rerank.path"
_MAX_TOKENS = 2048


class GGUFReranker:
    """Scores hits with a reranking model in a GGUF file, which is loaded on the first question. Thread-safe."""

    weight, diversity = 1.0, 0.0

    def __init__(self, options: RerankOptions, embedder: EmbeddingProvider) -> None:
        """Ignores the embedder. Raises InvalidOption if `options.path` is no reranking model."""
        self._file = read_gguf(options.path, _OPTION)
        if self._file.kind != "reranker":
            use = "embed: {name: gguf}" if self._file.kind == "embedding" else f"--model gguf:{options.path}"
            raise InvalidOption(_OPTION, options.path, f"a reranking model; this one is for `{use}`")
        self._engine: GGUFEngine | None = None
        self._lock = Lock()

    def scores(self, question: str, hits: Sequence[Hit]) -> RerankScores:
        """The scores of the model, on its own scale: (len(hits),)."""
        engine, question = self._load(), replace_surrogates(question)
        texts = [replace_surrogates(f"{hit.chunk.header}\n{hit.chunk.text}".strip()) for hit in hits]
        try:
            answers = [engine.rerank(question, text) for text in texts]
        except EngineError as error:
            path = str(self._file.path)
            raise InvalidOption(_OPTION, path, f"a model that scores texts; the engine says: {error}") from error
        tokens = sum(count for _, count in answers)
        record_rerank(self._file.path.name, 0.0, provider="local", tokens=tokens)
        return np.array([score for score, _ in answers], np.float64)

    def _load(self) -> GGUFEngine:
        window = min(self._file.context_length or _MAX_TOKENS, _MAX_TOKENS)
        with self._lock:
            settings = EngineSettings("reranker", window)
            self._engine = current_engine(self._engine) or get_engine(self._file, settings, _OPTION)
            return self._engine
