"""The store `qdrant`: a collection of a Qdrant server, or of the engine embedded in this process.

Filters are pushed down as tokens and number ranges. What those cannot express (the order of strings, numbers beyond
float64) is decided by the reference evaluator. The package of an engine is imported only if it is used.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import InvalidOption, MissingExtra
from ragkit.records import Document, SearchResult
from ragkit.store.backends.adapter_utils import (
    batches,
    collect_top_k,
    deduplicate_by_id,
    document_from_json,
    document_to_json,
    escape_text,
    expected_dimension,
)
from ragkit.store.backends.qdrant_engine import DOCUMENT_KEY, NAME_KEY, NUMBER_PREFIX, Payload, QdrantEngine
from ragkit.store.base import (
    Filter,
    Rows,
    validate_documents,
    validate_ids,
    validate_query,
    validate_rows,
    validate_stored_dimension,
    validate_top_k,
)
from ragkit.store.filters.language import parse_filter
from ragkit.store.filters.pushdown import to_condition
from ragkit.store.filters.tokens import to_token_columns
from ragkit.store.options import QdrantOptions
from ragkit.store.read_write_lock import ReadWriteLock
from ragkit.store.vector_store import VectorStore

if not find_spec("qdrant_client") or not find_spec("qdrant_edge"):
    raise MissingExtra("the store 'qdrant'", extra="qdrant")

MAX_INDEXED_FIELDS = 24
"""Maximum number of payload indexes; filters on other fields scan the payloads."""
_UUID_NAMESPACE = uuid.UUID("7a1c86f4-4e54-5d0e-9a5f-3f0b0c8a2f5e")
_SCAN_ROWS = 256


class QdrantStore(VectorStore):
    """Documents and vectors in a Qdrant collection. Safe for several threads.

    A directory of the embedded engine can be open in one process at a time. A server may be shared. A call of
    `add_documents` is atomic for readers in this process, but not in others.
    """

    persistent = True

    def __init__(self, options: QdrantOptions) -> None:
        """Open the directory, or connect to the server.

        Raises:
            DimensionMismatch: the stored vectors have another dimension.
            InvalidOption: neither `path` nor `url` is set.
            KnowledgeBaseLocked: another process has the directory open.
            StoreError: the server cannot be reached, or the collection was not created by this store.
        """
        if not str(options.path) and not options.url:
            raise InvalidOption("path", "", "set, or the option `url`")
        self._options = options
        self._lock = ReadWriteLock()
        self._engine = _create_engine(options)
        self._dimension = 0
        self._indexed_fields: set[str] = set()
        try:
            stored = self._load_dimension()
            if stored and self._engine.count():
                validate_stored_dimension(stored, options.dimension)
        except BaseException:
            self._engine.close()
            raise

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """See `Store.add_documents`."""
        if not documents:
            return []
        with self._lock.write():
            rows = validate_rows(embeddings, len(documents), self._expected_dimension(np.shape(embeddings)))
            unique, unique_rows = deduplicate_by_id(validate_documents(documents), rows)
            payloads = [_to_payload(document) for document in unique]
            self._ensure_collection(rows.shape[1])
            self._create_indexes(payloads)
            self._engine.upsert([_point_id(document.id) for document in unique], unique_rows, payloads)
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """See `Store.search`; approximate with the method `hnsw`."""
        node = parse_filter(filter)
        condition = to_condition(node)
        top_k = validate_top_k(top_k)
        with self._lock.read():
            query = validate_query(query_embedding, self._expected_dimension(np.shape(query_embedding)))
            if self._dimension != len(query) or condition is False:
                return []

            def fetch(limit: int) -> list[SearchResult]:
                return [
                    SearchResult(document_from_json(text), score)
                    for text, score in self._engine.search(query, limit, condition)
                ]

            return collect_top_k(fetch, node, top_k, partial(self._exact_scores, query.astype(np.float64)))

    def delete(self, ids: Sequence[str]) -> int:
        """See `Store.delete`."""
        keys = [_point_id(name) for name in validate_ids(ids)]
        with self._lock.write():
            if not self._load_dimension():
                return 0
            removed = 0
            for batch in batches(keys, _SCAN_ROWS):
                existing = self._engine.filter_existing(batch)
                if existing:
                    self._engine.delete(existing)
                removed += len(existing)
        return removed

    def clear(self) -> None:
        """See `Store.clear`."""
        with self._lock.write():
            if self._load_dimension():
                self._engine.delete_all()

    def count(self) -> int:
        """See `Store.count`."""
        with self._lock.read():
            return self._engine.count() if self._load_dimension() else 0

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """See `Store.scan`. The ids are read at the first step; documents deleted later are skipped."""
        with self._lock.read():
            keys = [key for _, key in sorted(self._engine.scroll_names())] if self._load_dimension() else []
        for batch in batches(keys, _SCAN_ROWS):
            with self._lock.read():
                documents = [(document_from_json(text), row) for text, row in self._engine.retrieve(batch)]
            for document, row in sorted(documents, key=lambda pair: pair[0].id):
                yield document.id, document, np.array(row, np.float32)

    def close(self) -> None:
        """See `Store.close`."""
        with self._lock.write():
            self._engine.close()

    def _exact_scores(self, query: NDArray[np.float64], documents: Sequence[Document]) -> list[float]:
        """Exact scores; -1 for documents that another client has deleted."""
        points = self._engine.retrieve([_point_id(document.id) for document in documents])
        scores = {document_from_json(text).id: float((np.array(row, np.float32) * query).sum()) for text, row in points}
        return [scores.get(document.id, -1.0) for document in documents]

    def _load_dimension(self) -> int:
        """The dimension of the collection; 0 if there is none. Another process may create it at any time."""
        if not self._dimension:
            self._dimension = self._engine.dimension()
            self._indexed_fields = self._engine.indexed_fields() if self._dimension else set()
        return self._dimension

    def _expected_dimension(self, shape: tuple[int, ...]) -> int | None:
        stored = self._load_dimension()
        return expected_dimension(stored, shape, lambda: not self._engine.count(), self._options.dimension)

    def _ensure_collection(self, dimension: int) -> None:
        """Create the collection, or replace an empty one of another dimension."""
        if self._dimension != dimension:
            self._engine.drop()
            self._engine.create(dimension)
            self._dimension, self._indexed_fields = dimension, set()

    def _create_indexes(self, payloads: Sequence[Payload]) -> None:
        for name in dict.fromkeys(name for payload in payloads for name in payload):
            if (
                name in self._indexed_fields | {DOCUMENT_KEY, NAME_KEY}
                or len(self._indexed_fields) >= MAX_INDEXED_FIELDS
            ):
                continue
            self._engine.create_index(name, "float" if name.startswith(NUMBER_PREFIX) else "keyword")
            self._indexed_fields.add(name)


def _to_payload(document: Document) -> Payload:
    payload: dict[str, str | Sequence[str] | Sequence[float]] = {
        NAME_KEY: escape_text(document.id),
        DOCUMENT_KEY: document_to_json(document),
    }
    for name, column in to_token_columns(document.metadata).items():
        payload[name] = column.tokens
        if column.numbers:
            payload[NUMBER_PREFIX + name] = column.numbers
    return payload


def _point_id(name: str) -> str:
    """A UUID for an id: Qdrant allows only UUIDs and integers."""
    return str(uuid.uuid5(_UUID_NAMESPACE, escape_text(name)))


def _create_engine(options: QdrantOptions) -> QdrantEngine:
    # imported here: importing the client takes a second, and the embedded engine does not need it
    if options.url:
        from ragkit.store.backends.qdrant_server import QdrantServerEngine  # noqa: PLC0415

        return QdrantServerEngine(options)
    from ragkit.store.backends.qdrant_embedded import QdrantEmbeddedEngine  # noqa: PLC0415

    return QdrantEmbeddedEngine(options)
