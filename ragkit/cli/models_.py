"""`ragkit models`: models with their limits and prices."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import click

from ragkit.cli.common import CliContext, with_common_options
from ragkit.errors import UnknownModel, UnknownName
from ragkit.records import JSON
from ragkit.usage.pricing import ModelInfo, Price, PriceBook

DEFAULT_PROVIDERS = ("anthropic", "cohere", "gemini", "groq", "openai", "voyage")
"""Providers that are listed when nobody says which: those that ragkit speaks to itself."""


@click.command()
@click.argument("name", required=False)
@click.option("--provider", metavar="NAME", help="Only models of this provider.")
@click.option("--kind", type=click.Choice(["chat", "embedding", "rerank"]), help="Only models for this.")
@click.option("--all", "everything", is_flag=True, help="Models of every provider that is known.")
@with_common_options
def command(shell: CliContext, name: str | None, provider: str | None, kind: str | None, everything: bool) -> None:
    """List models with context window, limits and prices; NAME is a part of a name, or provider:model.

    Prices are US dollars per million tokens in, out and from the service's cache, and per thousand searches.

    \b
        ragkit models gpt-4o
        ragkit models --provider voyage --kind embedding
    """
    found = _select_models(list(PriceBook().models()), name, provider, everything=everything or bool(name))
    found = [one for one in found if one.kind == kind or (kind is None and one.kind != "other")]
    if shell.json:
        shell.write_json({"models": [_model_json(one) for one in found]})
        return
    if not found:
        shell.log("no model is of this kind")
        return
    width = max(len(one.name) for one in found)
    shell.write(
        f"{'':{width}}  {'kind':9} {'context':>9} {'writes':>8} {'in':>8} {'out':>8} {'cached':>8} {'searches':>8}"
    )
    for one in found:
        price = one.price
        costs = "".join(f" {_format_price(cost):>8}" for cost in (price.input_usd, price.output_usd, price.cached_usd,
                                                              price.search_usd))  # fmt: skip
        unknown = "" if price != Price() else "  price unknown"
        shell.write(f"{one.name:{width}}  {one.kind:9} {_format_tokens(one.context_window):>9}"
                  f" {_format_tokens(one.max_output_tokens):>8}{costs}{unknown}")  # fmt: skip


def _select_models(
    models: Sequence[ModelInfo], name: str | None, provider: str | None, *, everything: bool
) -> list[ModelInfo]:
    """The models that were asked for, by name. Raises UnknownName with the nearest right word."""
    providers = sorted({one.provider for one in models})
    if provider is not None and provider not in providers:
        raise UnknownName("provider", provider, providers)
    wanted = {provider} if provider else set(providers) if everything else set(DEFAULT_PROVIDERS)
    found = sorted((one for one in models if one.provider in wanted), key=lambda one: one.name)
    if name is None:
        return found
    matching = [one for one in found if one.name == name] or [one for one in found if name.lower() in one.name.lower()]
    if not matching:
        known = [one.name for one in found] if ":" in name else [one.model for one in found]
        raise UnknownModel(name, get_close_matches(name, sorted(set(known)), n=3))
    return matching


def _model_json(one: ModelInfo) -> dict[str, JSON]:
    return {
        "name": one.name,
        "provider": one.provider,
        "model": one.model,
        "kind": one.kind,
        "context_window": one.context_window,
        "max_output_tokens": one.max_output_tokens,
        "input_usd_per_million": one.price.input_usd,
        "output_usd_per_million": one.price.output_usd,
        "cached_usd_per_million": one.price.cached_usd,
        "usd_per_thousand_searches": one.price.search_usd,
    }


def _format_tokens(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _format_price(cost: float | None) -> str:
    return "-" if cost is None else f"{cost:g}"
