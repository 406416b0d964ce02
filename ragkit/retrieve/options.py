"""The options of each retriever: importable without what the retriever itself needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ragkit.errors import InvalidOption
from ragkit.retrieve import RERANKERS

Fusion = Literal["convex", "rrf"]


@dataclass(frozen=True)
class RerankOptions:
    """How the first hits of a retriever are ranked once more. What a reranker has no use for it passes over."""

    name: str = "sentences"
    """`sentences` (the shipped embedder over sentences), `cohere`, `cross_encoder`, or `mmr` (diversity alone)."""
    candidates: int = 20
    """How many of the first hits are looked at; those behind them keep their order."""
    weight: float | None = None
    """The reranker's share of the score, in [0, 1]; null: 0.75 for `sentences`, 1 for `cohere` and `cross_encoder`."""
    diversity: float | None = None
    """How much a hit loses by being like those above it, in [0, 1]; null: 0.3 for `mmr`, 0 for the others."""
    model: str = ""
    """The model of `cohere` or `cross_encoder`; empty: its default."""
    device: str = ""
    """Where a `cross_encoder` runs: `cpu`, `cuda`; empty: the best there is."""

    def __post_init__(self) -> None:
        if self.name not in RERANKERS.names():
            raise InvalidOption("rerank.name", self.name, " or ".join(map(repr, RERANKERS.names())))
        if self.candidates < 1:
            raise InvalidOption("rerank.candidates", self.candidates, "a whole number from 1")
        for name in ("weight", "diversity"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise InvalidOption(f"rerank.{name}", value, "a number from 0 to 1")


@dataclass(frozen=True)
class LexicalOptions:
    """Options of `lexical`."""

    top_k: int = 8
    """How many hits at most."""
    rerank: RerankOptions | None = None
    """How the first hits are ranked once more; null: not at all."""

    def __post_init__(self) -> None:
        checked_top_k(self.top_k)


@dataclass(frozen=True)
class DenseOptions:
    """Options of `dense`."""

    top_k: int = 8
    """How many hits at most."""
    min_score: float | None = None
    """The least cosine of a hit, in [-1, 1]; None lets all through."""
    rerank: RerankOptions | None = None
    """How the first hits are ranked once more; null: not at all."""

    def __post_init__(self) -> None:
        checked_top_k(self.top_k)
        if self.min_score is not None and not -1 <= self.min_score <= 1:
            raise InvalidOption("min_score", self.min_score, "a number from -1 to 1, or none")


@dataclass(frozen=True)
class HybridOptions:
    """Options of `hybrid`."""

    top_k: int = 8
    """How many hits at most."""
    dense_weight: float = 0.55
    """The weight of the cosines, in [0, 1]; BM25 has the rest. 0.5 to 0.6 hardly differ. Only for `convex`."""
    candidates: int = 100
    """How many chunks each retriever proposes, unless more hits are asked for."""
    fusion: Fusion = "convex"
    """`convex` weighs normalised scores, `rrf` (reciprocal rank fusion) counts ranks alone."""
    rerank: RerankOptions | None = None
    """How the first hits are ranked once more; null: not at all."""

    def __post_init__(self) -> None:
        checked_top_k(self.top_k)
        if not 0 <= self.dense_weight <= 1:
            raise InvalidOption("dense_weight", self.dense_weight, "a number from 0 to 1")
        if self.candidates < 1:
            raise InvalidOption("candidates", self.candidates, "a whole number from 1")
        if self.fusion not in get_args(Fusion):
            raise InvalidOption("fusion", self.fusion, " or ".join(get_args(Fusion)))


def checked_top_k(top_k: int) -> int:
    """`top_k` itself. Raises InvalidOption when it is less than 1."""
    if top_k < 1:
        raise InvalidOption("top_k", top_k, "a whole number from 1")
    return top_k
