"""`ragkit models`: list models with their limits and prices."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import click

from ragkit.cli.common import CliContext, with_common_options
from ragkit.errors import UnknownModel, UnknownName
from ragkit.records import JSON
from ragkit.usage.pricing import ModelInfo, Price, PriceBook

DEFAULT_PROVIDERS = ("anthropic", "cohere", "gemini", "groq", "ollama", "openai", "voyage")
"""Providers that are listed by default: those that ragkit supports directly."""


@click.command()
@click.argument("name", required=False)
@click.option("--provider", metavar="NAME", help="Only models of this provider.")
@click.option("--kind", type=click.Choice(["chat", "embedding", "rerank"]), help="Only models of this kind.")
@click.option("--all", "everything", is_flag=True, help="Models of all known providers.")
@with_common_options
def command(context: CliContext, name: str | None, provider: str | None, kind: str | None, everything: bool) -> None:
    """List models with context window, limits and prices; NAME is part of a name, or provider:model.

    Prices are in US dollars per million input, output and cached tokens, and per thousand searches.

    \b
        ragkit models gpt-4o
        ragkit models --provider voyage --kind embedding
    """
    models = _select_models(list(PriceBook().models()), name, provider, everything=everything or bool(name))
    models = [model for model in models if model.kind == kind or (kind is None and model.kind != "other")]
    if context.json:
        context.write_json({"models": [_model_json(model) for model in models]})
        return
    if not models:
        context.log("no models of this kind")
        return
    width = max(len(model.name) for model in models)
    context.write(
        f"{'':{width}}  {'kind':9} {'context':>9} {'writes':>8} {'in':>8} {'out':>8} {'cached':>8} {'searches':>8}"
    )
    for model in models:
        price = model.price
        costs = "".join(f" {_format_price(cost):>8}" for cost in (price.input_usd, price.output_usd, price.cached_usd,
                                                              price.search_usd))  # fmt: skip
        unknown = "" if price != Price() else "  price unknown"
        context.write(f"{model.name:{width}}  {model.kind:9} {_format_tokens(model.context_window):>9}"
                  f" {_format_tokens(model.max_output_tokens):>8}{costs}{unknown}")  # fmt: skip


def _select_models(
    models: Sequence[ModelInfo], name: str | None, provider: str | None, *, everything: bool
) -> list[ModelInfo]:
    """The matching models, by name. Raises UnknownName, UnknownModel."""
    providers = sorted({model.provider for model in models})
    if provider is not None and provider not in providers:
        raise UnknownName("provider", provider, providers)
    selected = {provider} if provider else set(providers) if everything else set(DEFAULT_PROVIDERS)
    candidates = sorted((model for model in models if model.provider in selected), key=lambda model: model.name)
    if name is None:
        return candidates
    matching = [model for model in candidates if model.name == name]
    matching = matching or [model for model in candidates if name.lower() in model.name.lower()]
    if not matching:
        known = [model.name if ":" in name else model.model for model in candidates]
        raise UnknownModel(name, get_close_matches(name, sorted(set(known)), n=3))
    return matching


def _model_json(model: ModelInfo) -> dict[str, JSON]:
    return {
        "name": model.name,
        "provider": model.provider,
        "model": model.model,
        "kind": model.kind,
        "context_window": model.context_window,
        "max_output_tokens": model.max_output_tokens,
        "input_usd_per_million": model.price.input_usd,
        "output_usd_per_million": model.price.output_usd,
        "cached_usd_per_million": model.price.cached_usd,
        "usd_per_thousand_searches": model.price.search_usd,
    }


def _format_tokens(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _format_price(cost: float | None) -> str:
    return "-" if cost is None else f"{cost:g}"
