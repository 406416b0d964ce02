"""A `Searcher` over documents in a vector store, for scripts and tests without a knowledge base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ragkit.embed import EMBEDDERS
from ragkit.embed.base import EmbeddingProvider, Row, Rows, TokenizingEmbedder
from ragkit.records import Chunk, Document, Hit
from ragkit.retrieve.base import RetrieverDependencies, ScoredKeys, Where
from ragkit.retrieve.hybrid import HybridRetriever
from ragkit.retrieve.in_memory_index import InMemoryChunkIndex
from ragkit.retrieve.options import HybridOptions
from ragkit.split.base import Splitter
from ragkit.split.chunks import build_chunks, embedding_text
from ragkit.split.options import RecursiveOptions
from ragkit.split.recursive import RecursiveSplitter
from ragkit.split.token_index import estimate_token_starts
from ragkit.store.base import Store

DEFAULT_EMBEDDER = "minilm"
BUILD_FINGERPRINT = "collection"
"""Part of the chunk ids, so that they differ from those of every knowledge base."""


class StorePassages(InMemoryChunkIndex):
    """Chunks with their vectors in a vector store and the lexical index in memory."""

    def __init__(self, chunks: Sequence[Chunk], embeddings: Rows, store: Store) -> None:
        """Add every chunk to the store, under its id."""
        super().__init__(chunks, embeddings)
        self._store = store
        self._keys = {chunk.id: key for key, chunk in enumerate(chunks)}
        documents = [Document(c.text, c.metadata, source=c.source, title=c.title, id=c.id) for c in chunks]
        if documents:
            store.add_documents(documents, embeddings)

    def search_dense(self, query: Row, top_k: int, where: Where = None) -> ScoredKeys:
        """The nearest chunks in the store; its other documents are skipped."""
        depth = top_k
        while self._keys:
            results = self._store.search(query, depth, where)
            own = [(self._keys[r.document.id], r.score) for r in results if r.document.id in self._keys]
            if len(own) >= min(top_k, len(self._keys)) or len(results) < depth:
                return own[:top_k]
            depth *= 4
        return []


class DocumentSearcher:
    """A `Searcher` over documents, which are split, embedded and added to a store on construction."""

    def __init__(
        self,
        documents: Sequence[Document],
        store: Store,
        embedder: EmbeddingProvider | None = None,
        splitter: Splitter | None = None,
        top_k: int = 8,
    ) -> None:
        """The default embedder is minilm; the default splitter makes chunks of 200 tokens with an overlap of 40."""
        self._embedder = embedder or EMBEDDERS.find(DEFAULT_EMBEDDER)()
        self._documents = {document.source or document.id: document for document in documents}
        chunks = self._split_documents(documents, splitter or RecursiveSplitter(RecursiveOptions()))
        rows = self._embedder.embed_texts([embedding_text(chunk) for chunk in chunks])
        self._passages = StorePassages(chunks, rows, store)
        dependencies = RetrieverDependencies(self._passages, self._embedder)
        self._retriever = HybridRetriever(HybridOptions(top_k=top_k), dependencies)

    def search(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The passages relevant to a question, best first."""
        return self._retriever.retrieve(question, top_k, where)

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """Inverse document frequency of each term: (len(terms),), > 0."""
        return self._passages.idf(terms)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings of length 1: (len(texts), dimension)."""
        return self._embedder.embed_texts(texts)

    def embed_question(self, question: str) -> NDArray[np.float32]:
        """The embedding of a question, of length 1: (dimension,)."""
        return self._embedder.embed_query(question)

    def document(self, source: str) -> Document | None:
        """The document of a source, or of an id if it has no source."""
        return self._documents.get(source)

    def is_stale(self, source: str) -> bool:
        """Always False: the documents live in memory."""
        return False

    def _split_documents(self, documents: Sequence[Document], splitter: Splitter) -> list[Chunk]:
        embedder = self._embedder
        token_starts, max_tokens = estimate_token_starts, None
        if isinstance(embedder, TokenizingEmbedder):
            token_starts, max_tokens = embedder.token_starts, embedder.max_tokens
        chunks: list[Chunk] = []
        for document in documents:
            # citations need a source: a document without one is cited by its id
            named = document if document.source else replace(document, source=document.id)
            chunks += build_chunks(named, splitter, token_starts, BUILD_FINGERPRINT, max_tokens=max_tokens)
        return chunks
