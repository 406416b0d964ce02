"""The options of the embedders: plain values, importable without any of their packages."""

from __future__ import annotations

from dataclasses import dataclass

from ragkit.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class MiniLMOptions:
    """How the shipped model is run. None of these changes a vector."""

    threads: int = 0
    """Texts computed side by side; 0 means one for every core this process may use."""
    token_budget: int = 256
    """Tokens that are computed in one go, at least one text. Small batches stay in the processor's cache."""

    def __post_init__(self) -> None:
        if self.threads < 0:
            raise InvalidOption("embed.threads", self.threads, "0 (every core) or a number above it")
        if self.token_budget < 1:
            raise InvalidOption("embed.token_budget", self.token_budget, ">= 1")


@dataclass(frozen=True, slots=True)
class HashingOptions:
    """How words are counted."""

    dimension: int = 256
    """Columns of every row. Fewer columns let more words fall together."""

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise InvalidOption("embed.dimension", self.dimension, ">= 1")
