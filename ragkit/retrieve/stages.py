"""The stages of a retriever, put together in the order of its options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ragkit.retrieve.base import Reranker, Retriever, RetrieverDependencies
from ragkit.retrieve.context import ContextRetriever
from ragkit.retrieve.deduplication import DeduplicatingRetriever
from ragkit.retrieve.options import RerankOptions, RewriteOptions, SearchOptions
from ragkit.retrieve.query_expansion import QueryExpander, QueryExpandingRetriever
from ragkit.retrieve.query_rewriting import HydeExpander, MultiQueryRetriever, QueryRewriter
from ragkit.retrieve.relevance_feedback import PseudoRelevanceFeedback
from ragkit.retrieve.rerank import RerankingRetriever


@dataclass(frozen=True)
class StageFactory:
    """Where the parts come from that hold a model or connections: made once, and kept."""

    create_reranker: Callable[[RerankOptions], Reranker]
    create_rewriter: Callable[[RewriteOptions], QueryRewriter]


def build_staged_retriever(
    build: Callable[[RetrieverDependencies], Retriever],
    parts: RetrieverDependencies,
    options: SearchOptions,
    workshop: StageFactory,
) -> Retriever:
    """The retriever that `build` makes, with the stages that its options name.

    Rewriting and feedback decide what is searched, reranking in which order hits stand, `distinct` which of them stay,
    and `context` what they are handed on with.
    """
    found = _build_first_stage(build, parts, options, workshop)
    if options.rewrite is not None and options.rewrite.name == "multi_query":
        found = MultiQueryRetriever(found, workshop.create_rewriter(options.rewrite).rewrite, options.top_k)
    if options.rerank is not None:
        found = RerankingRetriever(found, workshop.create_reranker(options.rerank), options.rerank, options)
    if options.distinct is not None:
        found = DeduplicatingRetriever(found, options.distinct, options.top_k)
    if options.context is not None:
        found = ContextRetriever(found, parts.chunk_index, options.context, options.top_k)
    return found


def _build_first_stage(
    build: Callable[[RetrieverDependencies], Retriever],
    parts: RetrieverDependencies,
    options: SearchOptions,
    workshop: StageFactory,
) -> Retriever:
    """The retriever, searching from where rewriting and feedback say."""
    rewrite, feedback = options.rewrite, options.feedback
    writer = workshop.create_rewriter(rewrite) if rewrite is not None and rewrite.name == "hyde" else None
    if writer is None and feedback is None:
        return build(parts)

    def moves(question: str) -> list[QueryExpander]:
        found: list[QueryExpander] = []
        if writer is not None:
            found.append(HydeExpander(lambda: writer.rewrite(question), parts.embedder))
        if feedback is not None:
            found.append(PseudoRelevanceFeedback(feedback))
        return found

    return QueryExpandingRetriever(build, parts, moves)
