"""Reranking by a cross-encoder of the package `sentence-transformers`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from threading import Lock

import numpy as np
from sentence_transformers import CrossEncoder
from transformers.utils.logging import disable_progress_bar

from ragkit.embed.base import EmbeddingProvider
from ragkit.errors import InvalidOption
from ragkit.records import Hit
from ragkit.retrieve.base import RerankScores
from ragkit.retrieve.options import RerankOptions
from ragkit.usage.meter import record_rerank

DEFAULT_MODEL = "cross-encoder/ms-marco-MiniLM-L6-v2"


class CrossEncoderReranker:
    """Scores hits with a local sentence-transformers cross-encoder."""

    weight, diversity = 1.0, 0.0

    def __init__(self, options: RerankOptions, embedder: EmbeddingProvider) -> None:
        """Ignores the embedder. Loads the model on the first question."""
        self._options = options
        self._lock = Lock()

    def scores(self, question: str, hits: Sequence[Hit]) -> RerankScores:
        """The scores of the model, on its own scale: (len(hits),)."""
        pairs = [(question, f"{hit.chunk.header}\n{hit.chunk.text}".strip()) for hit in hits]
        with self._lock:
            scores = self._model.predict(pairs, show_progress_bar=False)
        record_rerank(self._options.model or DEFAULT_MODEL, 0.0, provider="local")
        return np.asarray(scores, np.float64).reshape(len(hits))

    @cached_property
    def _model(self) -> CrossEncoder:
        name, offline = self._options.model or DEFAULT_MODEL, os.environ.get("RAGKIT_OFFLINE") == "1"
        disable_progress_bar()  # of loading the weights; downloads show theirs
        try:
            return CrossEncoder(name, num_labels=1, device=self._options.device or None, local_files_only=offline)
        except (OSError, ValueError) as error:
            expected = "the folder of a cross-encoder, or its name on the Hugging Face hub"
            raise InvalidOption("rerank.model", name, expected) from error
