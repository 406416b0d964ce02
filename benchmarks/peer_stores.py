"""The programs of `peer_reliability.py`: each brings a persistent store up to date with a folder, as documented.

`sync` is what a user would run every night: it opens the store if there is one, adds what is new, replaces what
changed, and removes what is gone. `texts` lists the texts of all chunks, and `search` returns the text of the first hit
for each question. Each call runs in a process of its own, with the embedder of `seed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

DIMENSION = 64
Embed = Callable[[Sequence[str]], list[list[float]]]


def embedder(seed: int) -> Embed:
    """An embedder that hashes words to one of 64 columns; each seed makes another one of the same dimension."""

    def embed(texts: Sequence[str]) -> list[list[float]]:
        rows = np.zeros((len(texts), DIMENSION), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                hashed = crc32(f"{seed}/{word.strip('.,?!')}".encode())
                row[hashed % DIMENSION] += 1 if hashed & 1024 else -1
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        result: list[list[float]] = (rows / np.maximum(lengths, 1e-9)).tolist()
        return result

    return embed


EMBEDDERS = {seed: embedder(seed) for seed in (0, 1)}


def embed_0(texts: Sequence[str]) -> Any:
    """The first embedder, for what names functions."""
    return np.array(EMBEDDERS[0](texts), np.float32)


def embed_1(texts: Sequence[str]) -> Any:
    """The second embedder."""
    return np.array(EMBEDDERS[1](texts), np.float32)


class Ragkit:
    """`ragkit index`, `ragkit list --chunks`, `ragkit search --retriever dense`: one pipeline file, one directory."""

    modules = ("ragkit.knowledge_base.knowledge_base", "ragkit.store.backends.sqlite")

    def _open(self, store: Path, seed: int) -> Any:
        from ragkit import KnowledgeBase, Pipeline, register

        embed = EMBEDDERS[seed]

        class Hashed:
            dimension = DIMENSION
            fingerprint = f"hashed-{seed}"

            def embed_texts(self, texts: Sequence[str]) -> Any:
                return np.array(embed(texts), np.float32).reshape(-1, DIMENSION)

            def embed_query(self, text: str) -> Any:
                return self.embed_texts([text])[0]

        register("embedder", "hashed", Hashed)
        pipeline = Pipeline.from_yaml("embed: {name: hashed}\nretrieve: {name: dense}\n")
        return KnowledgeBase.open(store / "kb", pipeline)

    def sync(self, folder: Path, store: Path, seed: int) -> None:
        """Index the folder."""
        with self._open(store, seed) as kb:
            kb.index(folder)

    def texts(self, store: Path, seed: int) -> list[str]:
        """The chunks."""
        with self._open(store, seed) as kb, kb.session() as session:
            return [chunk.text for chunk in session.chunks()]

    def search(self, store: Path, questions: Sequence[str], seed: int) -> list[str]:
        """The first hits."""
        with self._open(store, seed) as kb:
            return [next((hit.text for hit in kb.search(question, 1)), "") for question in questions]


class LangChain:
    """`index()` with SQLRecordManager and `cleanup="full"` into Chroma: the guide to the indexing API."""

    modules = (
        "langchain_chroma",
        "langchain_classic.indexes",
        "langchain_community.document_loaders.directory",
        "langchain_text_splitters",
        "chromadb.api.rust",
    )

    def _open(self, store: Path, seed: int) -> Any:
        from langchain_chroma import Chroma
        from langchain_core.embeddings import Embeddings

        embed = EMBEDDERS[seed]

        class Hashed(Embeddings):  # type: ignore[misc, no-any-unimported]
            def embed_documents(self, texts: list[str]) -> list[list[float]]:
                return embed(texts)

            def embed_query(self, text: str) -> list[float]:
                return embed([text])[0]

        return Chroma("documents", Hashed(), persist_directory=str(store / "chroma"))

    def sync(self, folder: Path, store: Path, seed: int) -> None:
        """Load, split, `index()`."""
        from langchain_classic.indexes import SQLRecordManager, index
        from langchain_community.document_loaders import DirectoryLoader, TextLoader
        from langchain_text_splitters import RecursiveCharacterTextSplitter

        documents = DirectoryLoader(str(folder), loader_cls=TextLoader, loader_kwargs={"encoding": "utf-8"}).load()
        chunks = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200).split_documents(documents)
        records = SQLRecordManager("chroma/documents", db_url=f"sqlite:///{store}/records.sql")
        records.create_schema()
        index(chunks, records, self._open(store, seed), cleanup="full", source_id_key="source", key_encoder="sha256")

    def texts(self, store: Path, seed: int) -> list[str]:
        """All documents of the collection."""
        documents: list[str] = self._open(store, seed).get()["documents"]
        return documents

    def search(self, store: Path, questions: Sequence[str], seed: int) -> list[str]:
        """`similarity_search`."""
        chroma = self._open(store, seed)
        hits = [chroma.similarity_search(question, k=1) for question in questions]
        return [found[0].page_content if found else "" for found in hits]


class LlamaIndex:
    """VectorStoreIndex, `persist`, `refresh_ref_docs`: the guides to storing and to document management."""

    modules = ("llama_index.core", "llama_index.core.indices.loading", "llama_index.core.readers.file.base")

    def _open(self, store: Path, seed: int) -> Any:
        from llama_index.core import Settings, StorageContext, load_index_from_storage
        from llama_index.core.base.embeddings.base import BaseEmbedding

        embed = EMBEDDERS[seed]

        class Hashed(BaseEmbedding):  # type: ignore[misc, no-any-unimported]
            def _get_text_embedding(self, text: str) -> list[float]:
                return embed([text])[0]

            def _get_query_embedding(self, query: str) -> list[float]:
                return embed([query])[0]

            async def _aget_query_embedding(self, query: str) -> list[float]:
                return embed([query])[0]

        Settings.tokenizer = str.split  # the default is downloaded
        Settings.embed_model = Hashed(model_name=f"hashed-{seed}")
        if not (store / "storage").exists():
            return None
        return load_index_from_storage(StorageContext.from_defaults(persist_dir=str(store / "storage")))

    def sync(self, folder: Path, store: Path, seed: int) -> None:
        """Build and persist, or load, refresh, delete what is gone, and persist."""
        from llama_index.core import SimpleDirectoryReader, VectorStoreIndex

        index = self._open(store, seed)
        documents = SimpleDirectoryReader(str(folder), filename_as_id=True).load_data()
        if index is None:
            index = VectorStoreIndex.from_documents(documents)
        else:
            index.refresh_ref_docs(documents)
            for gone in set(index.ref_doc_info) - {document.doc_id for document in documents}:
                index.delete_ref_doc(gone, delete_from_docstore=True)
        index.storage_context.persist(str(store / "storage"))

    def texts(self, store: Path, seed: int) -> list[str]:
        """All nodes of the document store."""
        return [node.text for node in self._open(store, seed).docstore.docs.values()]

    def search(self, store: Path, questions: Sequence[str], seed: int) -> list[str]:
        """A retriever of one node."""
        retriever = self._open(store, seed).as_retriever(similarity_top_k=1)
        hits = [retriever.retrieve(question) for question in questions]
        return [found[0].node.text if found else "" for found in hits]


class Haystack:
    """A pipeline that writes into InMemoryDocumentStore, `save_to_disk` and `load_from_disk`."""

    modules = (
        "haystack",
        "haystack.components.converters",
        "haystack.components.preprocessors",
        "haystack.components.writers",
        "haystack.components.retrievers",
        "haystack.document_stores.in_memory",
    )

    def _open(self, store: Path) -> Any:
        from haystack.document_stores.in_memory import InMemoryDocumentStore

        path = store / "documents.json"
        if path.exists():
            return InMemoryDocumentStore.load_from_disk(str(path))
        return InMemoryDocumentStore(embedding_similarity_function="cosine")

    def sync(self, folder: Path, store: Path, seed: int) -> None:
        """Read, split, embed, write what is new, delete what is gone, save."""
        from haystack import Document, Pipeline, component
        from haystack.components.converters import TextFileToDocument
        from haystack.components.preprocessors import DocumentSplitter
        from haystack.components.writers import DocumentWriter
        from haystack.document_stores.types import DuplicatePolicy

        documents, written = self._open(store), set()

        @component
        class HashedEmbedder:
            @component.output_types(documents=list[Document])
            def run(self, documents: list[Document]) -> dict[str, Any]:  # type: ignore[no-any-unimported]
                written.update(document.id for document in documents)
                rows = EMBEDDERS[seed]([document.content for document in documents])
                return {"documents": [replace(one, embedding=row) for one, row in zip(documents, rows, strict=True)]}

            run.__annotations__["documents"] = list[Document]  # Haystack compares types, and these are strings

        pipeline = Pipeline()
        pipeline.add_component("read", TextFileToDocument())
        pipeline.add_component("split", DocumentSplitter(split_by="word", split_length=200, split_overlap=20))
        pipeline.add_component("embed", HashedEmbedder())
        pipeline.add_component("write", DocumentWriter(documents, DuplicatePolicy.OVERWRITE))
        for first, second in (("read", "split"), ("split", "embed"), ("embed", "write")):
            pipeline.connect(first, second)
        pipeline.run({"read": {"sources": sorted(folder.iterdir())}})
        documents.delete_documents([each.id for each in documents.filter_documents() if each.id not in written])
        documents.save_to_disk(str(store / "documents.json"))

    def texts(self, store: Path, seed: int) -> list[str]:
        """All documents of the store."""
        return [document.content for document in self._open(store).filter_documents()]

    def search(self, store: Path, questions: Sequence[str], seed: int) -> list[str]:
        """InMemoryEmbeddingRetriever."""
        from haystack.components.retrievers import InMemoryEmbeddingRetriever

        retriever = InMemoryEmbeddingRetriever(self._open(store), top_k=1)
        hits = [retriever.run(query_embedding=row)["documents"] for row in EMBEDDERS[seed](questions)]
        return [found[0].content if found else "" for found in hits]


class Txtai:
    """Embeddings with `content`: `load`, `upsert`, `delete`, `save`."""

    modules = ("txtai", "txtai.ann", "txtai.database", "txtai.scoring", "faiss")

    def _open(self, store: Path, seed: int) -> Any:
        from txtai import Embeddings

        embeddings = Embeddings(method="external", transform=f"benchmarks.peer_stores.embed_{seed}", content=True)
        if embeddings.exists(str(store / "index")):
            embeddings.load(str(store / "index"))
        return embeddings

    def sync(self, folder: Path, store: Path, seed: int) -> None:
        """Upsert all files, delete what is gone, save."""
        embeddings = self._open(store, seed)
        files = sorted(folder.iterdir())
        embeddings.upsert((path.name, path.read_text("utf-8")) for path in files)
        known = {row["id"] for row in embeddings.search("SELECT id FROM txtai LIMIT 100000")}
        gone = known - {path.name for path in files}
        if gone:
            embeddings.delete(sorted(gone))
        embeddings.save(str(store / "index"))

    def texts(self, store: Path, seed: int) -> list[str]:
        """All rows of the content."""
        rows = self._open(store, seed).search("SELECT text FROM txtai LIMIT 100000")
        return [row["text"] for row in rows]

    def search(self, store: Path, questions: Sequence[str], seed: int) -> list[str]:
        """`search`."""
        embeddings = self._open(store, seed)
        hits = [embeddings.search(question, 1) for question in questions]
        return [found[0]["text"] if found else "" for found in hits]


class Selectools:
    """VectorStore of SQLite, cleared and filled: its documents are not known by their source."""

    modules = ("selectools.rag", "selectools.rag.stores.sqlite", "selectools.embeddings.provider")

    def _open(self, store: Path, seed: int) -> Any:
        from selectools.embeddings.provider import EmbeddingProvider
        from selectools.rag import VectorStore

        embed = EMBEDDERS[seed]

        class Hashed(EmbeddingProvider):  # type: ignore[misc, no-any-unimported]
            def __init__(self) -> None:
                self._dimension = DIMENSION

            def embed_text(self, text: str) -> list[float]:
                return embed([text])[0]

            def embed_texts(self, texts: list[str]) -> list[list[float]]:
                return embed(texts)

            def embed_query(self, query: str) -> list[float]:
                return embed([query])[0]

        return VectorStore.create("sqlite", embedder=Hashed(), db_path=str(store / "documents.db"))

    def sync(self, folder: Path, store: Path, seed: int) -> None:
        """Load, split, clear, add: identifiers are random, so that nothing else finds what is to be replaced."""
        from selectools.rag import DocumentLoader, RecursiveTextSplitter

        documents = DocumentLoader.from_directory(str(folder), glob_pattern="*.txt")
        chunks = RecursiveTextSplitter(chunk_size=1000, chunk_overlap=200).split_documents(documents)
        opened = self._open(store, seed)
        opened.clear()
        opened.add_documents(chunks)

    def texts(self, store: Path, seed: int) -> list[str]:
        """As many hits as there are."""
        row = EMBEDDERS[seed](["all"])[0]
        return [hit.document.text for hit in self._open(store, seed).search(row, top_k=100_000)]

    def search(self, store: Path, questions: Sequence[str], seed: int) -> list[str]:
        """`search`."""
        opened = self._open(store, seed)
        hits = [opened.search(row, top_k=1) for row in EMBEDDERS[seed](questions)]
        return [found[0].document.text if found else "" for found in hits]


@dataclass(frozen=True)
class StoreProgram:
    """A program, and the distribution whose version is reported."""

    distribution: str
    program: Any

    def import_modules(self) -> None:
        """Import what the program needs, so that kills hit its work and not the imports."""
        for module in self.program.modules:
            import_module(module)


PROGRAMS = {
    "ragkit": StoreProgram("ragkit", Ragkit()),
    "LangChain, index() into Chroma": StoreProgram("langchain", LangChain()),
    "LlamaIndex, persist": StoreProgram("llama-index-core", LlamaIndex()),
    "Haystack, save_to_disk": StoreProgram("haystack-ai", Haystack()),
    "txtai, save": StoreProgram("txtai", Txtai()),
    "selectools, SQLite": StoreProgram("selectools", Selectools()),
}
