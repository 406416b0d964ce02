"""A `Searcher` over documents in a vector store, for scripts and tests without a knowledge base."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ragkit.answer.score_calibration import ScoreCalibration, measure_calibration
from ragkit.embed import EMBEDDERS
from ragkit.embed.base import EmbeddingProvider, Row, Rows, TokenizingEmbedder, embed_query, embed_texts
from ragkit.errors import DimensionMismatch, StoreError
from ragkit.records import Chunk, Document, Hit, SearchMode, Where, content_id, metadata_key
from ragkit.retrieve.base import Retriever, RetrieverDependencies, ScoredKeys
from ragkit.retrieve.dense import DenseRetriever
from ragkit.retrieve.hybrid import HybridRetriever
from ragkit.retrieve.in_memory_index import InMemoryChunkIndex
from ragkit.retrieve.lexical import LexicalRetriever
from ragkit.retrieve.options import DenseOptions, HybridOptions, LexicalOptions
from ragkit.split.base import Splitter
from ragkit.split.chunks import build_chunks, embedding_text
from ragkit.split.options import RecursiveOptions
from ragkit.split.places import first_line, resolve_place, shift_lines, slice_place
from ragkit.split.recursive import RecursiveSplitter
from ragkit.split.token_index import estimate_token_starts
from ragkit.store.base import Store, missing_methods

DEFAULT_EMBEDDER = "minilm"
BUILD_FINGERPRINT = "collection"
"""Part of the chunk ids, so that they differ from those of every knowledge base."""


class StorePassages(InMemoryChunkIndex):
    """Chunks whose vectors are in a vector store, with their lexical index in memory."""

    def __init__(self, chunks: Sequence[Chunk], embeddings: Rows, store: Store) -> None:
        """The store holds every chunk under its id."""
        super().__init__(chunks, embeddings)
        self._store = store
        self._keys = {chunk.id: key for key, chunk in enumerate(chunks)}

    def find_chunk(self, chunk_id: str) -> Chunk | None:
        """The chunk with this id, or None."""
        key = self._keys.get(chunk_id)
        return None if key is None else self._chunks[key]

    def search_dense(self, query: Row, top_k: int, where: Where = None, question: str = "") -> ScoredKeys:
        """The nearest chunks in the store; documents that were added to it since are skipped."""
        depth = top_k
        while self._keys:
            results = self._store.search(query, depth, where)
            own = [(self._keys[r.document.id], r.score) for r in results if r.document.id in self._keys]
            if len(own) >= min(top_k, len(self._keys)) or len(results) < depth:
                return own[:top_k]
            depth *= 4
        return []


class DocumentSearcher:
    """A `Searcher` over everything in a vector store. On construction, documents are split, embedded and added to it.

    Texts and vectors are also kept in memory: for a large store, use a knowledge base.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        store: Store,
        embedder: EmbeddingProvider | None = None,
        splitter: Splitter | None = None,
        top_k: int = 8,
    ) -> None:
        """The default embedder is minilm; the default splitter makes chunks of 200 tokens with an overlap of 40.

        What the store holds already must have been embedded by the same embedder.

        Raises:
            StoreError: there are no documents, and the class of the store has no `count` and `scan` to read others.
        """
        self._embedder = embedder or EMBEDDERS.find(DEFAULT_EMBEDDER)()
        self._store = store
        self._top_k = top_k
        self._can_scan = not {"count", "scan"}.intersection(missing_methods(type(store)))
        if not documents and not self._can_scan:
            name = type(store).__name__
            raise StoreError(f"{name} cannot list its documents: implement `count` and `scan`, or pass the documents")
        placed = map(_with_source, documents)
        self._documents = {document.id: document for document in placed}
        self._chunks = self._split_documents(splitter or RecursiveSplitter(RecursiveOptions()))
        self._rows = embed_texts(self._embedder, [embedding_text(chunk) for chunk in self._chunks])
        if self._chunks:
            store.add_documents([_to_stored(chunk, self._documents) for chunk in self._chunks], self._rows)
        self._lock = Lock()
        self._calibration: ScoreCalibration | None = None
        self._stored_count = -1
        self._passages = StorePassages(self._chunks, self._rows, store)

    def session(self) -> AbstractContextManager[DocumentSearcher]:
        """Itself."""
        return nullcontext(self)

    def search(
        self, question: str, top_k: int | None = None, where: Where = None, mode: SearchMode | None = None
    ) -> list[Hit]:
        """The passages relevant to a question, best first. The default mode is hybrid."""
        return self._create_retriever(mode).retrieve(question, top_k, where)

    def term_weights(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """Inverse document frequency of each term: (len(terms),), > 0."""
        return self._current_passages().idf(terms)

    def missing_terms(self, terms: Sequence[str]) -> list[str]:
        """Those of the terms that no chunk contains."""
        return self._current_passages().missing_terms(terms)

    def find_terms(self, prefixes: Sequence[str]) -> dict[str, int]:
        """The terms that begin with one of the prefixes, each with the number of chunks that contain it."""
        return self._current_passages().find_terms(prefixes)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings of length 1: (len(texts), dimension)."""
        return embed_texts(self._embedder, texts)

    def embed_question(self, question: str) -> NDArray[np.float32]:
        """The embedding of a question, of length 1: (dimension,)."""
        return embed_query(self._embedder, question)

    def calibration(self) -> ScoreCalibration:
        """The score calibration of the embedder; the first call embeds a few texts."""
        with self._lock:  # concurrent first runs calibrate once
            if self._calibration is None:
                self._calibration = measure_calibration(self.embed)
            return self._calibration

    def find_document(self, document_id: str) -> Document | None:
        """The document with this id, or None."""
        return self._documents.get(document_id)

    def chunk(self, chunk_id: str) -> Chunk | None:
        """The chunk with this id, or None."""
        return self._current_passages().find_chunk(chunk_id)

    def first_chunk(self, document_id: str) -> Chunk | None:
        """The chunk at the beginning of one of the documents passed to this searcher, or None."""
        chunks = (chunk for chunk in self._chunks if chunk.document_id == document_id)
        return min(chunks, key=lambda chunk: chunk.start, default=None)

    def is_stale(self, source: str) -> bool:
        """Always False: the documents live in memory."""
        return False

    def describe_contents(self, where: Where = None) -> str:
        """Nothing: it does not know what the documents are about."""
        return ""

    def _create_retriever(self, mode: SearchMode | None) -> Retriever:
        dependencies = RetrieverDependencies(self._current_passages(), self._embedder)
        if mode == "dense":
            return DenseRetriever(DenseOptions(self._top_k), dependencies)
        if mode == "lexical":
            return LexicalRetriever(LexicalOptions(self._top_k), dependencies)
        return HybridRetriever(HybridOptions(self._top_k), dependencies)

    def _current_passages(self) -> StorePassages:
        """The passages of everything in the store; read again when the number of its documents has changed."""
        with self._lock:
            if self._can_scan and (count := self._store.count()) != self._stored_count:
                self._passages = self._read_store()
                self._stored_count = count
            return self._passages

    def _read_store(self) -> StorePassages:
        stored = {name: (document, row) for name, document, row in self._store.scan()}
        # a service may list new documents a little late: at first, one's own count as stored
        keep = [i for i, chunk in enumerate(self._chunks) if self._stored_count < 0 or chunk.id in stored]
        own = [self._chunks[i] for i in keep]
        for chunk in own:
            stored.pop(chunk.id, None)
        others = [_with_source(document) for document, _ in stored.values()]
        self._documents |= {document.id: document for document in others}
        rows = self._rows[keep]
        if stored:
            found = np.stack([row for _, row in stored.values()])
            if found.shape[1] != self._embedder.dimension:
                raise DimensionMismatch(self._embedder.dimension, found.shape[1])
            rows = np.concatenate([rows, found])
        return StorePassages([*own, *map(_whole_chunk, others)], rows, self._store)

    def _split_documents(self, splitter: Splitter) -> list[Chunk]:
        embedder = self._embedder
        token_starts, max_tokens = estimate_token_starts, None
        if isinstance(embedder, TokenizingEmbedder):
            token_starts, max_tokens = embedder.token_starts, embedder.max_tokens
        chunks: dict[str, Chunk] = {}
        for document in self._documents.values():
            # equal texts with different metadata are different chunks
            metadata = document.metadata
            recipe = content_id(BUILD_FINGERPRINT, metadata_key(metadata)) if metadata else BUILD_FINGERPRINT
            for chunk in build_chunks(document, splitter, token_starts, recipe, max_tokens=max_tokens):
                chunks[chunk.id] = shift_lines(chunk, first_line(document))
        return list(chunks.values())


def _with_source(document: Document) -> Document:
    """The document with its place; without a source it is cited by its id."""
    placed = resolve_place(document)
    return placed if placed.source else replace(placed, source=document.id)


def _to_stored(chunk: Chunk, documents: dict[str, Document]) -> Document:
    """A chunk as a document of the store, with its place, so that it can be cited without its whole document."""
    pages, headings = slice_place(documents[chunk.document_id], chunk.start, chunk.end)
    metadata = {**chunk.metadata, "start_line": chunk.start_line} if chunk.start_line > 1 else chunk.metadata
    return Document(chunk.text, metadata, chunk.source, chunk.title, pages, headings, id=chunk.id)


def _whole_chunk(document: Document) -> Chunk:
    """A stored document as one chunk."""
    line = first_line(document)
    return Chunk(
        document.id,
        document.id,
        document.source,
        document.text,
        0,
        len(document.text),
        line,
        line + document.text.count("\n"),
        document.page_at(0),
        document.heading_path_at(0),
        document.title,
        document.metadata,
    )
