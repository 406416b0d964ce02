"""Looks up prices of models: price files first, then the package genai-prices, then the list `model_limits.json`.

Only the bundled data is used, never its online updater. An unknown price is None, not 0. The package comes with the
extras of the services that cost money; without it, the list alone is used.
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
from ragkit.usage.model_limits import find_listed, listed_models
from ragkit.usage.price_files import load_configured_prices, merge_model_info
from ragkit.usage.tokens import Tokens

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelInfo as KnownModel

__all__ = ["LOCAL_PROVIDERS", "ModelInfo", "Price", "PriceBook", "bundled_models", "split_model_name"]

LOCAL_PROVIDERS = frozenset({"gguf", "local", "ollama"})
"""Providers with local models, whose tokens cost nothing."""
_PROVIDER_ALIASES = {"google": "gemini", "voyageai": "voyage", "x-ai": "xai"}
"""genai-prices name -> ragkit name. Lookups in genai-prices accept both."""
_NON_TEXT_MODEL = re.compile(
    r"(?:\b|_)(?:tts|transcri\w+|whisper|image|audio|realtime|live|moderation|ocr|computer)(?:\b|_)"
)


@dataclass(frozen=True)
class PriceBook:
    """Looks up prices, first in `overrides`, by `provider:model` or by `model`.

    Without `overrides`, the price files are used: see `ragkit.usage.price_files`. They are read at the first lookup,
    which raises PipelineError if one is invalid.
    """

    overrides: Mapping[str, ModelInfo] | None = None

    @classmethod
    def from_price_files(cls) -> PriceBook:
        """Read the price files now, so that an error in one is raised before a run. Raises PipelineError."""
        return cls(load_configured_prices())

    def chat_cost(self, provider: str, model: str, tokens: Tokens) -> float | None:
        """The cost of one chat request in US dollars; None if the price is unknown.

        Some models have higher prices for long requests, so do not sum up the tokens of several requests.
        """
        if tokens.cost_usd is not None:
            return tokens.cost_usd
        if provider in LOCAL_PROVIDERS:
            return 0.0
        override = self._override_price(provider, model)
        if override is not None:
            return _override_cost(override, tokens)
        if _is_bundled(provider, model):
            return _bundled_cost(provider, model, tokens)
        listed = find_listed(provider, model)
        return None if listed is None else _override_cost(listed.price, tokens)

    def embedding_cost(self, provider: str, model: str, tokens: int) -> float | None:
        """The cost of one embedding request in US dollars; None if the price is unknown."""
        return self.chat_cost(provider, model, Tokens(prompt_tokens=tokens))

    def rerank_cost(self, provider: str, model: str, *, searches: int = 1, tokens: int = 0) -> float | None:
        """The cost of rerank requests in US dollars; None if the price is unknown.

        Services charge per search or per token; the other count is ignored.
        """
        if provider in LOCAL_PROVIDERS:
            return 0.0
        price, listed = self._override_price(provider, model), find_listed(provider, model)
        if price is None and listed is not None:
            price = listed.price
        if price is None or (price.search_usd is None and price.input_usd is None):
            return None
        return searches * (price.search_usd or 0.0) / 1e3 + tokens * (price.input_usd or 0.0) / 1e6

    def model_info(self, provider: str, model: str) -> ModelInfo | None:
        """The limits and price of a model, or None. Missing fields of an override come from the bundled data."""
        override = self._override(provider, model)
        if override is None:
            return _find_known(provider, model)
        below = _find_known(override.provider or provider, override.model)
        return override if below is None else merge_model_info(override, below)

    def models(self) -> Iterator[ModelInfo]:
        """All known models: those with overrides first, then the others by provider."""
        seen: set[str] = set()
        for override in self._entries.values():
            below = _find_known(override.provider, override.model)
            seen |= {override.name, f"{override.provider}:{below.model}" if below else ""}
            yield override if below is None else merge_model_info(override, below)
        yield from (info for info in known_models(datetime.now(tz=UTC)) if info.name not in seen)

    @cached_property
    def _entries(self) -> Mapping[str, ModelInfo]:
        """The overrides, cached so that a request does not search directories for price files."""
        return load_configured_prices() if self.overrides is None else self.overrides

    def _override(self, provider: str, model: str) -> ModelInfo | None:
        entries = self._entries
        return entries.get(f"{provider}:{model}") or entries.get(model)

    def _override_price(self, provider: str, model: str) -> Price | None:
        """The price of an override; None if it has limits only."""
        override = self._override(provider, model)
        return None if override is None or override.price == Price() else override.price


def bundled_models(at: datetime) -> Iterator[ModelInfo]:
    """All models of the package genai-prices, with the prices at a point in time; none without the package."""
    snapshot = _bundled_snapshot()
    for provider in snapshot.providers if snapshot else ():
        for known in provider.models:
            yield _to_model_info(provider.id, known, at)


def known_models(at: datetime) -> Iterator[ModelInfo]:
    """All models of genai-prices, with the limits that only the list has, then the other models of the list."""
    seen: set[str] = set()
    for info in bundled_models(at):
        seen.add(info.name)
        listed = find_listed(info.provider, info.model)
        yield info if listed is None else merge_model_info(info, listed)
    for listed in listed_models().values():
        # dated versions of a model that genai-prices has are not listed: a lookup finds them
        if listed.name not in seen and not _is_bundled(listed.provider, listed.model):
            yield listed


def find_bundled_id(provider: str, model: str) -> str | None:
    """`provider:model` as genai-prices names the model; None if it does not know it."""
    found = _find_bundled(provider, model)
    return None if found is None else found.name


def _find_known(provider: str, model: str) -> ModelInfo | None:
    bundled, listed = _find_bundled(provider, model), find_listed(provider, model)
    if bundled is None:
        return listed
    listed = listed or find_listed(bundled.provider, bundled.model)
    return bundled if listed is None else merge_model_info(bundled, listed)


def _override_cost(price: Price, tokens: Tokens) -> float | None:
    if price.input_usd is None or (tokens.completion_tokens and price.output_usd is None):
        return None
    cached = price.input_usd if price.cached_usd is None else price.cached_usd
    fresh = tokens.prompt_tokens - tokens.cached_tokens
    dollars = fresh * price.input_usd + tokens.cached_tokens * cached
    return (dollars + tokens.completion_tokens * (price.output_usd or 0.0)) / 1e6


def _bundled_cost(provider: str, model: str, tokens: Tokens) -> float | None:
    import genai_prices  # noqa: PLC0415 - the import takes 0.3 s, which runs with local models avoid

    usage = genai_prices.Usage(
        input_tokens=tokens.prompt_tokens or None,
        output_tokens=tokens.completion_tokens or None,
        cache_read_tokens=tokens.cached_tokens or None,
        cache_write_tokens=tokens.cache_write_tokens or None,
    )
    snapshot = _bundled_snapshot()
    try:
        calculation = snapshot.calc(usage, model, provider or None, None, None) if snapshot else None
    except ValueError:  # the model has no price for one of the kinds of tokens
        return None
    return float(calculation.total_price) if calculation else None


@lru_cache(maxsize=4096)
def _is_bundled(provider: str, model: str) -> bool:
    """Whether genai-prices has the model, cached because it is called for every request."""
    return _find_bundled(provider, model) is not None


def _find_bundled(provider: str, model: str) -> ModelInfo | None:
    snapshot = _bundled_snapshot()
    if snapshot is None:
        return None
    try:
        owner, known = snapshot.find_provider_model(model, None, provider or None, None)
    except LookupError:
        return None
    return _to_model_info(owner.id, known, datetime.now(tz=UTC))


def _bundled_snapshot() -> DataSnapshot | None:
    """The data of the package; None if it is not installed."""
    try:
        from genai_prices import data_snapshot  # noqa: PLC0415 - as above
    except ModuleNotFoundError:
        return None
    return data_snapshot._bundled_snapshot()  # ignores an updater that the application may have started


def _to_model_info(provider: str, known: KnownModel, at: datetime) -> ModelInfo:
    prices = known.get_prices(at)
    keys = ("input_mtok", "output_mtok", "cache_read_mtok")
    price = Price(*(_base_price(getattr(prices, key, None)) for key in keys))
    name, kind = _PROVIDER_ALIASES.get(provider, provider), _guess_kind(provider, known.id, price)
    return ModelInfo(name, known.id, known.context_window, None, price, kind)


def _guess_kind(provider: str, model: str, price: Price) -> ModelKind:
    """The kind of a model, guessed by its name: genai-prices does not list it."""
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
