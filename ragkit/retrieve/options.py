"""The options of each retriever: importable without what the retriever itself needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ragkit.errors import InvalidOption

Fusion = Literal["convex", "rrf"]


@dataclass(frozen=True)
class LexicalOptions:
    """Options of `lexical`."""

    top_k: int = 8
    """How many hits at most."""

    def __post_init__(self) -> None:
        checked_top_k(self.top_k)


@dataclass(frozen=True)
class DenseOptions:
    """Options of `dense`."""

    top_k: int = 8
    """How many hits at most."""
    min_score: float | None = None
    """The least cosine of a hit, in [-1, 1]; None lets all through."""

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
