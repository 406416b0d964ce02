"""What all embedders have in common that are services: batches, splitting, money. Knows none of them."""

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
from ragkit.embed.service_options import ModelOptions
from ragkit.embed.service_requests import RequestExecutor, is_too_large
from ragkit.errors import InvalidRequest, ProviderError
from ragkit.usage.meter import current_meter, record_embedding
from ragkit.usage.tokens import estimate_tokens

TextKind: TypeAlias = Literal["document", "query"]
"""Some models embed the same words otherwise when they are a question."""

BLANK_PLACEHOLDER = "."
"""Sent in the place of a text of white space, which most services refuse."""


@dataclass(frozen=True, slots=True)
class EmbeddingResponse:
    """What a service answered."""

    rows: Sequence[Sequence[float]] | NDArray[np.floating]
    """One for each text, in order, of any length."""
    tokens: int | None
    """As the service counted them; None where it does not say."""


class ServiceEmbedder(ABC):
    """An embedder that asks a service. A subclass sends one request and translates its errors: no more.

    Texts go out in batches, several side by side; a batch that the service finds too large is halved. Every answer
    is reported to the meter that counts. Equal texts of one call are sent once. Safe to use from many threads.
    """

    service: ClassVar[str]
    """The service, as prices and messages name it."""
    model_dimensions: ClassVar[Mapping[str, int]] = {}
    """Model -> columns, of models that are known."""

    def __init__(self, options: ModelOptions) -> None:
        self._service_options = options
        self._executor = RequestExecutor(self.service, options)
        self._lock = Lock()
        self._batch_limits = (options.batch_size, options.batch_tokens)
        self._dimension = options.dimensions or self.model_dimensions.get(options.model, 0)

    @abstractmethod
    def request(self, texts: Sequence[str], kind: TextKind) -> EmbeddingResponse:
        """One request. Raises ProviderError, and nothing else, when it fails."""

    @property
    def provider(self) -> str:
        """The service, as the price book knows it."""
        return self.service

    @property
    def model(self) -> str:
        """The model's name as the service knows it."""
        return self._service_options.model

    @property
    def dimension(self) -> int:
        """Columns of every row. A model that is not known here is asked once."""
        if not self._dimension:
            self.embed_query(PROBE_TEXT)
        return self._dimension

    @property
    def concurrency(self) -> int:
        """Requests under way at once."""
        return self._service_options.concurrency

    @property
    def fingerprint(self) -> str:
        """Service, model, columns, and what tells a text from a question. The address is no part of it."""
        width = self._service_options.dimensions or self.model_dimensions.get(self.model) or "own"
        return ":".join(str(part) for part in (self.service, self.model, width, *self.input_types) if part)

    @property
    def input_types(self) -> tuple[str, ...]:
        """What is sent, or put before texts, to tell a text from a question; empty where nothing is."""
        return ()

    def batches(self, texts: Sequence[str]) -> list[list[int]]:
        """Places of texts in order, cut by count and by estimated tokens; what the service found too large counts."""
        (size, tokens), found, spent = self._batch_limits, list[list[int]](), 0
        for place, text in enumerate(texts):
            cost = estimate_tokens(text)
            if not found or len(found[-1]) >= size or spent + cost > tokens:
                found.append([])
                spent = 0
            found[-1].append(place)
            spent += cost
        return found

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        """One row per text, in order: (len(texts), dimension).

        Raises:
            ProviderError: the service refused, or cannot be reached. Keep what came before with `CachedEmbedder`.
        """
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        sent = [_sanitize_text(text) for text in texts]
        unique = list(dict.fromkeys(sent))
        rows = self._embed_batch(unique, "document") if len(self.batches(unique)) == 1 else self._embed_batches(unique)
        if len(unique) == len(sent):
            return rows
        place = {text: at for at, text in enumerate(unique)}
        return rows[[place[text] for text in sent]]

    def embed_query(self, text: str) -> Row:
        """The row of a question: (dimension,). Raises ProviderError."""
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
        """The rows of one batch, which is halved for as long as the service finds it too large."""
        tokens = sum(map(estimate_tokens, texts))
        try:
            answered = self._executor.execute(lambda: self._request_checked(texts, kind), tokens)
        except InvalidRequest as error:
            if len(texts) == 1 or not is_too_large(error):
                raise
            self._lower_batch_limits(len(texts) // 2, tokens // 2)
        else:
            self._record_usage(tokens if answered.tokens is None else answered.tokens)
            return normalize_rows(np.asarray(answered.rows, np.float32))
        half = len(texts) // 2
        return np.concatenate([self._embed_batch(texts[:half], kind), self._embed_batch(texts[half:], kind)])

    def _request_checked(self, texts: Sequence[str], kind: TextKind) -> EmbeddingResponse:
        """The answer to one request, once its rows are as many, and as wide, as they must be."""
        answered = self.request(texts, kind)
        widths = {len(row) for row in answered.rows}
        with self._lock:
            self._dimension = self._dimension or max(widths, default=0)
        if len(answered.rows) != len(texts) or widths != {self._dimension}:
            met = f"{len(answered.rows)} rows of {' or '.join(map(str, sorted(widths)))} columns"
            raise ProviderError(self.service, f"{self.model} gave {met}: {len(texts)} of {self._dimension} are wanted")
        if not np.isfinite(np.asarray(answered.rows, np.float32)).all():
            raise ProviderError(self.service, f"{self.model} gave a row that is not finite: report it to the service")
        return answered

    def _lower_batch_limits(self, texts: int, tokens: int) -> None:
        """Later batches are no larger than this."""
        with self._lock:
            self._batch_limits = (max(1, min(self._batch_limits[0], texts)), max(1, min(self._batch_limits[1], tokens)))

    def request_cost(self, tokens: int) -> float | None:
        """US dollars of one request with so many tokens; None where the price is unknown."""
        meter = current_meter()
        return meter.prices.embedding_cost(self.service, self.model, tokens) if meter else None

    def close_on_finalize(self, close: Callable[[], object]) -> None:
        """Have the SDK's client closed when this embedder goes: its connections would stay open."""
        finalize(self, close)

    def _record_usage(self, tokens: int) -> None:
        record_embedding(self.model, tokens, self.request_cost(tokens), provider=self.service)


def _sanitize_text(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot hold; never blank."""
    return text.encode("utf-8", "replace").decode("utf-8") if text.strip() else BLANK_PLACEHOLDER
