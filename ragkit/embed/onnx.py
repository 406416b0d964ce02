"""An embedding model of a user's, exported to ONNX, with its tokenizer, in a folder. Needs no download."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import PROBE_TEXT, Row, Rows, normalize_rows
from ragkit.embed.batches import batch_by_length, run_batches_in_threads, usable_cpu_count
from ragkit.embed.model_files import digest_file
from ragkit.embed.onnx_folder import OnnxFolder, Pooling, read_folder
from ragkit.embed.options import OnnxOptions
from ragkit.errors import InvalidOption, MissingExtra
from ragkit.records import content_id
from ragkit.usage.meter import record_embedding

if TYPE_CHECKING:
    from ragkit.embed.onnx_session import OnnxGraph
    from ragkit.embed.onnx_tokenizer import FolderTokenizer

if find_spec("tokenizers") is None:  # imported with the first text only; reported here, before any work
    raise MissingExtra("the embedder 'onnx'", extra="onnx")

_OPTION = "embed.path"


class OnnxEmbedder:
    """Any sentence embedding model that was exported to ONNX.

    A vector depends on its text alone: texts of equal length share a call, so that there is no padding. Vectors are
    scaled to length 1, whether or not the model does so by itself. Thread-safe. The graph is loaded on first use.
    """

    provider = "local"

    def __init__(self, path: str | OnnxOptions, *, dimensions: int = 0) -> None:
        """Reads the configuration files of the folder.

        Args:
            path: the folder; or all options, as a pipeline gives them.
            dimensions: truncate vectors to this dimension; 0: that of the options.

        Raises:
            InvalidOption: it is no folder of a model, or `dimensions` is above the dimension of the model.
        """
        self._options = options = path if isinstance(path, OnnxOptions) else OnnxOptions(path)
        self._folder: OnnxFolder = read_folder(options.path, _OPTION, options.file)
        if self._folder.kind == "reranker":
            raise InvalidOption(
                _OPTION, options.path, "an embedding model; this one is a reranker: `rerank: {name: onnx}`"
            )
        self._dimensions = dimensions or options.dimensions
        self._max_tokens = min(options.max_tokens or self._folder.max_tokens, self._folder.max_tokens)
        self._query_prompt = self._folder.query_prompt if options.query_prompt is None else options.query_prompt
        stored = self._folder.document_prompt
        self._document_prompt = stored if options.document_prompt is None else options.document_prompt
        self._lock = Lock()

    @property
    def path(self) -> str:
        """The folder, as it was given."""
        return self._options.path

    @property
    def model(self) -> str:
        """The name of the folder."""
        return Path(self.path).expanduser().resolve().name

    @property
    def dimension(self) -> int:
        """`dimensions`, or that of the model, which is loaded for it."""
        width = self._model_dimension
        if self._dimensions > width:
            raise InvalidOption("embed.dimensions", self._dimensions, f"at most {width}, the dimension of the model")
        return self._dimensions or width

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens of a text, including special tokens and the prompt."""
        return self._max_tokens

    @cached_property
    def fingerprint(self) -> str:
        """The content of the graph and of the tokenizer, and all settings that change a vector; not the path."""
        files = [digest_file(path) for path in self._folder.files()]
        settings = (*self._folder.poolings, "prompts", self._document_prompt, self._query_prompt)
        numbers = (str(self._max_tokens), str(self._dimensions))
        return f"onnx:{self.model}:{content_id(*files, *settings, *numbers)[:16]}"

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One vector per text, in order: (len(texts), dimension)."""
        return self._embed([self._document_prompt + text for text in texts])

    def embed_query(self, text: str) -> Row:
        """The vector of a question: (dimension,)."""
        return cast("Row", self._embed([self._query_prompt + text])[0])

    def probe(self) -> Row:
        """The vector of PROBE_TEXT: (dimension,)."""
        return cast("Row", self._compute([PROBE_TEXT])[0][0])

    def token_starts(self, text: str) -> NDArray[np.int64]:
        """Character offset of each token, without special tokens: (n_tokens,), non-decreasing."""
        return self._tokenizer.token_starts(text)

    def _embed(self, texts: Sequence[str]) -> Rows:
        rows, tokens = self._compute(texts)
        record_embedding(self.model, tokens, 0.0, provider=self.provider)
        return rows

    def _compute(self, texts: Sequence[str]) -> tuple[Rows, int]:
        """The vectors of texts, and the number of tokens."""
        rows = np.empty((len(texts), self.dimension), np.float32)
        if not len(texts):
            return rows, 0
        ids = self._tokenizer.token_ids(texts)
        batches = list(batch_by_length([max(1, len(row)) for row in ids], self._options.token_budget))

        def compute(batch: Sequence[int]) -> None:
            rows[batch] = self._vectors([ids[index] or [0] for index in batch])[:, : self.dimension]

        run_batches_in_threads(compute, batches, self._options.threads or usable_cpu_count())
        return normalize_rows(rows), sum(map(len, ids))

    def _vectors(self, ids: Sequence[list[int]]) -> Rows:
        """The vectors of texts of equal length, whole: (texts, dimension of the model)."""
        output = self._graph.run(ids)
        if output.ndim == 3:
            output = np.concatenate([_pool(output, mode) for mode in self._folder.poolings], axis=1)
        if output.ndim != 2:
            expected = f"a graph with one vector for each text or token; this one gives {output.ndim - 1} axes"
            raise InvalidOption(_OPTION, self.path, expected)
        return np.asarray(output, np.float32)

    @cached_property
    def _model_dimension(self) -> int:
        """What the graph gives, which the files need not say."""
        return int(self._vectors([self._tokenizer.token_ids([PROBE_TEXT])[0] or [0]]).shape[1])

    @cached_property
    def _tokenizer(self) -> FolderTokenizer:
        # imported here, so that reading the fingerprint does not import the package
        from ragkit.embed.onnx_tokenizer import FolderTokenizer  # noqa: PLC0415

        with self._lock:
            return FolderTokenizer(self._folder, self._max_tokens, _OPTION)

    @cached_property
    def _graph(self) -> OnnxGraph:
        from ragkit.embed.onnx_session import OnnxGraph  # noqa: PLC0415  # as above

        with self._lock:
            return OnnxGraph(self._folder, _OPTION)


def _pool(output: NDArray[np.floating], mode: Pooling) -> NDArray[np.floating]:
    """(texts, tokens, width) -> (texts, width), as in sentence-transformers. There is no padding."""
    count = output.shape[1]
    if mode == "cls":
        return output[:, 0]
    if mode == "lasttoken":
        return output[:, -1]
    if mode == "max":
        return np.asarray(output.max(axis=1))
    if mode == "weightedmean":
        weights = np.arange(1, count + 1, dtype=output.dtype)
        return np.asarray(np.einsum("btw,t->bw", output, weights) / weights.sum())
    total = output.sum(axis=1)
    return np.asarray(total / np.sqrt(count) if mode == "mean_sqrt_len_tokens" else total / count)
