"""Options of the local embedders. Importable without optional dependencies."""

from __future__ import annotations

from dataclasses import dataclass

from ragkit.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class MiniLMOptions:
    """How the bundled model runs. No option changes a vector."""

    threads: int = 0
    """Number of threads; 0: one per CPU that this process may use."""
    token_budget: int = 256
    """Maximum number of tokens per batch (at least one text). Small batches fit into the CPU cache."""

    def __post_init__(self) -> None:
        if self.threads < 0:
            raise InvalidOption("embed.threads", self.threads, "0 (one thread per CPU) or greater")
        if self.token_budget < 1:
            raise InvalidOption("embed.token_budget", self.token_budget, ">= 1")


@dataclass(frozen=True, slots=True)
class HashingOptions:
    """Options of `hashing`."""

    dimension: int = 256
    """Dimension of the vectors. A smaller dimension has more hash collisions."""

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise InvalidOption("embed.dimension", self.dimension, ">= 1")
