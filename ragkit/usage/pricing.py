"""Prices of models: the data of the package genai-prices, and overrides of our own.

The bundled data is read offline; the package's updater is never started. An unknown price is None, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from ragkit.usage.tokens import Tokens

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo as KnownModel


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    input_usd: float | None = None
    """For tokens sent, or embedded."""
    output_usd: float | None = None
    """For tokens received."""
    cached_usd: float | None = None
    """For tokens that the service reads from its prompt cache; None: as `input_usd`."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of a model."""

    provider: str
    model: str
    context_window: int | None = None
    """Tokens that it can read; None where it is not known."""
    max_output_tokens: int | None = None
    """Tokens that it can write; None where it is not known."""
    price: Price = Price()
    """The standard price, without tiers and discounts."""

    @property
    def name(self) -> str:
        """`provider:model`."""
        return f"{self.provider}:{self.model}"


def split_name(name: str) -> tuple[str, str]:
    """`provider:model` -> (provider, model); without a provider the first is ''."""
    provider, colon, model = name.partition(":")
    return (provider, model) if colon else ("", name)


@dataclass(frozen=True)
class PriceBook:
    """Looks prices up. `overrides` are asked first, by `provider:model`, then by `model`."""

    overrides: Mapping[str, ModelInfo] = field(default_factory=dict)

    def chat(self, provider: str, model: str, tokens: Tokens) -> float | None:
        """US dollars of one chat request; None when the price is unknown.

        Price one request at a time: some models cost more per token in a long request.
        """
        if tokens.cost_usd is not None:
            return tokens.cost_usd
        override = self._override(provider, model)
        if override is not None:
            return _by_hand(override.price, tokens)
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
        """US dollars for embedding so many tokens; None when the price is unknown."""
        override = self._override(provider, model)
        if override is not None:
            return _by_hand(override.price, Tokens(prompt_tokens=tokens))
        if not _known(provider, model):
            return None
        return _catalogue_price(provider, model, {"input_tokens": tokens})

    def info(self, provider: str, model: str) -> ModelInfo | None:
        """What is known of a model, or None."""
        override = self._override(provider, model)
        if override is not None:
            return override
        try:
            owner, known = _snapshot().find_provider_model(model, None, provider or None, None)
        except LookupError:
            return None
        return _info(owner.id, known)

    def models(self) -> Iterator[ModelInfo]:
        """Every model whose price is known: overrides first, then by provider."""
        yield from self.overrides.values()
        for provider in _snapshot().providers:
            for known in provider.models:
                yield _info(provider.id, known)

    def _override(self, provider: str, model: str) -> ModelInfo | None:
        if not self.overrides:
            return None
        return self.overrides.get(f"{provider}:{model}") or self.overrides.get(model)


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
    try:
        _snapshot().find_provider_model(model, None, provider or None, None)
    except LookupError:
        return False
    return True


def _snapshot() -> DataSnapshot:
    from genai_prices import data_snapshot  # noqa: PLC0415 - as above

    return data_snapshot._bundled_snapshot()  # the data in the package, whatever an updater elsewhere has set


def _info(provider: str, known: KnownModel) -> ModelInfo:
    prices = known.get_prices(datetime.now(tz=UTC))
    fields = {key: _standard(getattr(prices, key, None)) for key in ("input_mtok", "output_mtok", "cache_read_mtok")}
    price = Price(fields["input_mtok"], fields["output_mtok"], fields["cache_read_mtok"])
    return ModelInfo(provider, known.id, known.context_window, None, price)


def _standard(price: object) -> float | None:
    """The price below the first tier."""
    base = getattr(price, "base", price)
    return float(base) if isinstance(base, Decimal) else None
