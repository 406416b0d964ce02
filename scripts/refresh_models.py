"""Write `ragkit/usage/model_limits.json`: limits and prices of models that genai-prices lacks or knows in part.

    python scripts/refresh_models.py                 # from the list of the project litellm (MIT License)
    python scripts/refresh_models.py FILE_OR_URL     # from a copy of it

Only services that ragkit speaks to, and only chat, embedding and rerank models. What the list does not say stays
unknown. `make models` runs this.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragkit.usage.pricing import find_bundled_id

SOURCE = "https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json"
TARGET = Path(__file__).resolve().parent.parent / "ragkit" / "usage" / "model_limits.json"
PROVIDERS = {
    "openai": "openai",
    "text-completion-openai": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "groq": "groq",
    "ollama": "ollama",
    "cohere": "cohere",
    "cohere_chat": "cohere",
    "voyage": "voyage",
    "jina_ai": "jina",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "xai": "xai",
}
"""Provider in the list -> ragkit's."""
KINDS = {"chat": "chat", "completion": "chat", "responses": "chat", "embedding": "embedding", "rerank": "rerank"}
PRICES = {"input": "input_cost_per_token", "output": "output_cost_per_token", "cached": "cache_read_input_token_cost"}


def entries(data: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, object]]]:
    """(`provider:model`, entry) of the models that ragkit can use."""
    for key, values in data.items():
        provider, kind = PROVIDERS.get(str(values.get("litellm_provider"))), KINDS.get(str(values.get("mode")))
        if provider is None or kind is None or key.startswith("ft:"):
            continue
        model = key.partition("/")[2] if key.partition("/")[0] in PROVIDERS else key
        entry: dict[str, object] = {
            "kind": kind,
            "context_window": values.get("max_input_tokens") or values.get("max_tokens"),
            "max_output_tokens": values.get("max_output_tokens") if kind == "chat" else None,
        }
        for name, cost in PRICES.items():
            if kind == "chat" or name == "input":
                entry[name] = per_million(values.get(cost))
        per_query = values.get("input_cost_per_query")
        if kind == "rerank" and per_query:
            entry |= {"input": None, "searches": round(float(per_query) * 1e3, 6)}
        yield f"{provider}:{model}", {name: value for name, value in entry.items() if value is not None}


def per_million(cost: object) -> float | None:
    """US dollars per million tokens."""
    return round(float(cost) * 1e6, 6) if isinstance(cost, int | float) else None


def with_bundled_ids(listed: Mapping[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """The entries, and the limits under the ids that genai-prices gives them, where all versions of a model agree."""
    limits: dict[str, list[dict[str, object]]] = defaultdict(list)
    for name, entry in listed.items():
        bundled = find_bundled_id(*name.split(":", 1))
        if bundled is not None and bundled not in listed:
            kept = ("kind", "context_window", "max_output_tokens")
            limits[bundled].append({key: value for key, value in entry.items() if key in kept})
    agreed = {name: found[0] for name, found in limits.items() if all(entry == found[0] for entry in found)}
    return dict(sorted({**agreed, **listed}.items()))


def main() -> None:
    """Read the list and write the file."""
    place = sys.argv[1] if len(sys.argv) > 1 else SOURCE
    if place.startswith("https://"):
        with urllib.request.urlopen(place, timeout=60) as response:
            data = json.load(response)
    else:
        data = json.loads(Path(place).read_text("utf-8"))
    models = with_bundled_ids(dict(entries(data)))
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in models.items())
    day = datetime.now(tz=UTC).date()
    TARGET.write_text(f'{{"source": {json.dumps(SOURCE)}, "as_of": "{day}", "models": {{\n{lines}\n}}}}\n', "utf-8")
    print(f"{TARGET}: {len(models)} models")


if __name__ == "__main__":
    main()
