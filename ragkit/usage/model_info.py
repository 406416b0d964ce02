"""Records of the limits and prices of models, without the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

ModelKind: TypeAlias = Literal["chat", "embedding", "rerank", "other"]
"""`other`: image or speech models, and models without a price for input and output text."""
MIN_CONTEXT_WINDOW = 512
"""Tokens of the smallest context window that can be set."""


@dataclass(frozen=True, slots=True)
class Price:
    """Prices in US dollars per million tokens, or per thousand searches. None: not applicable or unknown."""

    input_usd: float | None = None
    """Per million tokens sent, embedded or reranked."""
    output_usd: float | None = None
    """Per million tokens received."""
    cached_usd: float | None = None
    """Per million tokens read from the service's prompt cache; None: `input_usd`."""
    search_usd: float | None = None
    """Per thousand searches, for rerankers that charge per search."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Limits and price of a model."""

    provider: str
    model: str
    context_window: int | None = None
    """Maximum input tokens; None: unknown."""
    max_output_tokens: int | None = None
    """Maximum output tokens; None: unknown."""
    price: Price = Price()
    """The base price, without tiers and discounts."""
    kind: ModelKind = "chat"

    @property
    def id(self) -> str:
        """The model's name at its service: `AgentConfig(model=OpenAI.GPT_4O.id)`."""
        return self.model

    @property
    def name(self) -> str:
        """`provider:model`."""
        return f"{self.provider}:{self.model}"


def split_model_name(name: str) -> tuple[str, str]:
    """Split `provider:model` into (provider, model); the provider is '' if there is none."""
    provider, colon, model = name.partition(":")
    return (provider, model) if colon else ("", name)
