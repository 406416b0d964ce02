"""Assemble the stages of a retriever from its options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragkit.retrieve.base import Reranker, Retriever, RetrieverDependencies
from ragkit.retrieve.context import ContextRetriever
from ragkit.retrieve.deduplication import DeduplicatingRetriever
from ragkit.retrieve.grouping import GroupingRetriever
from ragkit.retrieve.options import RerankOptions, RewriteOptions, SearchOptions
from ragkit.retrieve.query_expansion import ExpandVector, QueryExpandingRetriever
from ragkit.retrieve.rerank import RerankingRetriever

if TYPE_CHECKING:  # imports the agent, which only a `rewrite` stage needs
    from ragkit.retrieve.query_rewriting import QueryRewriter


@dataclass(frozen=True)
class StageFactory:
    """Creates the components that hold a model or connections. The caller caches them."""

    create_reranker: Callable[[RerankOptions], Reranker]
    create_rewriter: Callable[[RewriteOptions], QueryRewriter]


def build_staged_retriever(
    build: Callable[[RetrieverDependencies], Retriever],
    parts: RetrieverDependencies,
    options: SearchOptions,
    factory: StageFactory,
) -> Retriever:
    """The retriever of `build`, wrapped in the stages of its options.

    Rewriting changes the query, one passage of each group stays, reranking changes the order of the hits,
    `distinct` drops duplicates, and `context` extends the text of the hits.
    """
    retriever: Retriever = GroupingRetriever(
        lambda index: _build_first_stage(build, replace(parts, chunk_index=index), options, factory),
        parts.chunk_index,
        options.top_k,
    )
    if options.rewrite is not None and options.rewrite.name == "multi_query":
        from ragkit.retrieve.query_rewriting import MultiQueryRetriever  # noqa: PLC0415

        retriever = MultiQueryRetriever(retriever, factory.create_rewriter(options.rewrite).rewrite, options.top_k)
    if options.rerank is not None:
        retriever = RerankingRetriever(retriever, factory.create_reranker(options.rerank), options.rerank, options)
    if options.distinct is not None:
        retriever = DeduplicatingRetriever(retriever, options.distinct, options.top_k)
    if options.context is not None:
        retriever = ContextRetriever(retriever, parts.chunk_index, options.context, options.top_k)
    return retriever


def _build_first_stage(
    build: Callable[[RetrieverDependencies], Retriever],
    parts: RetrieverDependencies,
    options: SearchOptions,
    factory: StageFactory,
) -> Retriever:
    """The retriever, with the vectors of hypothetical passages if a model writes them."""
    rewrite = options.rewrite
    if rewrite is None or rewrite.name != "hyde":
        return build(parts)
    from ragkit.retrieve.query_rewriting import HydeExpander  # noqa: PLC0415

    writer = factory.create_rewriter(rewrite)

    def create_expander(question: str) -> ExpandVector:
        return HydeExpander(lambda: writer.rewrite(question), parts.embedder)

    return QueryExpandingRetriever(build, parts, create_expander)
