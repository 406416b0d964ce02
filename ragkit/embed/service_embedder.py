"""The base class of embedding services: batching, deduplication, usage and cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import ClassVar, Literal, TypeAlias, cast
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import PROBE_TEXT, Row, Rows, normalize_rows
from ragkit.embed.embedding_job import EmbeddingJob
from ragkit.embed.service_options import ModelOptions, select_options
from ragkit.embed.service_requests import RequestExecutor, is_too_large
from ragkit.errors import InvalidRequest, ProviderError
from ragkit.usage.meter import current_meter, record_embedding
from ragkit.usage.tokens import estimate_tokens

TextKind: TypeAlias = Literal["document", "query"]
"""Some models embed questions and documents differently."""

BLANK_PLACEHOLDER = "."
"""Sent instead of a blank text, which most services reject."""


@dataclass(frozen=True, slots=True)
class EmbeddingResponse:
    """Response of a service."""

    rows: Sequence[Sequence[float]] | NDArray[np.floating]
    """One vector per text, in order, not normalized."""
    tokens: int | None
    """Tokens counted by the service; None if unknown."""


class ServiceEmbedder(ABC):
    """An embedding service. A subclass only implements a single request and translates its errors.

    Texts are sent in parallel batches; a batch that the service rejects as too large is halved. Each response is
    reported to the current meter. Equal texts of one call are sent once. Thread-safe.
    """

    service: ClassVar[str]
    """Name of the service in prices and messages."""
    options_class: ClassVar[type[ModelOptions]]
    """The class of its options."""
    model_dimensions: ClassVar[Mapping[str, int]] = {}
    """Model -> dimension, for known models."""
    input_types: tuple[str, ...] = ()
    """Parameters or prefixes that distinguish documents from questions; empty if there are none."""

    def __init__(
        self, model: str | ModelOptions = "", *, api_key: str | None = None, base_url: str = "", dimensions: int = 0
    ) -> None:
        """An embedder of a model.

        Args:
            model: the model name of the service, empty: its default; or all options, as a pipeline gives them.
            api_key: takes precedence over the one in the environment. A server at `base_url` may need none.
            base_url: the URL of the service; empty: that of the options, else of the environment, else its default.
            dimensions: dimension of the vectors, if the model supports a choice; 0: that of the options.

        Raises:
            InvalidOption: `model` is an API key, or an option is invalid.
        """
        self._options = options = select_options(self.options_class, model, base_url, dimensions)
        self._api_key = api_key
        self._executor = RequestExecutor(self.service, options)
        self._lock = Lock()
        self._batch_limits = (options.batch_size, options.batch_tokens)
        self._dimension = options.dimensions or self.model_dimensions.get(options.model, 0)

    @abstractmethod
    def request(self, texts: Sequence[str], kind: TextKind) -> EmbeddingResponse:
        """Send one request. Raises only ProviderError."""

    @property
    def provider(self) -> str:
        """The service name in the price book."""
        return self.service

    @property
    def model(self) -> str:
        """The model name of the service."""
        return self._options.model

    @property
    def dimension(self) -> int:
        """Dimension of the vectors. For an unknown model, one request determines it."""
        if not self._dimension:
            self.embed_query(PROBE_TEXT)
        return self._dimension

    @property
    def concurrency(self) -> int:
        """Maximum number of parallel requests."""
        return self._options.concurrency

    @property
    def fingerprint(self) -> str:
        """Service, model, dimension and input types. The URL is not part of it."""
        width = self._options.dimensions or self.model_dimensions.get(self.model) or "own"
        return ":".join(str(part) for part in (self.service, self.model, width, *self.input_types) if part)

    def batches(self, texts: Sequence[str]) -> list[list[int]]:
        """Indexes of texts, in order, split by number of texts and estimated tokens."""
        (size, tokens), batches, used = self._batch_limits, list[list[int]](), 0
        for index, text in enumerate(texts):
            cost = estimate_tokens(text)
            if not batches or len(batches[-1]) >= size or used + cost > tokens:
                batches.append([])
                used = 0
            batches[-1].append(index)
            used += cost
        return batches

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One vector per text, in order: (len(texts), dimension).

        Raises:
            ProviderError: the service rejected a request or is unreachable. `EmbeddingJob` keeps completed batches.
        """
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        inputs = [_sanitize_text(text) for text in texts]
        unique = list(dict.fromkeys(inputs))
        rows = self._embed_batch(unique, "document") if len(self.batches(unique)) == 1 else self._embed_batches(unique)
        if len(unique) == len(inputs):
            return rows
        index_of = {text: i for i, text in enumerate(unique)}
        return rows[[index_of[text] for text in inputs]]

    def embed_query(self, text: str) -> Row:
        """The vector of a question: (dimension,). Raises ProviderError."""
        return cast("Row", self._embed_batch([_sanitize_text(text)], "query")[0])

    def _embed_batches(self, texts: Sequence[str]) -> Rows:
        embedding = EmbeddingJob(self, texts)
        try:
            parts = list(embedding.iter_remaining())
        finally:
            embedding.close()
        rows = np.empty((len(texts), parts[0][1].shape[1]), np.float32)
        for places, part in parts:
            rows[places] = part
        return rows

    def _embed_batch(self, texts: Sequence[str], kind: TextKind) -> Rows:
        """The vectors of one batch, which is halved while the service rejects it as too large."""
        tokens = sum(map(estimate_tokens, texts))
        try:
            response = self._executor.execute(lambda: self._request_checked(texts, kind), tokens)
        except InvalidRequest as error:
            if len(texts) == 1 or not is_too_large(error):
                raise
            self._lower_batch_limits(len(texts) // 2, tokens // 2)
        else:
            used = tokens if response.tokens is None else response.tokens
            record_embedding(self.model, used, self.request_cost(used), provider=self.service)
            return normalize_rows(np.asarray(response.rows, np.float32))
        half = len(texts) // 2
        return np.concatenate([self._embed_batch(texts[:half], kind), self._embed_batch(texts[half:], kind)])

    def _request_checked(self, texts: Sequence[str], kind: TextKind) -> EmbeddingResponse:
        """Send a request, and validate the number, dimension and values of the vectors."""
        response = self.request(texts, kind)
        widths = {len(row) for row in response.rows}
        with self._lock:
            self._dimension = self._dimension or max(widths, default=0)
        if len(response.rows) != len(texts) or widths != {self._dimension}:
            got = f"{len(response.rows)} vectors of dimension {' or '.join(map(str, sorted(widths)))}"
            expected = f"{len(texts)} vectors of dimension {self._dimension}"
            raise ProviderError(self.service, f"{self.model} must return {expected} (got {got})")
        if not np.isfinite(np.asarray(response.rows, np.float32)).all():
            reason = f"{self.model} returned a vector that is not finite: report it to the service"
            raise ProviderError(self.service, reason)
        return response

    def _lower_batch_limits(self, texts: int, tokens: int) -> None:
        """Limit the size of later batches."""
        with self._lock:
            self._batch_limits = (max(1, min(self._batch_limits[0], texts)), max(1, min(self._batch_limits[1], tokens)))

    def request_cost(self, tokens: int) -> float | None:
        """Cost of a request with `tokens` tokens, in US dollars; None if the price is unknown."""
        meter = current_meter()
        return meter.prices.embedding_cost(self.service, self.model, tokens) if meter else None

    def close_on_finalize(self, close: Callable[[], object]) -> None:
        """Close the SDK's client when this embedder is garbage collected; its connections would stay open."""
        finalize(self, close)


def _sanitize_text(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot encode; never blank."""
    return text.encode("utf-8", "replace").decode("utf-8") if text.strip() else BLANK_PLACEHOLDER
