"""Models with their limits and prices, by name: `OpenAI.GPT_4O.name` is "openai:gpt-4o".

They are looked up in the installed genai-prices, in `ragkit/usage/model_limits.json` and in the packaged price file;
`dir(OpenAI)` lists them. The cost of a run comes from a `PriceBook`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache

from ragkit.usage.model_info import ModelInfo

__all__ = [  # noqa: RUF022 - ModelInfo first
    "ModelInfo", "Anthropic", "Cohere", "DeepSeek", "Gemini", "Groq", "Jina", "Mistral", "Ollama", "OpenAI", "Voyage",
    "XAI",
]  # fmt: skip


class _Models(type):
    """The class of the classes below: their attributes are the models of one service."""

    def __getattr__(cls, name: str) -> ModelInfo:
        found = None if name.startswith("__") else _constants().get(cls.__name__.lower(), {}).get(name)
        if found is None:
            raise AttributeError(f"{cls.__name__} has no model {name!r}: `ragkit models --all` lists all models")
        return found

    def __dir__(cls) -> list[str]:
        return sorted([*super().__dir__(), *_constants().get(cls.__name__.lower(), {})])


@lru_cache(maxsize=1)
def _constants() -> Mapping[str, Mapping[str, ModelInfo]]:
    """The models that are known today, by service and name, read at the first use."""
    services: dict[str, dict[str, ModelInfo]] = {}
    for info in _models():
        name = re.sub(r"\W+", "_", info.model).strip("_").upper()
        if info.kind != "other":
            services.setdefault(info.provider, {})[f"_{name}" if name[0].isdigit() else name] = info
    return services


def _models() -> Iterator[ModelInfo]:
    # genai-prices, which these modules ask, is not imported before a model is named
    from ragkit.usage import price_files, pricing  # noqa: PLC0415

    overrides = price_files.read_price_file(price_files.shipped_price_file())
    noon = datetime.now(tz=UTC).replace(hour=12)  # some services charge less at night
    for info in pricing.known_models(noon):
        override = overrides.pop(info.name, None)
        yield price_files.merge_model_info(override, info) if override else info
    yield from overrides.values()


class OpenAI(metaclass=_Models):
    """Models of `openai`."""


class Anthropic(metaclass=_Models):
    """Models of `anthropic`."""


class Gemini(metaclass=_Models):
    """Models of `gemini`."""


class Groq(metaclass=_Models):
    """Models of `groq`."""


class Ollama(metaclass=_Models):
    """Models of `ollama`."""


class Cohere(metaclass=_Models):
    """Models of `cohere`."""


class Voyage(metaclass=_Models):
    """Models of `voyage`."""


class Jina(metaclass=_Models):
    """Models of `jina`."""


class Mistral(metaclass=_Models):
    """Models of `mistral`."""


class DeepSeek(metaclass=_Models):
    """Models of `deepseek`."""


class XAI(metaclass=_Models):
    """Models of `xai`."""
