"""Records of the limits and prices of models, without the data."""

from __future__ import annotations

from dataclasses import dataclass, fields
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
class ModelInfo(str):
    """Limits and price of a model. It is the model's name, too: `AgentConfig(model=OpenAI.GPT_4O)`."""

    provider: str
    model: str
    context_window: int | None = None
    """Maximum input tokens; None: unknown."""
    max_output_tokens: int | None = None
    """Maximum output tokens; None: unknown."""
    price: Price = Price()
    """The base price, without tiers and discounts."""
    kind: ModelKind = "chat"

    def __new__(cls, provider: str, model: str, *_: object, **__: object) -> ModelInfo:
        """The text is the model's name at its service."""
        return str.__new__(cls, model)

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # for copies: the arguments of `__new__`
        return self.provider, self.model

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ModelInfo):
            return all(getattr(self, part.name) == getattr(other, part.name) for part in fields(self))
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)

    @property
    def id(self) -> str:
        """The model's name at its service."""
        return self.model

    @property
    def name(self) -> str:
        """`provider:model`."""
        return f"{self.provider}:{self.model}"


def split_model_name(name: str) -> tuple[str, str]:
    """Split `provider:model` into (provider, model); the provider is '' if there is none."""
    provider, colon, model = name.partition(":")
    return (provider, model) if colon else ("", name)
