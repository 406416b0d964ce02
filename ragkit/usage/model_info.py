"""What is known of a model: its limits and its price. Holds no data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

ModelKind: TypeAlias = Literal["chat", "embedding", "rerank", "other"]
"""What a model is for; `other` makes pictures or speech, or has no price for text in and out."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens, and per thousand searches. None: there is no such price, or it is not known."""

    input_usd: float | None = None
    """For tokens sent, embedded, or read by a reranker."""
    output_usd: float | None = None
    """For tokens received."""
    cached_usd: float | None = None
    """For tokens that the service reads from its prompt cache; None: as `input_usd`."""
    search_usd: float | None = None
    """For a thousand searches of a reranker that charges by the search."""


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
    kind: ModelKind = "chat"

    @property
    def id(self) -> str:
        """The model's name as its service knows it: `AgentConfig(model=OpenAI.GPT_4O.id)`."""
        return self.model

    @property
    def name(self) -> str:
        """`provider:model`."""
        return f"{self.provider}:{self.model}"


def split_model_name(name: str) -> tuple[str, str]:
    """`provider:model` -> (provider, model); without a provider the first is ''."""
    provider, colon, model = name.partition(":")
    return (provider, model) if colon else ("", name)
