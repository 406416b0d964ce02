"""Embedding models in GGUF files, which run inside this process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import cast

import numpy as np

from ragkit.embed.base import PROBE_TEXT, Row, Rows, normalize_rows, replace_surrogates
from ragkit.embed.model_files import digest_file
from ragkit.embed.options import GGUFOptions
from ragkit.errors import InvalidOption
from ragkit.gguf.engine import EngineError, EngineSettings, GGUFEngine, current_engine, get_engine
from ragkit.gguf.header import read_gguf
from ragkit.records import content_id
from ragkit.usage.meter import record_embedding

_OPTION = "embed.path"
_DEFAULT_TOKENS = 2048


class GGUFEmbedder:
    """An embedding model in a GGUF file. A vector depends on its text alone. Thread-safe. Loaded on first use."""

    provider = "local"

    def __init__(self, path: str | GGUFOptions) -> None:
        """Reads the header of the file.

        Args:
            path: the file; or all options, as a pipeline gives them.

        Raises:
            InvalidOption: the file is no embedding model, or `max_tokens` is above its limit.
        """
        self._options = options = path if isinstance(path, GGUFOptions) else GGUFOptions(path)
        self._file = file = read_gguf(options.path, _OPTION)
        if file.kind == "reranker":
            raise InvalidOption(_OPTION, options.path, "an embedding model; this one is for `rerank: {name: gguf}`")
        if file.kind == "chat" and not options.pooling:
            expected = "an embedding model; this one writes text (`embed.pooling` makes it embed all the same)"
            raise InvalidOption(_OPTION, options.path, expected)
        limit = file.context_length or _DEFAULT_TOKENS
        if options.max_tokens > limit:
            raise InvalidOption("embed.max_tokens", options.max_tokens, f"at most {limit}, the limit of the model")
        self.max_tokens = options.max_tokens or min(limit, _DEFAULT_TOKENS)
        self._engine: GGUFEngine | None = None
        self._lock = Lock()

    @property
    def path(self) -> str:
        """The file, as it was given."""
        return self._options.path

    @property
    def model(self) -> str:
        """The name of the file."""
        return Path(self.path).name

    @cached_property
    def dimension(self) -> int:
        """That of the model, which is loaded for it."""
        return len(self.probe())

    @cached_property
    def fingerprint(self) -> str:
        """The content of the file and all settings that change a vector; not the path."""
        options = self._options
        settings = (options.pooling, options.document_prompt, options.query_prompt, str(self.max_tokens))
        return f"gguf:{self.model}:{content_id(digest_file(self._file.path), *settings)[:16]}"

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One vector per text, in order: (len(texts), dimension)."""
        return self._embed([self._options.document_prompt + text for text in texts])

    def embed_query(self, text: str) -> Row:
        """The vector of a question: (dimension,)."""
        return cast("Row", self._embed([self._options.query_prompt + text])[0])

    def probe(self) -> Row:
        """The vector of PROBE_TEXT: (dimension,)."""
        return cast("Row", self._compute([PROBE_TEXT])[0][0])

    def _embed(self, texts: Sequence[str]) -> Rows:
        rows, tokens = self._compute(texts)
        record_embedding(self.model, tokens, 0.0, provider=self.provider)
        return rows if len(texts) else np.empty((0, self.dimension), np.float32)

    def _compute(self, texts: Sequence[str]) -> tuple[Rows, int]:
        engine = self._load()
        try:
            answers = [engine.embed(replace_surrogates(text)) for text in texts]
        except EngineError as error:
            raise InvalidOption(_OPTION, self.path, f"a model that embeds texts; the engine says: {error}") from error
        return normalize_rows(np.array([row for row, _ in answers], np.float32)), sum(count for _, count in answers)

    def _load(self) -> GGUFEngine:
        settings = EngineSettings("embedding", self.max_tokens, self._options.threads, self._options.pooling)
        with self._lock:
            self._engine = current_engine(self._engine) or get_engine(self._file, settings, _OPTION)
            return self._engine
