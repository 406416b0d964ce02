"""The list of limits and prices that complements genai-prices: `model_limits.json`.

Written by `scripts/refresh_models.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from ragkit.usage.model_info import ModelInfo, Price

_FILE = Path(__file__).with_name("model_limits.json")


@lru_cache(maxsize=1)
def listed_models() -> Mapping[str, ModelInfo]:
    """The models of the list by `provider:model`, read at the first call."""
    models = json.loads(_FILE.read_text("utf-8"))["models"]
    return {name: _to_model_info(name, entry) for name, entry in models.items()}


def find_listed(provider: str, model: str) -> ModelInfo | None:
    """The entry of a model; None if the list has none."""
    return listed_models().get(f"{provider}:{model}")


def _to_model_info(name: str, entry: Mapping[str, object]) -> ModelInfo:
    provider, _, model = name.partition(":")
    prices = (entry.get(key) for key in ("input", "output", "cached", "searches"))
    return ModelInfo(
        provider,
        model,
        entry.get("context_window"),  # type: ignore[arg-type] # the script writes integers
        entry.get("max_output_tokens"),  # type: ignore[arg-type]
        Price(*prices),  # type: ignore[arg-type]
        entry["kind"],  # type: ignore[arg-type]
    )
