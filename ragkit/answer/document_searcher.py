"""Documents in a vector store as something to answer from: for scripts and tests that need no knowledge base."""

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
from ragkit.split.recursive import RecursiveOptions, RecursiveSplitter
from ragkit.split.token_index import estimate_token_starts
from ragkit.store.base import Store

DEFAULT_EMBEDDER = "minilm"
BUILD_FINGERPRINT = "collection"
"""Stands in the ids of chunks that were made here, so that they are those of no knowledge base."""


class StorePassages(InMemoryChunkIndex):
    """Chunks whose vectors are searched in a vector store; the lexical index is kept in memory."""

    def __init__(self, chunks: Sequence[Chunk], embeddings: Rows, store: Store) -> None:
        """Puts every chunk into the store, under its id."""
        super().__init__(chunks, embeddings)
        self._store = store
        self._keys = {chunk.id: key for key, chunk in enumerate(chunks)}
        documents = [Document(c.text, c.metadata, source=c.source, title=c.title, id=c.id) for c in chunks]
        if documents:
            store.add_documents(documents, embeddings)

    def search_dense(self, query: Row, top_k: int, where: Where = None) -> ScoredKeys:
        """The nearest chunks, as the store finds them; documents in it that are not ours are passed over."""
        if not self._keys:
            return []
        found = self._store.search(query, top_k, where)
        return [(self._keys[one.document.id], one.score) for one in found if one.document.id in self._keys]


class DocumentSearcher:
    """Keeps `Searcher` over some documents: split, embedded and put into a store when it is made."""

    def __init__(
        self,
        documents: Sequence[Document],
        store: Store,
        embedder: EmbeddingProvider | None = None,
        splitter: Splitter | None = None,
        top_k: int = 8,
    ) -> None:
        """Without an embedder it is the shipped one; without a splitter chunks have 200 tokens, 40 of overlap."""
        self._embedder = embedder or EMBEDDERS.find(DEFAULT_EMBEDDER)()
        self._documents = {document.source or document.id: document for document in documents}
        chunks = self._split_documents(documents, splitter or RecursiveSplitter(RecursiveOptions()))
        rows = self._embedder.embed_texts([embedding_text(chunk) for chunk in chunks])
        self._passages = StorePassages(chunks, rows, store)
        self._retriever = HybridRetriever(
            HybridOptions(top_k=top_k), RetrieverDependencies(self._passages, self._embedder)
        )

    def search(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The passages that speak of a question, best first."""
        return self._retriever.retrieve(question, top_k, where)

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """How rare each term is among the passages: (len(terms),)."""
        return self._passages.idf(terms)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit rows of some texts: (len(texts), dimension)."""
        return self._embedder.embed_texts(texts)

    def embed_question(self, question: str) -> NDArray[np.float32]:
        """The unit row of a question: (dimension,)."""
        return self._embedder.embed_query(question)

    def document(self, source: str) -> Document | None:
        """The document of a source, or of an id where it has no source."""
        return self._documents.get(source)

    def is_stale(self, source: str) -> bool:
        """Never: the documents are those that were handed over."""
        return False

    def _split_documents(self, documents: Sequence[Document], splitter: Splitter) -> list[Chunk]:
        embedder = self._embedder
        starts, most = estimate_token_starts, None
        if isinstance(embedder, TokenizingEmbedder):
            starts, most = embedder.token_starts, embedder.max_tokens
        found: list[Chunk] = []
        for document in documents:
            # text that was handed over has no source: its id stands for it in citations
            named = document if document.source else replace(document, source=document.id)
            found += build_chunks(named, splitter, starts, BUILD_FINGERPRINT, max_tokens=most)
        return found
