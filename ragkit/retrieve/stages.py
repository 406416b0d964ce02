"""The stages of a retriever, put together in the order of its options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ragkit.retrieve.base import Parts, Reranker, Retriever
from ragkit.retrieve.context import ContextRetriever
from ragkit.retrieve.distinct import DistinctRetriever
from ragkit.retrieve.feedback import Feedback
from ragkit.retrieve.moved import Move, MovedRetriever
from ragkit.retrieve.options import RerankOptions, RewriteOptions, SearchOptions
from ragkit.retrieve.rerank import RerankedRetriever
from ragkit.retrieve.rewrite import Hypothetical, MultiQueryRetriever, Rewriter


@dataclass(frozen=True)
class Workshop:
    """Where the parts come from that hold a model or connections: made once, and kept."""

    reranker: Callable[[RerankOptions], Reranker]
    rewriter: Callable[[RewriteOptions], Rewriter]


def staged(build: Callable[[Parts], Retriever], parts: Parts, options: SearchOptions, workshop: Workshop) -> Retriever:
    """The retriever that `build` makes, with the stages that its options name.

    Rewriting and feedback decide what is searched, reranking in which order hits stand, `distinct` which of them stay,
    and `context` what they are handed on with.
    """
    found = _searching(build, parts, options, workshop)
    if options.rewrite is not None and options.rewrite.name == "multi_query":
        found = MultiQueryRetriever(found, workshop.rewriter(options.rewrite).rewrite, options.top_k)
    if options.rerank is not None:
        found = RerankedRetriever(found, workshop.reranker(options.rerank), options.rerank, options)
    if options.distinct is not None:
        found = DistinctRetriever(found, options.distinct, options.top_k)
    if options.context is not None:
        found = ContextRetriever(found, parts.passages, options.context, options.top_k)
    return found


def _searching(
    build: Callable[[Parts], Retriever], parts: Parts, options: SearchOptions, workshop: Workshop
) -> Retriever:
    """The retriever, searching from where rewriting and feedback say."""
    rewrite, feedback = options.rewrite, options.feedback
    writer = workshop.rewriter(rewrite) if rewrite is not None and rewrite.name == "hyde" else None
    if writer is None and feedback is None:
        return build(parts)

    def moves(question: str) -> list[Move]:
        found: list[Move] = []
        if writer is not None:
            found.append(Hypothetical(lambda: writer.rewrite(question), parts.embedder))
        if feedback is not None:
            found.append(Feedback(feedback))
        return found

    return MovedRetriever(build, parts, moves)
