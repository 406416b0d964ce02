"""Prices of models: price files first, then the data of the package genai-prices.

The bundled data is read offline; the package's updater is never started. An unknown price is None, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from ragkit.usage.model_info import Kind, ModelInfo, Price, split_name
from ragkit.usage.price_files import configured, merged
from ragkit.usage.tokens import Tokens

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo as KnownModel

__all__ = ["LOCAL", "ModelInfo", "Price", "PriceBook", "catalogue", "split_name"]

LOCAL = frozenset({"local", "ollama"})
"""Providers whose models run on machines of one's own: their tokens cost nothing."""
_OUR_NAMES = {"google": "gemini", "voyageai": "voyage", "x-ai": "xai"}
"""Providers of the catalogue that have another name here. It finds them under both."""
_NO_TEXT = re.compile(r"(?:\b|_)(?:tts|transcri\w+|whisper|image|audio|realtime|live|moderation|ocr|computer)(?:\b|_)")


@dataclass(frozen=True)
class PriceBook:
    """Looks prices up. `overrides` are asked first, by `provider:model`, then by `model`.

    Without `overrides` the price files are asked: see `ragkit.usage.price_files`. They are read when the first
    price is looked up, and raise PipelineError then.
    """

    overrides: Mapping[str, ModelInfo] | None = None

    @classmethod
    def configured(cls) -> PriceBook:
        """With the price files read now: a mistake in one is met before anything is spent. Raises PipelineError."""
        return cls(configured())

    def chat(self, provider: str, model: str, tokens: Tokens) -> float | None:
        """US dollars of one chat request; None when the price is unknown.

        Price one request at a time: some models cost more per token in a long request.
        """
        if tokens.cost_usd is not None:
            return tokens.cost_usd
        if provider in LOCAL:
            return 0.0
        override = self._priced(provider, model)
        if override is not None:
            return _by_hand(override, tokens)
        if not _known(provider, model):
            return None
        return _catalogue_price(
            provider,
            model,
            {
                "input_tokens": tokens.prompt_tokens,
                "output_tokens": tokens.completion_tokens,
                "cache_read_tokens": tokens.cached_tokens,
                "cache_write_tokens": tokens.cache_write_tokens,
            },
        )

    def embedding(self, provider: str, model: str, tokens: int) -> float | None:
        """US dollars for embedding so many tokens in one request; None when the price is unknown."""
        return self.chat(provider, model, Tokens(prompt_tokens=tokens))

    def rerank(self, provider: str, model: str, *, searches: int = 1, tokens: int = 0) -> float | None:
        """US dollars of rerank requests; None when the price is unknown.

        Some services charge for each search, others for each token; what a service has no price for counts nothing.
        """
        if provider in LOCAL:
            return 0.0
        price = self._priced(provider, model)
        if price is None or (price.search_usd is None and price.input_usd is None):
            return None
        return searches * (price.search_usd or 0.0) / 1e3 + tokens * (price.input_usd or 0.0) / 1e6

    def info(self, provider: str, model: str) -> ModelInfo | None:
        """What is known of a model, or None. What an override leaves open is filled in from the catalogue."""
        override = self._override(provider, model)
        if override is None:
            return _found(provider, model)
        below = _found(override.provider or provider, override.model)
        return override if below is None else merged(override, below)

    def models(self) -> Iterator[ModelInfo]:
        """Every model that is known: those with overrides first, then the others by provider."""
        seen: set[str] = set()
        for override in self._entries.values():
            below = _found(override.provider, override.model)
            seen |= {override.name, f"{override.provider}:{below.model}" if below else ""}
            yield override if below is None else merged(override, below)
        yield from (one for one in catalogue(datetime.now(tz=UTC)) if one.name not in seen)

    @cached_property
    def _entries(self) -> Mapping[str, ModelInfo]:
        """Looked for once in a book's life: a request shall not search folders for price files."""
        return configured() if self.overrides is None else self.overrides

    def _override(self, provider: str, model: str) -> ModelInfo | None:
        entries = self._entries
        return entries.get(f"{provider}:{model}") or entries.get(model)

    def _priced(self, provider: str, model: str) -> Price | None:
        """The price of an override that states one: some state limits only."""
        override = self._override(provider, model)
        return None if override is None or override.price == Price() else override.price


def catalogue(at: datetime) -> Iterator[ModelInfo]:
    """Every model of the package genai-prices, with the prices of a moment."""
    for provider in _snapshot().providers:
        for known in provider.models:
            yield _info(provider.id, known, at)


def _by_hand(price: Price, tokens: Tokens) -> float | None:
    if price.input_usd is None or (tokens.completion_tokens and price.output_usd is None):
        return None
    cached = price.input_usd if price.cached_usd is None else price.cached_usd
    fresh = tokens.prompt_tokens - tokens.cached_tokens
    dollars = fresh * price.input_usd + tokens.cached_tokens * cached
    return (dollars + tokens.completion_tokens * (price.output_usd or 0.0)) / 1e6


def _catalogue_price(provider: str, model: str, counts: Mapping[str, int]) -> float | None:
    import genai_prices  # noqa: PLC0415 - a third of a second that runs on local models need not pay

    usage = genai_prices.Usage(**{key: count for key, count in counts.items() if count})
    try:
        found = _snapshot().calc(usage, model, provider or None, None, None)
    except ValueError:  # the model has no price for a kind of token that was used
        return None
    return float(found.total_price)


@lru_cache(maxsize=4096)
def _known(provider: str, model: str) -> bool:
    """Whether the catalogue has the model: asked for every request, and searched for once."""
    return _found(provider, model) is not None


def _found(provider: str, model: str) -> ModelInfo | None:
    try:
        owner, known = _snapshot().find_provider_model(model, None, provider or None, None)
    except LookupError:
        return None
    return _info(owner.id, known, datetime.now(tz=UTC))


def _snapshot() -> DataSnapshot:
    from genai_prices import data_snapshot  # noqa: PLC0415 - as above

    return data_snapshot._bundled_snapshot()  # the data in the package, whatever an updater elsewhere has set


def _info(provider: str, known: KnownModel, at: datetime) -> ModelInfo:
    prices = known.get_prices(at)
    fields = {key: _standard(getattr(prices, key, None)) for key in ("input_mtok", "output_mtok", "cache_read_mtok")}
    price = Price(fields["input_mtok"], fields["output_mtok"], fields["cache_read_mtok"])
    return ModelInfo(
        _OUR_NAMES.get(provider, provider),
        known.id,
        known.context_window,
        None,
        price,
        _kind(provider, known.id, price),
    )


def _kind(provider: str, model: str, price: Price) -> Kind:
    """What a model is for, by its name: the catalogue does not say."""
    if "rerank" in model:
        return "rerank"
    if "embed" in model or provider == "voyageai":
        return "embedding"
    writes = price.input_usd is not None and price.output_usd is not None
    return "chat" if writes and not _NO_TEXT.search(model) else "other"


def _standard(price: object) -> float | None:
    """The price below the first tier."""
    base = getattr(price, "base", price)
    return float(base) if isinstance(base, Decimal) else None
