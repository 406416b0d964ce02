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

from ragkit.usage.model_info import ModelInfo, ModelKind, Price, split_model_name
from ragkit.usage.price_files import load_configured_prices, merge_model_info
from ragkit.usage.tokens import Tokens

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo as KnownModel

__all__ = ["LOCAL_PROVIDERS", "ModelInfo", "Price", "PriceBook", "bundled_models", "split_model_name"]

LOCAL_PROVIDERS = frozenset({"local", "ollama"})
"""Providers whose models run on machines of one's own: their tokens cost nothing."""
_PROVIDER_ALIASES = {"google": "gemini", "voyageai": "voyage", "x-ai": "xai"}
"""Providers of the catalogue that have another name here. It finds them under both."""
_NON_TEXT_MODEL = re.compile(
    r"(?:\b|_)(?:tts|transcri\w+|whisper|image|audio|realtime|live|moderation|ocr|computer)(?:\b|_)"
)


@dataclass(frozen=True)
class PriceBook:
    """Looks prices up. `overrides` are asked first, by `provider:model`, then by `model`.

    Without `overrides` the price files are asked: see `ragkit.usage.price_files`. They are read when the first
    price is looked up, and raise PipelineError then.
    """

    overrides: Mapping[str, ModelInfo] | None = None

    @classmethod
    def from_price_files(cls) -> PriceBook:
        """With the price files read now: a mistake in one is met before anything is spent. Raises PipelineError."""
        return cls(load_configured_prices())

    def chat_cost(self, provider: str, model: str, tokens: Tokens) -> float | None:
        """US dollars of one chat request; None when the price is unknown.

        Price one request at a time: some models cost more per token in a long request.
        """
        if tokens.cost_usd is not None:
            return tokens.cost_usd
        if provider in LOCAL_PROVIDERS:
            return 0.0
        override = self._override_price(provider, model)
        if override is not None:
            return _override_cost(override, tokens)
        if not _is_bundled(provider, model):
            return None
        return _bundled_cost(
            provider,
            model,
            {
                "input_tokens": tokens.prompt_tokens,
                "output_tokens": tokens.completion_tokens,
                "cache_read_tokens": tokens.cached_tokens,
                "cache_write_tokens": tokens.cache_write_tokens,
            },
        )

    def embedding_cost(self, provider: str, model: str, tokens: int) -> float | None:
        """US dollars for embedding so many tokens in one request; None when the price is unknown."""
        return self.chat_cost(provider, model, Tokens(prompt_tokens=tokens))

    def rerank_cost(self, provider: str, model: str, *, searches: int = 1, tokens: int = 0) -> float | None:
        """US dollars of rerank requests; None when the price is unknown.

        Some services charge for each search, others for each token; what a service has no price for counts nothing.
        """
        if provider in LOCAL_PROVIDERS:
            return 0.0
        price = self._override_price(provider, model)
        if price is None or (price.search_usd is None and price.input_usd is None):
            return None
        return searches * (price.search_usd or 0.0) / 1e3 + tokens * (price.input_usd or 0.0) / 1e6

    def model_info(self, provider: str, model: str) -> ModelInfo | None:
        """What is known of a model, or None. What an override leaves open is filled in from the catalogue."""
        override = self._override(provider, model)
        if override is None:
            return _find_bundled(provider, model)
        below = _find_bundled(override.provider or provider, override.model)
        return override if below is None else merge_model_info(override, below)

    def models(self) -> Iterator[ModelInfo]:
        """Every model that is known: those with overrides first, then the others by provider."""
        seen: set[str] = set()
        for override in self._entries.values():
            below = _find_bundled(override.provider, override.model)
            seen |= {override.name, f"{override.provider}:{below.model}" if below else ""}
            yield override if below is None else merge_model_info(override, below)
        yield from (one for one in bundled_models(datetime.now(tz=UTC)) if one.name not in seen)

    @cached_property
    def _entries(self) -> Mapping[str, ModelInfo]:
        """Looked for once in a book's life: a request shall not search folders for price files."""
        return load_configured_prices() if self.overrides is None else self.overrides

    def _override(self, provider: str, model: str) -> ModelInfo | None:
        entries = self._entries
        return entries.get(f"{provider}:{model}") or entries.get(model)

    def _override_price(self, provider: str, model: str) -> Price | None:
        """The price of an override that states one: some state limits only."""
        override = self._override(provider, model)
        return None if override is None or override.price == Price() else override.price


def bundled_models(at: datetime) -> Iterator[ModelInfo]:
    """Every model of the package genai-prices, with the prices of a moment."""
    for provider in _bundled_snapshot().providers:
        for known in provider.models:
            yield _to_model_info(provider.id, known, at)


def _override_cost(price: Price, tokens: Tokens) -> float | None:
    if price.input_usd is None or (tokens.completion_tokens and price.output_usd is None):
        return None
    cached = price.input_usd if price.cached_usd is None else price.cached_usd
    fresh = tokens.prompt_tokens - tokens.cached_tokens
    dollars = fresh * price.input_usd + tokens.cached_tokens * cached
    return (dollars + tokens.completion_tokens * (price.output_usd or 0.0)) / 1e6


def _bundled_cost(provider: str, model: str, counts: Mapping[str, int]) -> float | None:
    import genai_prices  # noqa: PLC0415 - a third of a second that runs on local models need not pay

    usage = genai_prices.Usage(**{key: count for key, count in counts.items() if count})
    try:
        found = _bundled_snapshot().calc(usage, model, provider or None, None, None)
    except ValueError:  # the model has no price for a kind of token that was used
        return None
    return float(found.total_price)


@lru_cache(maxsize=4096)
def _is_bundled(provider: str, model: str) -> bool:
    """Whether the catalogue has the model: asked for every request, and searched for once."""
    return _find_bundled(provider, model) is not None


def _find_bundled(provider: str, model: str) -> ModelInfo | None:
    try:
        owner, known = _bundled_snapshot().find_provider_model(model, None, provider or None, None)
    except LookupError:
        return None
    return _to_model_info(owner.id, known, datetime.now(tz=UTC))


def _bundled_snapshot() -> DataSnapshot:
    from genai_prices import data_snapshot  # noqa: PLC0415 - as above

    return data_snapshot._bundled_snapshot()  # the data in the package, whatever an updater elsewhere has set


def _to_model_info(provider: str, known: KnownModel, at: datetime) -> ModelInfo:
    prices = known.get_prices(at)
    fields = {key: _base_price(getattr(prices, key, None)) for key in ("input_mtok", "output_mtok", "cache_read_mtok")}
    price = Price(fields["input_mtok"], fields["output_mtok"], fields["cache_read_mtok"])
    return ModelInfo(
        _PROVIDER_ALIASES.get(provider, provider),
        known.id,
        known.context_window,
        None,
        price,
        _guess_kind(provider, known.id, price),
    )


def _guess_kind(provider: str, model: str, price: Price) -> ModelKind:
    """What a model is for, by its name: the catalogue does not say."""
    if "rerank" in model:
        return "rerank"
    if "embed" in model or provider == "voyageai":
        return "embedding"
    writes = price.input_usd is not None and price.output_usd is not None
    return "chat" if writes and not _NON_TEXT_MODEL.search(model) else "other"


def _base_price(price: object) -> float | None:
    """The price below the first tier."""
    base = getattr(price, "base", price)
    return float(base) if isinstance(base, Decimal) else None
