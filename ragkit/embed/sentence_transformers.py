"""Local sentence-transformers models. Adapts the package `sentence-transformers`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from transformers.utils.logging import disable_progress_bar

from ragkit.embed.base import PROBE_TEXT, Row, Rows, normalize_rows, replace_surrogates
from ragkit.embed.service_options import SentenceTransformersOptions
from ragkit.errors import InvalidOption
from ragkit.records import content_id
from ragkit.usage.meter import record_embedding

TORCH_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
UNLIMITED_TOKENS = 2**31 - 1


class SentenceTransformersEmbedder:
    """A sentence-transformers model, loaded on first use. Remote code of models is never executed.

    Thread-safe: one thread computes at a time.
    """

    provider = "local"

    def __init__(self, model: str | SentenceTransformersOptions = "", *, device: str = "", dimensions: int = 0) -> None:
        """An embedder of a model.

        Args:
            model: a folder or a name on the hub, empty: the default; or all options, as a pipeline gives them.
            device: `cpu`, `cuda`, `mps`; empty: that of the options, else the best available.
            dimensions: truncate vectors to this dimension; 0: that of the options.
        """
        options = model if isinstance(model, SentenceTransformersOptions) else SentenceTransformersOptions()
        name = model if isinstance(model, str) and model else options.model
        self._options = replace(
            options, model=name, device=device or options.device, dimensions=dimensions or options.dimensions
        )
        self._lock = Lock()

    @property
    def model(self) -> str:
        """The name of the model, or of its folder."""
        return Path(self._options.model).name

    @property
    def dimension(self) -> int:
        """`options.dimensions`, or the dimension of the model."""
        return self._options.dimensions or int(self._model.get_embedding_dimension() or 0)

    @property
    def fingerprint(self) -> str:
        """Model, revision, files of a model folder, and all options that change a vector."""
        options = self._options
        settings = (options.revision, options.document_prompt, options.query_prompt, options.precision)
        digest = content_id(*settings, str(options.dimensions), *_list_files(Path(options.model)))[:16]
        return f"sentence-transformers:{Path(options.model).name}:{digest}"

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens of a text, including special tokens."""
        return int(self._model.max_seq_length or UNLIMITED_TOKENS)

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One vector per text, in order: (len(texts), dimension)."""
        return self._embed([self._options.document_prompt + text for text in texts])

    def embed_query(self, text: str) -> Row:
        """The vector of a question: (dimension,)."""
        return cast("Row", self._embed([self._options.query_prompt + text])[0])

    def probe(self) -> Row:
        """The vector of PROBE_TEXT: (dimension,)."""
        return cast("Row", self._encode([PROBE_TEXT])[0])

    def token_starts(self, text: str) -> NDArray[np.int64]:
        """Character offset of each token, without special tokens: (n_tokens,), non-decreasing."""
        with self._lock:
            tokens = self._model.tokenizer(
                replace_surrogates(text), add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
        return np.array([start for start, end in tokens["offset_mapping"] if end > start], np.int64)

    def _embed(self, texts: Sequence[str]) -> Rows:
        rows = self._encode(texts)
        record_embedding(self.model, self._count_tokens(texts), 0.0, provider=self.provider)
        return rows

    def _encode(self, texts: Sequence[str]) -> Rows:
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        model = self._model
        with self._lock:
            rows = model.encode(
                [replace_surrogates(text) for text in texts],
                batch_size=self._options.batch_size,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return normalize_rows(np.asarray(rows, np.float32))

    def _count_tokens(self, texts: Sequence[str]) -> int:
        """Number of tokens of texts, after truncation."""
        if not texts:
            return 0
        with self._lock:
            tokens = self._model.tokenizer([replace_surrogates(text) for text in texts], verbose=False)["input_ids"]
        return sum(min(len(ids), self.max_tokens) for ids in tokens)

    @cached_property
    def _model(self) -> SentenceTransformer:
        options = self._options
        disable_progress_bar()  # of loading the weights; downloads show theirs
        try:
            return SentenceTransformer(
                options.model,
                device=options.device or None,
                revision=options.revision or None,
                truncate_dim=options.dimensions or None,
                local_files_only=os.environ.get("RAGKIT_OFFLINE") == "1",
                model_kwargs={"torch_dtype": TORCH_DTYPES[options.precision]},
            )
        except (OSError, ValueError) as error:
            expected = "the folder of a sentence-transformers model, or its name on the Hugging Face hub"
            raise InvalidOption("embed.model", options.model, expected) from error


def _list_files(folder: Path) -> list[str]:
    """Names and sizes of the files of a model folder; the name itself if it is no folder."""
    if not folder.is_dir():
        return [str(folder)]
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [f"{path.relative_to(folder)}:{path.stat().st_size}" for path in files]
