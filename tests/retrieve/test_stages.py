"""The contract of every retriever with every stage. Names added to RETRIEVERS are tested automatically."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import cast

import numpy as np
import pytest

from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.embed.base import normalize_rows
from ragkit.embed.minilm import MiniLM
from ragkit.errors import InvalidOption
from ragkit.records import Chunk
from ragkit.retrieve import RETRIEVERS
from ragkit.retrieve.base import Retriever, RetrieverDependencies
from ragkit.retrieve.context import ContextRetriever
from ragkit.retrieve.deduplication import DeduplicatingRetriever
from ragkit.retrieve.grouping import GroupingRetriever
from ragkit.retrieve.in_memory_index import InMemoryChunkIndex
from ragkit.retrieve.options import ContextOptions, DistinctOptions, RerankOptions, RewriteOptions, SearchOptions
from ragkit.retrieve.query_rewriting import MultiQueryRetriever, QueryRewriter
from ragkit.retrieve.rerank import MmrReranker, RerankingRetriever
from ragkit.retrieve.stages import StageFactory, build_staged_retriever
from tests.retrieve.passages import Compass

SENTENCES = [f"The wing number {n} was bent{', and bent again' * (n % 3)}." for n in range(12)]
STAGES: dict[str, dict[str, object]] = {
    "plain": {},
    "multi_query": {"rewrite": RewriteOptions()},
    "hyde": {"rewrite": RewriteOptions("hyde")},
    "rerank": {"rerank": RerankOptions("mmr", candidates=4)},
    "distinct": {"distinct": DistinctOptions(0.99)},
    "neighbours": {"context": ContextOptions()},
    "parent": {"context": ContextOptions("parent")},
    "all": {
        "rewrite": RewriteOptions(),
        "rerank": RerankOptions("mmr"),
        "distinct": DistinctOptions(),
        "context": ContextOptions("parent", 2),
    },
}


def document(number: int) -> list[Chunk]:
    """One document of twelve sentences, one chunk each."""
    chunks, text = list[Chunk](), "\n".join(SENTENCES)
    for sentence in SENTENCES:
        start = text.index(sentence)
        line = text.count("\n", 0, start) + 1
        chunks.append(
            Chunk(f"{number}-{line}", str(number), f"{number}.txt", sentence, start, start + len(sentence), line, line,
                  metadata={"number": number})
        )  # fmt: skip
    return chunks


EVERY = [
    (name, stage)
    for name in sorted(RETRIEVERS.specs)
    for stage in STAGES
    if (name, stage) != ("lexical", "hyde")  # `lexical` rejects it
]


@pytest.fixture(params=EVERY, ids=[f"{name}, {stage}" for name, stage in EVERY])
def retriever(request: pytest.FixtureRequest) -> Retriever:
    return create_retriever(request.param[0], options_of(*request.param))


@pytest.fixture(params=sorted(RETRIEVERS.specs))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def options_of(name: str, stage: str) -> SearchOptions:
    expected = RETRIEVERS.options_class(name)
    assert expected is not None
    assert issubclass(expected, SearchOptions)
    return expected(**STAGES[stage])  # type: ignore[arg-type]  # of many kinds


def create_retriever(name: str, options: SearchOptions) -> Retriever:
    chunks = [*document(1), *document(2)]
    chance = np.random.default_rng(0)
    texts = {number: "\n".join(SENTENCES) for number in "12"}
    passages = InMemoryChunkIndex(
        chunks, normalize_rows(chance.normal(size=(len(chunks), 2)).astype(np.float32)), texts
    )
    build = cast("Callable[[object, RetrieverDependencies], Retriever]", RETRIEVERS.find(name))
    workshop = StageFactory(
        lambda chosen: MmrReranker(chosen, MiniLM()),
        lambda chosen: QueryRewriter(chosen, ScriptedProvider(["the bent wing\na wing that was bent"] * 9)),
    )
    return build_staged_retriever(
        lambda parts: build(options, parts), RetrieverDependencies(passages, Compass({})), options, workshop
    )


QUESTION = "Which wing was bent again?"


def test_hits_are_ranked_from_1_and_distinct(retriever: Retriever) -> None:
    hits = retriever.retrieve(QUESTION)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert len({hit.chunk.id for hit in hits}) == len(hits)
    assert 1 <= len(hits) <= 8


def test_a_smaller_top_k_returns_the_first_hits_of_a_larger_one(retriever: Retriever) -> None:
    more = retriever.retrieve(QUESTION, 5)
    assert [hit.chunk.id for hit in retriever.retrieve(QUESTION, 1)] == [more[0].chunk.id]


def test_texts_match_their_document_at_offsets_and_lines(retriever: Retriever) -> None:
    whole = "\n".join(SENTENCES)
    for hit in retriever.retrieve(QUESTION):
        chunk = hit.chunk
        assert whole[chunk.start : chunk.end] == chunk.text
        assert (chunk.start_line, chunk.end_line) == (
            whole.count("\n", 0, chunk.start) + 1,
            whole.count("\n", 0, chunk.end - 1) + 1,
        )


def test_only_chunks_that_match_the_filter_are_found(retriever: Retriever) -> None:
    hits = retriever.retrieve(QUESTION, 24, {"number": 2})
    assert {hit.chunk.source for hit in hits} == {"2.txt"}


def test_explanations_are_those_of_the_hits(retriever: Retriever) -> None:
    results = retriever.explain(QUESTION, 5)
    assert [item.hit for item in results] == retriever.retrieve(QUESTION, 5)
    assert [sum(item.contributions.values()) for item in results] == pytest.approx([item.hit.score for item in results])


def test_a_blank_question_finds_nothing_and_top_k_below_1_is_rejected(retriever: Retriever) -> None:
    assert retriever.retrieve(" \n") == []
    with pytest.raises(InvalidOption, match="top_k must be an integer >= 1"):
        retriever.retrieve(QUESTION, 0)


def test_texts_of_extended_hits_do_not_overlap(name: str) -> None:
    for stage in ("neighbours", "parent", "all"):
        options = options_of(name, stage)
        spans = sorted(
            (hit.chunk.source, hit.chunk.start, hit.chunk.end)
            for hit in create_retriever(name, options).retrieve(QUESTION, 24)
        )
        assert all(item[0] != other[0] or item[2] <= other[1] for item, other in pairwise(spans))


def test_stages_are_applied_in_the_order_of_the_options() -> None:
    options = options_of("hybrid", "all")
    order, inner = [], create_retriever("hybrid", options)
    while hasattr(inner, "_inner"):
        order.append(type(inner))
        inner = inner._inner
    assert order == [
        ContextRetriever,
        DeduplicatingRetriever,
        RerankingRetriever,
        MultiQueryRetriever,
        GroupingRetriever,
    ]
    assert type(create_retriever("hybrid", replace(options, context=None, distinct=None))) is RerankingRetriever
