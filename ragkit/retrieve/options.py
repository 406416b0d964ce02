"""The options of each retriever and of its stages: importable without what these need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ragkit.errors import InvalidOption
from ragkit.retrieve import RERANKERS

FusionMethod = Literal["convex", "rrf"]
RewriteMethod = Literal["multi_query", "hyde"]
ContextMethod = Literal["neighbours", "parent"]


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
            raise InvalidOption("rerank.candidates", self.candidates, "an integer >= 1")
        for name in ("weight", "diversity"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise InvalidOption(f"rerank.{name}", value, "between 0 and 1")


@dataclass(frozen=True)
class FeedbackOptions:
    """The first passages are taken for good ones: the search goes on with their words and towards their meaning."""

    passages: int = 5
    """How many of the first passages are taken for good ones, by words and by meaning each."""
    terms: int = 10
    """How many of their terms are searched too."""
    weight: float = 0.2
    """What they count beside the question, in [0, 1)."""

    def __post_init__(self) -> None:
        for name in ("passages", "terms"):
            if getattr(self, name) < 1:
                raise InvalidOption(f"feedback.{name}", getattr(self, name), "an integer >= 1")
        if not 0 <= self.weight < 1:
            raise InvalidOption("feedback.weight", self.weight, "a number from 0 to below 1")


@dataclass(frozen=True)
class RewriteOptions:
    """A model writes the question anew before it is searched. It is asked once for each question."""

    name: RewriteMethod = "multi_query"
    """`multi_query` asks in other words too; `hyde` searches for what an answer might look like."""
    provider: str = "auto"
    """Who writes: a provider, or `provider:model`; `auto` takes the first one whose key is set."""
    number: int = 3
    """How many questions beside the user's own, or how many supposed answers."""
    max_cost_usd: float | None = 0.01
    """US dollars that the rewriting of one question may cost; null sets no limit."""

    def __post_init__(self) -> None:
        if self.name not in get_args(RewriteMethod):
            raise InvalidOption("rewrite.name", self.name, " or ".join(map(repr, get_args(RewriteMethod))))
        if not self.provider.partition(":")[0] or self.provider == "extractive":
            raise InvalidOption("rewrite.provider", self.provider, "auto, a provider or provider:model")
        if not 1 <= self.number <= 10:
            raise InvalidOption("rewrite.number", self.number, "a whole number from 1 to 10")
        if self.max_cost_usd is not None and not self.max_cost_usd >= 0:
            raise InvalidOption("rewrite.max_cost_usd", self.max_cost_usd, ">= 0 (US dollars) or null")


@dataclass(frozen=True)
class DistinctOptions:
    """Hits that say what a better one says are left out."""

    likeness: float = 0.8
    """The share of its runs of three words that a hit may have in common with a better one, above 0 to 1."""

    def __post_init__(self) -> None:
        if not 0 < self.likeness <= 1:
            raise InvalidOption("distinct.likeness", self.likeness, "a number above 0, up to 1")


@dataclass(frozen=True)
class ContextOptions:
    """A hit is handed on with what stands around it in its document."""

    name: ContextMethod = "neighbours"
    """`neighbours`: the chunks before and behind it; `parent`: the row of chunks under one heading that it is of."""
    chunks: int | None = None
    """`neighbours`: how many on either side, null: 1; `parent`: how many make up a parent, null: 4."""

    def __post_init__(self) -> None:
        if self.name not in get_args(ContextMethod):
            raise InvalidOption("context.name", self.name, " or ".join(map(repr, get_args(ContextMethod))))
        if self.chunks is not None and self.chunks < 1:
            raise InvalidOption("context.chunks", self.chunks, "a whole number from 1, or null,")

    @property
    def chunk_count(self) -> int:
        """How many chunks."""
        if self.chunks is not None:
            return self.chunks
        return 1 if self.name == "neighbours" else 4


@dataclass(frozen=True)
class SearchOptions:
    """Options of every retriever, in the order in which they take effect."""

    top_k: int = 8
    """How many hits at most."""
    rewrite: RewriteOptions | None = None
    """How a model writes the question anew; null: not at all."""
    feedback: FeedbackOptions | None = None
    """How the first passages change what is searched; null: not at all."""
    rerank: RerankOptions | None = None
    """How the first hits are ranked once more; null: not at all."""
    distinct: DistinctOptions | None = None
    """Which hits are left out as duplicates; null: none."""
    context: ContextOptions | None = None
    """What a hit is handed on with; null: its own chunk."""

    def __post_init__(self) -> None:
        validate_top_k(self.top_k)


@dataclass(frozen=True)
class LexicalOptions(SearchOptions):
    """Options of `lexical`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rewrite is not None and self.rewrite.name == "hyde":
            raise InvalidOption("rewrite.name", "hyde", "'multi_query' (`lexical` knows no meanings)")


@dataclass(frozen=True)
class DenseOptions(SearchOptions):
    """Options of `dense`."""

    min_score: float | None = None
    """The least cosine of a hit, in [-1, 1]; None lets all through."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_score is not None and not -1 <= self.min_score <= 1:
            raise InvalidOption("min_score", self.min_score, "a number from -1 to 1, or none")


@dataclass(frozen=True)
class HybridOptions(SearchOptions):
    """Options of `hybrid`."""

    dense_weight: float = 0.55
    """The weight of the cosines, in [0, 1]; BM25 has the rest. 0.5 to 0.6 hardly differ. Only for `convex`."""
    candidates: int = 100
    """How many chunks each retriever proposes, unless more hits are asked for."""
    fusion: FusionMethod = "convex"
    """`convex` weighs normalised scores, `rrf` (reciprocal rank fusion) counts ranks alone."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.dense_weight <= 1:
            raise InvalidOption("dense_weight", self.dense_weight, "between 0 and 1")
        if self.candidates < 1:
            raise InvalidOption("candidates", self.candidates, "an integer >= 1")
        if self.fusion not in get_args(FusionMethod):
            raise InvalidOption("fusion", self.fusion, " or ".join(get_args(FusionMethod)))


def validate_top_k(top_k: int) -> int:
    """`top_k` itself. Raises InvalidOption when it is less than 1."""
    if top_k < 1:
        raise InvalidOption("top_k", top_k, "an integer >= 1")
    return top_k
