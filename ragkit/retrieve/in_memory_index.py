"""An in-memory index over a list of chunks, for retrieval without a knowledge base."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from threading import Lock
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from ragkit.embed.base import Row, Rows
from ragkit.lexical.analyzer import extract_terms
from ragkit.lexical.base import NO_EXTRA_TERMS, Bm25Scores, ExtraTerms
from ragkit.lexical.bm25_index import Bm25Index
from ragkit.lexical.document_fields import (
    DOCUMENT_BOOST,
    NO_DOCUMENTS,
    DocumentFields,
    document_terms,
    find_named_documents,
)
from ragkit.lexical.near_duplicates import Passage
from ragkit.records import Chunk, ChunkSpan, Where
from ragkit.retrieve.base import ScoredKeys
from ragkit.store.base import validate_rows
from ragkit.store.filters.language import evaluate, parse_filter
from ragkit.store.native.exact_search import find_nearest


class InMemoryChunkIndex:
    """A `ChunkIndex`; the key of a chunk is its list index. Thread-safe."""

    def __init__(self, chunks: Sequence[Chunk], embeddings: Rows, texts: Mapping[str, str] | None = None) -> None:
        """Index chunks by header and text.

        Args:
            chunks: in any order.
            embeddings: their unit vectors, (len(chunks), dimension).
            texts: document id -> text; chunks of other documents have no context.

        Raises:
            InvalidVector: `embeddings` does not hold one unit vector per chunk.
        """
        self._chunks = list(chunks)
        self._texts = dict(texts or {})
        self._chunk_spans: dict[str, list[ChunkSpan]] = {}
        for chunk in sorted(self._chunks, key=lambda chunk: chunk.start) if texts else ():
            self._chunk_spans.setdefault(chunk.document_id, []).append(ChunkSpan(chunk.start, chunk.end, chunk.heading))
        self._matrix = validate_rows(embeddings, len(self._chunks), None)
        self._lock = Lock()
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        finalize(self, connection.close)
        self._bm25_index = Bm25Index(connection)
        connection.execute("BEGIN")
        self._bm25_index.create_tables()
        terms = [extract_terms(f"{chunk.header}\n{chunk.text}") for chunk in self._chunks]
        self._bm25_index.add(range(len(self._chunks)), terms)
        self._document_index = Bm25Index(connection, "documents")
        self._document_index.create_tables()
        first = {chunk.document_id: chunk for chunk in reversed(self._chunks)}
        numbers = {document_id: number for number, document_id in enumerate(first)}
        self._document_keys = np.array([numbers[chunk.document_id] for chunk in self._chunks], np.int64)
        fields = [_document_terms(chunk, self._texts) for chunk in first.values()]
        self._document_index.add(range(len(first)), fields)
        connection.execute("COMMIT")
        self._last_named = ("", NO_DOCUMENTS)

    def search_terms(
        self, terms: Sequence[str], top_k: int, where: Where = None, extra: ExtraTerms = NO_EXTRA_TERMS
    ) -> ScoredKeys:
        """The best chunks for these terms by BM25."""
        mask = self._filter_mask(where)
        with self._lock:
            return self._bm25_index.search(terms, top_k, None if mask is None else lambda keys: mask[keys], extra)

    def search_documents(self, question: str, terms: Sequence[str], top_k: int, where: Where = None) -> ScoredKeys:
        """The best chunks of the documents that the question names."""
        boosts = DOCUMENT_BOOST * self.document_scores(question, range(len(self._chunks)))
        mask = self._filter_mask(where)
        named = boosts > 0 if mask is None else (boosts > 0) & mask
        if not named.any():
            return []
        with self._lock:
            found = self._bm25_index.search(terms, top_k, lambda keys: named[keys], boosts=lambda keys: boosts[keys])
        return [(key, score + float(boosts[key])) for key, score in found]

    def document_scores(self, question: str, keys: Sequence[int]) -> Bm25Scores:
        """How well the question names the documents of these chunks: (len(keys),)."""
        with self._lock:
            if self._last_named[0] != question:
                self._last_named = (question, find_named_documents(self._document_index, question))
            named = self._last_named[1]
        return named.scores_of(self._document_keys[np.asarray(keys, np.int64)])

    def term_scores(self, terms: Sequence[str], keys: Sequence[int], extra: ExtraTerms = NO_EXTRA_TERMS) -> Bm25Scores:
        """BM25 scores of these chunks: (len(keys),)."""
        with self._lock:
            return self._bm25_index.scores(terms, keys, extra)

    def idf(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """Inverse document frequency of each term: (len(terms),)."""
        with self._lock:
            return self._bm25_index.idf(terms)

    def missing_terms(self, terms: Sequence[str]) -> list[str]:
        """Those of the terms that no chunk contains."""
        with self._lock:
            return self._bm25_index.missing_terms(terms)

    def find_terms(self, prefixes: Sequence[str]) -> dict[str, int]:
        """The terms that begin with one of the prefixes, each with the number of chunks that contain it."""
        with self._lock:
            return self._bm25_index.find_terms(prefixes)

    def search_dense(self, query: Row, top_k: int, where: Where = None, question: str = "") -> ScoredKeys:
        """The chunks nearest to a unit vector, by exact search."""
        mask = self._filter_mask(where)
        keys, scores = find_nearest(self._matrix, query, top_k, None if mask is None else np.flatnonzero(mask))
        return list(zip(keys.tolist(), scores.tolist(), strict=True))

    def cosines(self, query: Row, keys: Sequence[int]) -> NDArray[np.float32]:
        """Cosine of a unit vector with each of these chunks: (len(keys),)."""
        return np.asarray(self._matrix[np.asarray(keys, np.int64)] @ query, np.float32)

    def embeddings(self, keys: Sequence[int]) -> Rows:
        """The unit vectors of these chunks: (len(keys), dimension)."""
        return np.asarray(self._matrix[np.asarray(keys, np.int64)], np.float32)

    def chunks(self, keys: Sequence[int]) -> list[Chunk]:
        """These chunks, in the order of `keys`."""
        return [self._chunks[key] for key in keys]

    def chunk_spans(self, chunk: Chunk) -> list[ChunkSpan]:
        """The spans of all chunks of the chunk's document, by start."""
        return self._chunk_spans.get(chunk.document_id, []) if chunk.document_id in self._texts else []

    def document_text(self, chunk: Chunk) -> str:
        """The complete text of the chunk's document."""
        return self._texts[chunk.document_id]

    def has_groups(self) -> bool:
        """False: nothing is grouped in memory."""
        return False

    def find_passages(self, chunk_ids: Sequence[str]) -> list[Passage]:
        """No chunk."""
        return []

    def group_sources(self, group: int, limit: int, where: Where = None) -> list[str]:
        """No source."""
        return []

    def without_copies(self) -> InMemoryChunkIndex:
        """This index."""
        return self

    def _filter_mask(self, where: Where) -> NDArray[np.bool_] | None:
        if not where:
            return None
        condition = parse_filter(where)
        return np.array([evaluate(condition, chunk.metadata) for chunk in self._chunks], np.bool_)


def _document_terms(first: Chunk, texts: Mapping[str, str]) -> list[str]:
    """The field terms of the document of this chunk, its first one."""
    opening = texts.get(first.document_id, first.text)
    return document_terms(DocumentFields(first.source, first.title, first.metadata, opening))
