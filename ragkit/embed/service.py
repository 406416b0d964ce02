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

from ragkit.embed.base import PROBE_TEXT, Row, Rows, unit
from ragkit.embed.calls import Calls, is_too_large
from ragkit.embed.parts import Embedding
from ragkit.embed.service_options import ModelOptions
from ragkit.errors import InvalidRequest, ProviderError
from ragkit.usage.meter import current_meter, record_embedding
from ragkit.usage.tokens import estimate_tokens

Kind: TypeAlias = Literal["document", "query"]
"""Some models embed the same words otherwise when they are a question."""

BLANK = "."
"""Sent in the place of a text of white space, which most services refuse."""


@dataclass(frozen=True, slots=True)
class Answered:
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
    widths: ClassVar[Mapping[str, int]] = {}
    """Model -> columns, of models that are known."""

    def __init__(self, options: ModelOptions) -> None:
        self._settings = options
        self._calls = Calls(self.service, options)
        self._lock = Lock()
        self._most = (options.batch_size, options.batch_tokens)
        self._width = options.dimensions or self.widths.get(options.model, 0)

    @abstractmethod
    def request(self, texts: Sequence[str], kind: Kind) -> Answered:
        """One request. Raises ProviderError, and nothing else, when it fails."""

    @property
    def provider(self) -> str:
        """The service, as the price book knows it."""
        return self.service

    @property
    def model(self) -> str:
        """The model's name as the service knows it."""
        return self._settings.model

    @property
    def dimension(self) -> int:
        """Columns of every row. A model that is not known here is asked once."""
        if not self._width:
            self.embed_query(PROBE_TEXT)
        return self._width

    @property
    def concurrency(self) -> int:
        """Requests under way at once."""
        return self._settings.concurrency

    @property
    def fingerprint(self) -> str:
        """Service, model, columns, and what tells a text from a question. The address is no part of it."""
        width = self._settings.dimensions or self.widths.get(self.model) or "own"
        return ":".join(str(part) for part in (self.service, self.model, width, *self.input_types) if part)

    @property
    def input_types(self) -> tuple[str, ...]:
        """What is sent, or put before texts, to tell a text from a question; empty where nothing is."""
        return ()

    def batches(self, texts: Sequence[str]) -> list[list[int]]:
        """Places of texts in order, cut by count and by estimated tokens; what the service found too large counts."""
        (size, tokens), found, spent = self._most, list[list[int]](), 0
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
        sent = [_sendable(text) for text in texts]
        unique = list(dict.fromkeys(sent))
        rows = self._answer(unique, "document") if len(self.batches(unique)) == 1 else self._gathered(unique)
        if len(unique) == len(sent):
            return rows
        place = {text: at for at, text in enumerate(unique)}
        return rows[[place[text] for text in sent]]

    def embed_query(self, text: str) -> Row:
        """The row of a question: (dimension,). Raises ProviderError."""
        return cast("Row", self._answer([_sendable(text)], "query")[0])

    def _gathered(self, texts: Sequence[str]) -> Rows:
        embedding = Embedding(self, texts)
        try:
            parts = list(embedding.rest())
        finally:
            embedding.close()
        rows = np.empty((len(texts), parts[0][1].shape[1]), np.float32)
        for places, part in parts:
            rows[places] = part
        return rows

    def _answer(self, texts: Sequence[str], kind: Kind) -> Rows:
        """The rows of one batch, which is halved for as long as the service finds it too large."""
        tokens = sum(map(estimate_tokens, texts))
        try:
            answered = self._calls.call(lambda: self._checked(texts, kind), tokens)
        except InvalidRequest as error:
            if len(texts) == 1 or not is_too_large(error):
                raise
            self._learn(len(texts) // 2, tokens // 2)
        else:
            self._report(tokens if answered.tokens is None else answered.tokens)
            return unit(np.asarray(answered.rows, np.float32))
        half = len(texts) // 2
        return np.concatenate([self._answer(texts[:half], kind), self._answer(texts[half:], kind)])

    def _checked(self, texts: Sequence[str], kind: Kind) -> Answered:
        """The answer to one request, once its rows are as many, and as wide, as they must be."""
        answered = self.request(texts, kind)
        widths = {len(row) for row in answered.rows}
        with self._lock:
            self._width = self._width or max(widths, default=0)
        if len(answered.rows) != len(texts) or widths != {self._width}:
            met = f"{len(answered.rows)} rows of {' or '.join(map(str, sorted(widths)))} columns"
            raise ProviderError(self.service, f"{self.model} gave {met}: {len(texts)} of {self._width} are wanted")
        if not np.isfinite(np.asarray(answered.rows, np.float32)).all():
            raise ProviderError(self.service, f"{self.model} gave a row that is not finite: report it to the service")
        return answered

    def _learn(self, texts: int, tokens: int) -> None:
        """Later batches are no larger than this."""
        with self._lock:
            self._most = (max(1, min(self._most[0], texts)), max(1, min(self._most[1], tokens)))

    def price(self, tokens: int) -> float | None:
        """US dollars of one request with so many tokens; None where the price is unknown."""
        meter = current_meter()
        return meter.prices.embedding(self.service, self.model, tokens) if meter else None

    def close_with(self, close: Callable[[], object]) -> None:
        """Have the SDK's client closed when this embedder goes: its connections would stay open."""
        finalize(self, close)

    def _report(self, tokens: int) -> None:
        record_embedding(self.model, tokens, self.price(tokens), provider=self.service)


def _sendable(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot hold; never blank."""
    return text.encode("utf-8", "replace").decode("utf-8") if text.strip() else BLANK
