"""`ragkit models`: list models with their limits and prices."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import click

from ragkit.cli.common import CliContext, with_common_options
from ragkit.embed.onnx_folder import OnnxFolder, default_places, find_folders
from ragkit.errors import InvalidOption, UnknownModel, UnknownName
from ragkit.gguf.files import FoundModel, find_models, model_places
from ragkit.records import JSON
from ragkit.usage.pricing import ModelInfo, Price, PriceBook

DEFAULT_PROVIDERS = ("anthropic", "cohere", "gemini", "groq", "ollama", "openai", "voyage")
"""Providers that are listed by default: those that ragkit supports directly."""


@click.command()
@click.argument("name", required=False)
@click.option("--provider", metavar="NAME", help="Only models of this provider.")
@click.option("--kind", type=click.Choice(["chat", "embedding", "rerank"]), help="Only models of this kind.")
@click.option("--all", "everything", is_flag=True, help="Models of all known providers.")
@click.option("--local", is_flag=True, help="Models on this machine; NAME is a folder to look in.")
@with_common_options
def command(
    context: CliContext, name: str | None, provider: str | None, kind: str | None, everything: bool, local: bool
) -> None:
    """List models with context window, limits and prices; NAME is part of a name, or provider:model.

    Prices are in US dollars per million input, output and cached tokens, and per thousand searches.

    With --local, list the models of this machine, below NAME, or below RAGKIT_MODELS and `models`: folders with ONNX
    models for `embed: {name: onnx}` and `rerank: {name: onnx}`, also in the cache of the Hugging Face hub, and GGUF
    files, also those of Ollama, LM Studio, llama.cpp and the hub.

    \b
        ragkit models gpt-4o
        ragkit models --provider voyage --kind embedding
        ragkit models --local ~/models
    """
    if local:
        _list_local(context, name)
        return
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


def _list_local(context: CliContext, place: str | None) -> None:
    if place is not None and not Path(place).is_dir():
        raise InvalidOption("NAME", place, "a folder to look for models in, after --local")
    places = [Path(place)] if place is not None else default_places(os.environ)
    gguf_places = [Path(place)] if place is not None else model_places(os.environ)
    folders, files = list(find_folders(places)), list(find_models(gguf_places))
    if context.json:
        context.write_json({"models": [*map(_local_json, folders), *map(_gguf_json, files)]})
        return
    if not folders and not files:
        looked = ", ".join(map(str, dict.fromkeys([*places, *gguf_places])))
        context.log(f"no models on this machine (looked in {looked or 'no folder: set RAGKIT_MODELS, or name one'})")
    if folders:
        _write_folders(context, folders)
    if files:
        _write_files(context, files)


def _write_folders(context: CliContext, found: Sequence[OnnxFolder]) -> None:
    width = max(len(str(folder.path)) for folder in found)
    context.write(f"{'':{width}}  {'kind':9} {'dimension':>9} {'tokens':>7} {'MB':>6}  pooling")
    for folder in found:
        dimension = str(folder.dimension or "") if folder.kind == "embedding" else ""
        poolings = ", ".join(folder.poolings) if folder.kind == "embedding" else ""
        size = f"{folder.size / 1e6:,.0f}"
        context.write(f"{folder.path!s:{width}}  {folder.kind:9} {dimension:>9} {folder.max_tokens:>7,} {size:>6}"
                      f"  {poolings}".rstrip())  # fmt: skip


def _write_files(context: CliContext, found: Sequence[FoundModel]) -> None:
    """One line a file, which begins with how it is named in a command or in a pipeline file."""
    names = list(map(_gguf_name, found))
    width = max(map(len, names))
    context.write(f"{'':{width}}  {'kind':9} {'size':>9} {'tokens':>7} {'MB':>6}  model")
    for name, model in zip(names, found, strict=True):
        file = model.file
        context.write(f"{name:{width}}  {file.kind:9} {file.parameters:>9} {file.context_length:>7,}"
                      f" {file.size / 1e6:>6,.0f}  {model.label}")  # fmt: skip


def _gguf_name(model: FoundModel) -> str:
    if model.file.kind == "chat":
        return f"--model gguf:{model.file.path}"
    section = "embed" if model.file.kind == "embedding" else "rerank"
    return f"{section}: {{name: gguf, path: {model.file.path}}}"


def _gguf_json(model: FoundModel) -> dict[str, JSON]:
    file = model.file
    return {
        "path": str(file.path),
        "kind": file.kind,
        "use": _gguf_name(model),
        "name": file.name,
        "label": model.label,
        "architecture": file.architecture,
        "parameters": file.parameters,
        "tools": file.knows_tools,
        "max_tokens": file.context_length,
        "bytes": file.size,
    }


def _local_json(folder: OnnxFolder) -> dict[str, JSON]:
    is_embedder = folder.kind == "embedding"
    return {
        "path": str(folder.path),
        "kind": folder.kind,
        "dimension": (folder.dimension or None) if is_embedder else None,
        "max_tokens": folder.max_tokens,
        "pooling": list(folder.poolings) if is_embedder else [],
        "query_prompt": folder.query_prompt,
        "document_prompt": folder.document_prompt,
        "files": [str(path.relative_to(folder.path)) for path in folder.graphs],
        "bytes": folder.size,
    }


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
