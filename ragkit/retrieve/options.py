"""Options of the retrievers and their stages. Importable without optional dependencies."""

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
    """Reranking of the first hits of a retriever. A reranker ignores options that it does not use."""

    name: str = "sentences"
    """`sentences` (the shipped embedder over sentences), `cohere`, `jina`, `cross_encoder`, `gguf`, `onnx`, or
    `mmr` (diversity alone)."""
    candidates: int = 20
    """Number of hits to rerank; the remaining ones keep their order."""
    weight: float | None = None
    """Weight of the reranker's score, in [0, 1]; null: 0.75 for `sentences`, 1 for `cohere`, `jina`,
    `cross_encoder`, `gguf` and `onnx`."""
    diversity: float | None = None
    """Penalty for similarity with higher hits, in [0, 1]; null: 0.3 for `mmr`, 0 for the others."""
    model: str = ""
    """The model of `cohere`, `jina` or `cross_encoder`; empty: its default. For `onnx`: a folder with an exported
    cross-encoder."""
    path: str = ""
    """The file of `gguf`."""
    device: str = ""
    """Device of a `cross_encoder`: `cpu`, `cuda`; empty: the best available."""

    def __post_init__(self) -> None:
        if self.name not in RERANKERS.names():
            raise InvalidOption("rerank.name", self.name, f"one of {', '.join(RERANKERS.names())}")
        if self.candidates < 1:
            raise InvalidOption("rerank.candidates", self.candidates, "an integer >= 1")
        for name in ("weight", "diversity"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise InvalidOption(f"rerank.{name}", value, "between 0 and 1")


@dataclass(frozen=True)
class RewriteOptions:
    """Query rewriting by a language model: one request per question."""

    name: RewriteMethod = "multi_query"
    """`multi_query` adds alternative wordings; `hyde` searches with hypothetical answers."""
    provider: str = "auto"
    """The model: a provider, or `provider:model`; `auto` selects the first provider whose API key is set."""
    number: int = 3
    """Number of alternative wordings or hypothetical answers."""
    max_cost_usd: float | None = 0.01
    """Cost limit in US dollars per question; null: no limit."""

    def __post_init__(self) -> None:
        if self.name not in get_args(RewriteMethod):
            raise InvalidOption("rewrite.name", self.name, f"one of {', '.join(get_args(RewriteMethod))}")
        if not self.provider.partition(":")[0] or self.provider == "extractive":
            raise InvalidOption("rewrite.provider", self.provider, "'auto', a provider, or provider:model")
        if not 1 <= self.number <= 10:
            raise InvalidOption("rewrite.number", self.number, "an integer between 1 and 10")
        if self.max_cost_usd is not None and not self.max_cost_usd >= 0:
            raise InvalidOption("rewrite.max_cost_usd", self.max_cost_usd, ">= 0 (US dollars) or null")


@dataclass(frozen=True)
class DistinctOptions:
    """Removal of near-duplicate hits."""

    likeness: float = 0.8
    """Share of common three-word shingles from which a hit is a duplicate of a higher one, in (0, 1]."""

    def __post_init__(self) -> None:
        if not 0 < self.likeness <= 1:
            raise InvalidOption("distinct.likeness", self.likeness, "> 0 and <= 1")


@dataclass(frozen=True)
class ContextOptions:
    """Extension of hits with the surrounding text of their document."""

    name: ContextMethod = "neighbours"
    """`neighbours`: the chunks before and after it; `parent`: its group of chunks under the same heading."""
    chunks: int | None = None
    """`neighbours`: chunks on each side, null: 1; `parent`: chunks per parent, null: 4."""

    def __post_init__(self) -> None:
        if self.name not in get_args(ContextMethod):
            raise InvalidOption("context.name", self.name, f"one of {', '.join(get_args(ContextMethod))}")
        if self.chunks is not None and self.chunks < 1:
            raise InvalidOption("context.chunks", self.chunks, "an integer >= 1, or null")

    @property
    def chunk_count(self) -> int:
        """`chunks`, or its default."""
        if self.chunks is not None:
            return self.chunks
        return 1 if self.name == "neighbours" else 4


@dataclass(frozen=True)
class SearchOptions:
    """Options of every retriever, in the order in which they take effect."""

    top_k: int = 8
    """Maximum number of hits."""
    rewrite: RewriteOptions | None = None
    """Query rewriting; null: off."""
    rerank: RerankOptions | None = None
    """Reranking; null: off."""
    distinct: DistinctOptions | None = None
    """Removal of near-duplicates; null: off."""
    context: ContextOptions | None = None
    """Extension of hits with context; null: off."""

    def __post_init__(self) -> None:
        validate_top_k(self.top_k)


@dataclass(frozen=True)
class LexicalOptions(SearchOptions):
    """Options of `lexical`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rewrite is not None and self.rewrite.name == "hyde":
            raise InvalidOption("rewrite.name", "hyde", "'multi_query', since 'lexical' uses no vectors")


@dataclass(frozen=True)
class DenseOptions(SearchOptions):
    """Options of `dense`."""

    min_score: float | None = None
    """Minimum cosine of a hit, in [-1, 1]; null: no minimum."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_score is not None and not -1 <= self.min_score <= 1:
            raise InvalidOption("min_score", self.min_score, "between -1 and 1, or null")


@dataclass(frozen=True)
class HybridOptions(SearchOptions):
    """Options of `hybrid`."""

    dense_weight: float | None = None
    """Weight of the cosines, in [0, 1]; BM25 has the rest. Null: 0.55; 0.75 for `multilingual`; 0.001 if the question
    is in a script that the embedder was not trained for, 0.3 if in another language. Only for `convex`."""
    document_weight: float = 0.6
    """Weight of the names, titles, periods and versions of documents, >= 0; 0: they do not count. Only for `convex`."""
    hops: int | None = None
    """1: one search; 2: a second one with the names that the first passages add and the words that they lack; null: 2
    if the question describes one thing by another (`the mayor of the town that ...`). Only for `convex`."""
    candidates: int = 100
    """Candidates per retriever; at least `top_k`."""
    fusion: FusionMethod = "convex"
    """`convex`: weighted mean of normalized scores; `rrf`: reciprocal rank fusion."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dense_weight is not None and not 0 <= self.dense_weight <= 1:
            raise InvalidOption("dense_weight", self.dense_weight, "between 0 and 1, or null")
        if not self.document_weight >= 0:
            raise InvalidOption("document_weight", self.document_weight, ">= 0")
        if self.hops not in (None, 1, 2):
            raise InvalidOption("hops", self.hops, "1, 2 or null")
        if self.hops == 2 and self.fusion != "convex":
            raise InvalidOption("hops", 2, "1 or null, since 'rrf' has no second hop")
        if self.candidates < 1:
            raise InvalidOption("candidates", self.candidates, "an integer >= 1")
        if self.fusion not in get_args(FusionMethod):
            raise InvalidOption("fusion", self.fusion, f"one of {', '.join(get_args(FusionMethod))}")


def validate_top_k(top_k: int) -> int:
    """Return `top_k`. Raises InvalidOption if it is less than 1."""
    if top_k < 1:
        raise InvalidOption("top_k", top_k, "an integer >= 1")
    return top_k
