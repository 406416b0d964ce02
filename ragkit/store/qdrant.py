"""The store in Qdrant: a server, or the same engine embedded in this process.

Filters are pushed down as tokens and ranges; what those cannot say (the order of strings, numbers that are no
float64) is fetched over and looked at again. Neither engine's package is imported before it is chosen.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from ragkit.errors import DimensionMismatch, InvalidOption, MissingExtra
from ragkit.records import Document, SearchResult
from ragkit.store.base import Filter, Rows, checked_documents, checked_ids, checked_query, checked_rows, checked_top_k
from ragkit.store.facade import VectorStore
from ragkit.store.filters import parse_filter
from ragkit.store.portable import Found, complete, document_of, document_text, last_of_each, runs, storable
from ragkit.store.pushdown import condition_of
from ragkit.store.qdrant_points import DOCUMENT, NAME, NUMBERS, Payload, Points
from ragkit.store.server_options import QdrantOptions
from ragkit.store.shared_lock import SharedLock
from ragkit.store.tokens import columns_of

if not find_spec("qdrant_client") or not find_spec("qdrant_edge"):
    raise MissingExtra("the store 'qdrant'", extra="qdrant")

MAX_INDEXED = 24
"""So many fields get an index of the engine's; filters on more are answered by looking at every payload."""
_NAMESPACE = uuid.UUID("7a1c86f4-4e54-5d0e-9a5f-3f0b0c8a2f5e")
_SCAN_ROWS = 256


class QdrantStore(VectorStore):
    """Documents and rows in a collection of Qdrant. Safe for several threads.

    The embedded engine keeps its directory to itself: one process at a time. A server may be used by many, and sees
    a call of `add_documents` piece by piece; within this process it is seen as a whole.
    """

    persistent = True

    def __init__(self, options: QdrantOptions) -> None:
        """Open the directory, or look at the server's collection.

        Raises:
            DimensionMismatch: the collection holds rows of another width than the options say.
            Locked: another process has the directory open.
            StoreError: the server cannot be reached, or the collection is not one of this store.
        """
        if not str(options.path) and not options.url:
            raise InvalidOption("path", "", "a directory, or the `url` of a server,")
        self._options = options
        self._lock = SharedLock()
        self._points = _engine(options)
        self._dimension = 0
        self._indexed: set[str] = set()
        try:
            here = self._width()
            if here and options.dimension not in {None, here} and self._points.count():
                raise DimensionMismatch(options.dimension or 0, here)
        except BaseException:
            self._points.close()
            raise

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """As `Store.add_documents` says."""
        if not documents:
            return []
        with self._lock.alone():
            rows = checked_rows(embeddings, len(documents), self._wanted(np.shape(embeddings)))
            kept, kept_rows = last_of_each(checked_documents(documents), rows)
            payloads = [_payload(document) for document in kept]
            self._lay_out(rows.shape[1])
            self._index(payloads)
            self._points.put([_key(document.id) for document in kept], kept_rows, payloads)
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """As `Store.search` says; with the method `hnsw` nearly so."""
        node = parse_filter(filter)
        condition = condition_of(node)
        top_k = checked_top_k(top_k)
        with self._lock.together():
            query = checked_query(query_embedding, self._wanted(np.shape(query_embedding)))
            if self._dimension != len(query) or condition is False:
                return []

            def fetch(limit: int) -> list[Found]:
                return [
                    Found(document_of(text), score) for text, score in self._points.nearest(query, limit, condition)
                ]

            return complete(fetch, node, top_k, partial(self._scores, query.astype(np.float64)))

    def delete(self, ids: Sequence[str]) -> int:
        """As `Store.delete` says."""
        keys = [_key(name) for name in checked_ids(ids)]
        with self._lock.alone():
            if not self._width():
                return 0
            removed = 0
            for some in runs(keys, _SCAN_ROWS):
                there = self._points.there(some)
                if there:
                    self._points.delete(there)
                removed += len(there)
        return removed

    def clear(self) -> None:
        """As `Store.clear` says."""
        with self._lock.alone():
            if self._width():
                self._points.empty()

    def count(self) -> int:
        """As `Store.count` says."""
        with self._lock.together():
            return self._points.count() if self._width() else 0

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """As `Store.scan` says. The ids are gathered first; what is deleted meanwhile is left out."""
        with self._lock.together():
            keys = [key for _, key in sorted(self._points.names())] if self._width() else []
        for some in runs(keys, _SCAN_ROWS):
            with self._lock.together():
                found = [(document_of(text), row) for text, row in self._points.read(some)]
            for document, row in sorted(found, key=lambda pair: pair[0].id):
                yield document.id, document, np.array(row, np.float32)

    def close(self) -> None:
        """As `Store.close` says."""
        with self._lock.alone():
            self._points.close()

    def _scores(self, query: NDArray[np.float64], documents: Sequence[Document]) -> list[float]:
        """Exact scores; -1 for what somebody else has deleted meanwhile."""
        read = self._points.read([_key(document.id) for document in documents])
        scores = {document_of(text).id: float((np.array(row, np.float32) * query).sum()) for text, row in read}
        return [scores.get(document.id, -1.0) for document in documents]

    def _width(self) -> int:
        """Columns of a row; 0 where there is no collection. Another process may have made it meanwhile."""
        if not self._dimension:
            self._dimension = self._points.dimension()
            self._indexed = self._points.indexed() if self._dimension else set()
        return self._dimension

    def _wanted(self, shape: tuple[int, ...]) -> int | None:
        """The columns that rows must have; None for any. An empty collection holds nobody to its width."""
        here = self._width()
        if here and here not in shape[-1:] and not self._points.count():
            here = 0
        return here or self._options.dimension

    def _lay_out(self, dimension: int) -> None:
        """Have a collection of rows of this width: `_wanted` has seen that the one that is there is such, or empty."""
        if self._dimension != dimension:
            self._points.drop()
            self._points.make(dimension)
            self._dimension, self._indexed = dimension, set()

    def _index(self, payloads: Sequence[Payload]) -> None:
        for name in dict.fromkeys(name for payload in payloads for name in payload):
            if name in self._indexed or name in {DOCUMENT, NAME} or len(self._indexed) >= MAX_INDEXED:
                continue
            self._points.index(name, "float" if name.startswith(NUMBERS) else "keyword")
            self._indexed.add(name)


def _payload(document: Document) -> Payload:
    payload: dict[str, str | Sequence[str] | Sequence[float]] = {
        NAME: storable(document.id),
        DOCUMENT: document_text(document),
    }
    for name, column in columns_of(document.metadata).items():
        payload[name] = column.tokens
        if column.numbers:
            payload[NUMBERS + name] = column.numbers
    return payload


def _key(name: str) -> str:
    """A UUID for an id: the only names that Qdrant knows, beside numbers."""
    return str(uuid.uuid5(_NAMESPACE, storable(name)))


def _engine(options: QdrantOptions) -> Points:
    # imported here: the client takes a second, and the embedded engine does without
    if options.url:
        from ragkit.store.qdrant_server import ServerPoints  # noqa: PLC0415

        return ServerPoints(options)
    from ragkit.store.qdrant_embedded import EmbeddedPoints  # noqa: PLC0415

    return EmbeddedPoints(options)
