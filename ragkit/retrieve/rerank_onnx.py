"""Reranking by a cross-encoder of a user's, exported to ONNX, in a folder. Needs no download."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from ragkit.embed.base import EmbeddingProvider
from ragkit.embed.batches import batch_by_length, run_batches_in_threads, usable_cpu_count
from ragkit.embed.onnx_folder import read_folder
from ragkit.errors import InvalidOption, MissingExtra
from ragkit.records import Hit
from ragkit.retrieve.base import RerankScores
from ragkit.retrieve.options import RerankOptions
from ragkit.usage.meter import record_rerank

if TYPE_CHECKING:
    from ragkit.embed.onnx_session import OnnxGraph
    from ragkit.embed.onnx_tokenizer import FolderTokenizer

if find_spec("tokenizers") is None:  # imported with the first question only; reported here, before any work
    raise MissingExtra("the reranker 'onnx'", extra="onnx")

_OPTION = "rerank.model"
_TOKEN_BUDGET = 512


class OnnxReranker:
    """Scores hits with a cross-encoder. The graph is loaded on the first question. Thread-safe."""

    weight, diversity = 1.0, 0.0

    def __init__(self, options: RerankOptions, embedder: EmbeddingProvider) -> None:
        """Ignores the embedder. Raises InvalidOption if `options.model` is no folder of a cross-encoder."""
        self._folder = read_folder(options.model, _OPTION)
        if self._folder.kind != "reranker":
            raise InvalidOption(
                _OPTION, options.model, "a reranker; this one is an embedding model: `embed: {name: onnx}`"
            )
        self._lock = Lock()

    def scores(self, question: str, hits: Sequence[Hit]) -> RerankScores:
        """The scores of the model, after its activation function: (len(hits),)."""
        texts = [f"{hit.chunk.header}\n{hit.chunk.text}".strip() for hit in hits]
        pairs = self._tokenizer.pair_ids(question, texts) if texts else []
        scores = np.zeros(len(hits), np.float64)

        def compute(batch: Sequence[int]) -> None:
            output = self._graph.run([pairs[i][0] for i in batch], [pairs[i][1] for i in batch])
            scores[batch] = self._read_scores(output)

        batches = list(batch_by_length([len(ids) for ids, _ in pairs], _TOKEN_BUDGET))
        run_batches_in_threads(compute, batches, usable_cpu_count())
        record_rerank(Path(self._folder.path).resolve().name, 0.0, provider="local")
        return 1 / (1 + np.exp(-np.clip(scores, -60, 60))) if self._folder.activation == "sigmoid" else scores

    def _read_scores(self, output: np.ndarray[tuple[int, ...], np.dtype[np.floating]]) -> RerankScores:
        if output.size != len(output):
            expected = f"a reranker with one score for each pair; this one has the shape {output.shape}"
            raise InvalidOption(_OPTION, str(self._folder.path), expected)
        return np.asarray(output, np.float64).reshape(len(output))

    @cached_property
    def _tokenizer(self) -> FolderTokenizer:
        # loads the package at the first question
        from ragkit.embed.onnx_tokenizer import FolderTokenizer  # noqa: PLC0415

        with self._lock:
            return FolderTokenizer(self._folder, self._folder.max_tokens, _OPTION)

    @cached_property
    def _graph(self) -> OnnxGraph:
        from ragkit.embed.onnx_session import OnnxGraph  # noqa: PLC0415  # as above

        with self._lock:
            return OnnxGraph(self._folder, _OPTION)
