"""Agents and search tools over documents, files, folders and filled vector stores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import ToolCall
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.answer.agent import RAGAgent, RAGOptions
from ragkit.answer.passages import TOOL_NAME
from ragkit.answer.searchers.document_searcher import DocumentSearcher
from ragkit.answer.tool import NOTHING_FOUND, RAGTool, SemanticSearchTool
from ragkit.embed.base import Row, Rows
from ragkit.embed.hashing import HashingEmbedder
from ragkit.embed.minilm import MiniLM
from ragkit.embed.options import HashingOptions
from ragkit.errors import DimensionMismatch, InvalidOption, LoadError, StoreError
from ragkit.load.document_loader import DocumentLoader
from ragkit.records import JSON, Document, SearchResult
from ragkit.split.text_splitters import RecursiveTextSplitter
from ragkit.store.backends.memory import MemoryStore
from ragkit.store.base import Filter
from ragkit.store.vector_store import VectorStore
from ragkit.usage.limits import Limits
from ragkit.usage.meter import Meter, MeteredCall, record_embedding, use_meter

HEDGE = "The hedge is cut in August."
TOPICS = [
    HEDGE,
    "Quarterly revenue rose by nine percent.",
    "The orchestra tunes to the oboe.",
    "Bread rises for an hour.",
]


class PricedEmbedder(HashingEmbedder):
    """Reports a token a text, at a cent each."""

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        if texts:
            record_embedding("tiny", len(texts), 0.01 * len(texts), provider="acme")
        return super().embed_texts(texts)

    def embed_query(self, text: str) -> Row:
        return HashingEmbedder().embed_query(text)


def fill(*texts: str) -> MemoryStore:
    """A store with these texts."""
    store = MemoryStore()
    documents = [Document(text, {"n": n}, id=f"d{n}") for n, text in enumerate(texts)]
    store.add_documents(documents, HashingEmbedder().embed_texts(texts))
    return store


def scripted(*answers: str) -> ScriptedProvider:
    """Searches once, then answers."""
    return ScriptedProvider([turn for text in answers for turn in (ToolCall(TOOL_NAME, {"query": "hedge"}), text)])


class Lists:
    """An embedder of a program: returns lists, has no tokenizer, and says the service that it asks."""

    dimension, fingerprint, provider = 64, "lists", "openai"

    def embed_texts(self, texts: Sequence[str]) -> list[list[float]]:
        assert texts
        rows: list[list[float]] = HashingEmbedder(HashingOptions(dimension=64)).embed_texts(texts).tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        return self.embed_texts([text])[0]


class LocalLists(Lists):
    provider = "local"


class MeteredLists(Lists):
    def embed_texts(self, texts: Sequence[str]) -> list[list[float]]:
        record_embedding("lists", 10, 0.25, provider=self.provider)
        return super().embed_texts(texts)


# embedders of programs


@pytest.mark.parametrize(("kind", "has_cost"), [(Lists, None), (LocalLists, False), (MeteredLists, True)])
def test_an_embedder_of_a_program_may_return_lists_and_its_cost_is_never_taken_for_zero(
    kind: type[Any], has_cost: bool | None
) -> None:
    agent = RAGAgent.from_documents([Document(HEDGE)], scripted("In August [1]."), embedder=kind())
    answer = agent.ask("When is the hedge cut?")
    assert answer.citations[0].verified
    cost = answer.usage.embedding_cost_usd
    assert has_cost is (None if cost is None else cost > 0)
    assert answer.usage.total_cost_usd == cost


def test_an_embedder_that_returns_lists_searches_a_filled_store() -> None:
    store = MemoryStore()
    store.add_documents([Document(HEDGE, id="d0")], np.array(Lists().embed_texts([HEDGE]), np.float32))
    assert HEDGE in RAGTool(store, Lists()).search_knowledge_base("hedge").content  # type: ignore[arg-type]  # lists


# thresholds


@pytest.mark.parametrize("documents", [1, 4])
def test_a_passage_passes_the_threshold_by_its_cosine_however_many_others_there_are(documents: int) -> None:
    searcher = DocumentSearcher([Document(text) for text in TOPICS[:documents]], MemoryStore(), MiniLM())
    tool = RAGTool(searcher, top_k=10, score_threshold=0.5)
    assert tool.search_knowledge_base(HEDGE).content.partition("\n")[2] == HEDGE
    assert tool.search_knowledge_base("Who won the chess tournament?").content == NOTHING_FOUND


def test_a_passage_that_was_found_by_its_words_alone_is_measured_by_its_cosine_too() -> None:
    searcher = DocumentSearcher([Document(HEDGE)], MemoryStore(), HashingEmbedder())

    class Words(DocumentSearcher):
        def __init__(self) -> None:
            self.__dict__ |= vars(searcher)

        def search(self, question, top_k=None, where=None, mode=None):  # type: ignore[no-untyped-def]
            return searcher.search(question, top_k, where, "lexical")

    cosine = float(searcher.embed([HEDGE])[0] @ searcher.embed_question("hedge"))
    assert HEDGE in RAGTool(Words(), score_threshold=cosine - 0.01).search_knowledge_base("hedge").content
    assert RAGTool(Words(), score_threshold=cosine + 0.01).search_knowledge_base("hedge").content == NOTHING_FOUND


# filled stores


def test_a_filled_store_and_its_embedder_make_a_search_tool() -> None:
    for tool in (RAGTool, SemanticSearchTool):
        found = tool(fill(*TOPICS), HashingEmbedder(), top_k=1).search_knowledge_base("hedge in August", where="n < 2")
        assert found.content == f"[1] (d0, line 1)\n{HEDGE}"


def test_a_semantic_search_tool_searches_documents() -> None:
    searcher = DocumentSearcher([Document(text) for text in TOPICS], MemoryStore(), HashingEmbedder())
    assert HEDGE in SemanticSearchTool(searcher, top_k=1).search_knowledge_base("hedge").content


def test_an_agent_without_documents_searches_what_is_in_its_store() -> None:
    agent = RAGAgent.from_documents([], scripted("In August [1]."), fill(*TOPICS), embedder=HashingEmbedder())
    [citation] = agent.ask("When is the hedge cut?").citations
    assert (citation.source, citation.quote, citation.verified) == ("d0", HEDGE, True)


def test_documents_that_are_added_to_or_deleted_from_the_store_later_are_noticed() -> None:
    embedder, store = HashingEmbedder(), MemoryStore()
    searcher = DocumentSearcher([Document("The boiler is swept in May.", id="boiler")], store, embedder)
    store.add_documents([Document(HEDGE, id="hedge")], embedder.embed_texts([HEDGE]))
    assert searcher.search("hedge")[0].text == HEDGE
    store.clear()
    assert searcher.search("hedge") == []


def test_a_store_with_vectors_of_another_width_is_refused() -> None:
    searcher = DocumentSearcher([], fill(HEDGE), HashingEmbedder(HashingOptions(dimension=64)))
    with pytest.raises(DimensionMismatch, match="64"):
        searcher.search("hedge")


class FourMethods(VectorStore):
    """A store with the four methods of the documents alone."""

    def __init__(self) -> None:
        self.inner = MemoryStore()

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        return self.inner.add_documents(documents, embeddings)

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        return self.inner.search(query_embedding, top_k, filter)

    def delete(self, ids: Sequence[str]) -> int:
        return self.inner.delete(ids)

    def clear(self) -> None:
        self.inner.clear()


def test_a_store_that_cannot_list_its_documents_needs_the_documents() -> None:
    searcher = DocumentSearcher([Document(HEDGE)], FourMethods(), HashingEmbedder())
    assert [hit.text for hit in searcher.search("hedge")] == [HEDGE]
    with pytest.raises(StoreError, match="FourMethods cannot list its documents: implement `count` and `scan`"):
        DocumentSearcher([], FourMethods(), HashingEmbedder())


# places


def test_a_document_is_cited_by_the_place_in_its_metadata() -> None:
    metadata: dict[str, JSON] = {"source": "manual.pdf", "page": 3, "heading": "Garden", "start_line": 40}
    agent = RAGAgent.from_documents([Document(HEDGE, metadata)], scripted("[1]"), embedder=HashingEmbedder())
    [citation] = agent.ask("When is the hedge cut?").citations
    assert (citation.source, citation.page, citation.heading) == ("manual.pdf", 3, ("Garden",))
    assert (citation.start_line, citation.quote, citation.verified) == (40, HEDGE, True)


@pytest.mark.parametrize("source", ["", "manual.pdf"])
def test_two_documents_of_one_text_and_different_metadata_stay_two(source: str) -> None:
    documents = [Document(HEDGE, {"page": page}, source=source) for page in (3, 7)]
    store = MemoryStore()
    hits = DocumentSearcher(documents, store, HashingEmbedder()).search("hedge")
    assert store.count() == 2
    assert sorted(hit.chunk.page or 0 for hit in hits) == [3, 7]
    assert len({hit.chunk.id for hit in hits}) == 2


def test_documents_that_were_split_by_hand_are_cited_by_page_line_and_heading_also_from_a_store_alone() -> None:
    text = "\n".join(f"Sentence {n} is about topic {n}." for n in range(40))
    pdf = DocumentLoader.from_text(text, {"source": "manual.pdf"})[0]
    pages = Document(text, pdf.metadata, page_starts=(0, text.index("Sentence 20")))
    store = MemoryStore()
    parts = RecursiveTextSplitter(120, 0).split_documents([pages])
    DocumentSearcher(parts, store, HashingEmbedder())
    for searcher in (DocumentSearcher(parts, store, HashingEmbedder()), DocumentSearcher([], store, HashingEmbedder())):
        agent = RAGAgent(searcher, scripted("Sentence 31 is about topic 31 [1]."))
        hit = next(hit for hit in searcher.search("topic 31", 50) if "topic 31." in hit.text)
        assert (hit.source, hit.chunk.page) == ("manual.pdf", 2)
        line = hit.chunk.start_line + hit.text.split("\n").index("Sentence 31 is about topic 31.")
        assert line == 32
        [citation] = agent.ask("hedge").citations
        assert (citation.source, citation.verified) == ("manual.pdf", True)


# the constructors


def test_building_an_agent_costs_what_it_embeds_and_its_first_run_has_that_in_its_usage() -> None:
    calls: list[MeteredCall] = []
    config = AgentConfig(on_call=calls.append, limits=Limits(max_cost_usd=0.05))
    documents = [Document(text) for text in (*TOPICS, "Salt.", "Pepper.")]
    with use_meter(Meter()) as outer:
        agent = RAGAgent.from_documents(documents, scripted("a", "b"), embedder=PricedEmbedder(), config=config)
        built = sum(call.usage.embedding_tokens for call in calls)
        first, second = agent.run("one"), agent.run("two")
    assert calls[0].usage.embedding_tokens == 6
    assert (first.usage.embedding_tokens, second.usage.embedding_tokens) == (built, 0)
    assert first.usage.total_cost_usd == pytest.approx(0.01 * built)
    assert outer.usage().embedding_tokens == sum(call.usage.embedding_tokens for call in calls) == built


def test_a_folder_is_read_with_a_glob_a_chunk_size_a_memory_and_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Word " * 100)
    (tmp_path / "b.txt").write_text(HEDGE)
    memory, store = ConversationMemory(), MemoryStore()
    agent = RAGAgent.from_directory(
        tmp_path,
        scripted("one", "two"),
        store,
        embedder=HashingEmbedder(),
        config=AgentConfig(max_iterations=2),
        options=RAGOptions(top_k=1, chunk_size=20, chunk_overlap=0, glob="*.md", memory=memory),
    )
    agent.run("hello")
    assert {document.source for _, document, _ in store.scan()} == {str(tmp_path / "a.md")}
    assert store.count() == 5
    assert (len(memory), agent.config.max_iterations) == (4, 2)


def test_files_are_read_with_the_same_options(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Word " * 100)
    store = MemoryStore()
    options = RAGOptions(chunk_size=50, chunk_overlap=0)
    RAGAgent.from_files([tmp_path / "a.md"], None, store, embedder=HashingEmbedder(), options=options)
    assert store.count() == 3


def test_a_folder_without_matching_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"contains no readable file that matches \*\*/\*"):
        RAGAgent.from_directory(tmp_path)
    with pytest.raises(InvalidOption, match="paths must be a list of at least one path"):
        RAGAgent.from_files([])
