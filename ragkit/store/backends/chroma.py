"""The store `chroma`: a collection of a Chroma server, or of Chroma in this process.

Chroma's HNSW graph is approximate. If it returns fewer documents than match, all matching vectors are read and scored.
Filters are pushed down as far as Chroma can express them (`chroma_metadata`); the reference evaluator decides.

A call with more documents than Chroma's maximum batch (5,461 by default) is not atomic: if the process is killed, the
first batches are stored. The space is the inner product, which is the cosine for unit vectors and keeps the vectors
unchanged (Chroma's cosine space would scale them).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import chromadb
import httpx
import numpy as np
from chromadb.api import ClientAPI
from chromadb.api.client import Client
from chromadb.api.collection_configuration import CreateHNSWConfiguration
from chromadb.api.types import Where
from chromadb.config import Settings
from chromadb.errors import ChromaError, NotFoundError

from ragkit.batches import batches_by_size
from ragkit.errors import DimensionMismatch, InvalidOption, StoreError
from ragkit.records import Document, SearchResult
from ragkit.store.backends.adapter_utils import (
    batches,
    collect_top_k,
    deduplicate_by_id,
    document_from_json,
    document_to_json,
    escape_text,
)
from ragkit.store.backends.chroma_metadata import to_chroma_metadata, to_chroma_where
from ragkit.store.backends.directory_lock import DirectoryLock
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
from ragkit.store.filters.language import evaluate, parse_filter
from ragkit.store.filters.pushdown import hash_name, to_condition
from ragkit.store.options import ChromaOptions
from ragkit.store.read_write_lock import ReadWriteLock
from ragkit.store.vector_store import VectorStore

LAYOUT_VERSION = 1
SMALL_COLLECTION = 500
"""Up to this many documents, searches are exact."""
_UNFILTERED_FACTOR = 8
"""Before a filtered query, Chroma is asked for `factor * top_k` documents without the filter: a filter that matches
many documents takes ten times as long, because Chroma collects all matching ids first."""
_READ_BATCH = 1_000
"""Documents that are read at a time."""
_MAX_BATCH_BYTES = 16 * 2**20
"""A server accepts requests of at most 40 MB."""
_JSON_FLOAT_BYTES = 22
"""Size of a vector's number as JSON."""

Collection: TypeAlias = chromadb.Collection
ResultT = TypeVar("ResultT")


class ChromaStore(VectorStore):
    """Documents and vectors in a Chroma collection. Safe for several threads; a path, for one process at a time."""

    persistent = True

    def __init__(self, options: ChromaOptions) -> None:
        """Open or create the collection.

        Raises:
            DimensionMismatch: the stored vectors have another dimension.
            InvalidOption: neither `path` nor `host` is set.
            KnowledgeBaseLocked: another process has the path open.
            StoreError: the server or the path cannot be opened, or the collection was not created by ragkit.
        """
        if not str(options.path) and not options.host:
            raise InvalidOption("path", "", "set, or the option `host`")
        self._options = options
        self._location = f"{options.host}:{options.port}" if options.host else str(options.path)
        self._collection_name = options.collection
        if not re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_-]{1,98}[a-zA-Z0-9]", self._collection_name):
            self._collection_name = f"h-{hash_name(self._collection_name)}"
        self._directory_lock = None if options.host else DirectoryLock(Path(options.path))
        self._lock = self._directory_lock.lock if self._directory_lock else ReadWriteLock()
        self._client: ClientAPI | None = None
        self._known_dimension, self._is_known_large = 0, False
        try:
            with self._lock.write(), _translate_errors(self._location):  # two handles may be opened at once
                self._client = _create_client(options)
                self._max_batch = self._client.get_max_batch_size()
                self._collection = self._open_collection()
                validate_stored_dimension(self._dimension(), options.dimension)
        except BaseException:
            self.close()
            raise

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """See `Store.add_documents`."""
        if not documents:
            return []
        validated = validate_documents(documents)
        with self._lock.write():
            rows = validate_rows(embeddings, len(validated), self._dimension() or self._options.dimension)
            unique, rows = deduplicate_by_id(validated, rows)
            texts = [document_to_json(document) for document in unique]
            row_bytes = _JSON_FLOAT_BYTES * rows.shape[1]
            items = zip(unique, texts, rows, strict=True)
            for batch in batches_by_size(
                items, lambda item: len(item[1]) + row_bytes, self._max_batch, _MAX_BATCH_BYTES
            ):
                self._call_collection(partial(_upsert, items=batch))
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """See `Store.search`."""
        node = parse_filter(filter)
        top_k = validate_top_k(top_k)
        with self._lock.read():
            dimension = self._dimension()
            query = validate_query(query_embedding, dimension or self._options.dimension)
            where = cast("Where | None", to_chroma_where(to_condition(node)))
            if not dimension:
                return []
            is_small = self._is_small()

            unfiltered = [] if where is None or is_small else self._search_unfiltered(query, top_k)
            if sum(evaluate(node, result.document.metadata) for result in unfiltered) <= top_k:
                unfiltered = []

            def fetch(limit: int) -> list[SearchResult]:
                if limit <= len(unfiltered):
                    return unfiltered
                search = partial(_search, query=query, where=where, limit=limit, is_small=is_small)
                return self._call_collection(search)

            def exact(documents: Sequence[Document]) -> list[float]:
                return self._call_collection(lambda collection: _exact_scores(collection, query, documents))

            return collect_top_k(fetch, node, top_k, None if is_small else exact)

    def delete(self, ids: Sequence[str]) -> int:
        """See `Store.delete`; deletes in batches of 1,000."""
        names = [escape_text(name) for name in validate_ids(ids)]
        with self._lock.write():
            deletions = (partial(_delete_existing, names=batch) for batch in batches(names, _READ_BATCH))
            return sum(map(self._call_collection, deletions))

    def clear(self) -> None:
        """See `Store.clear`; recreates the collection."""
        with self._lock.write(), _translate_errors(self._location):
            client = self._require_client()
            with suppress(NotFoundError):  # another client deleted it
                client.delete_collection(self._collection_name)
            if isinstance(client, Client) and not self._options.host:
                # Chroma keeps four files and some megabytes of a deleted collection open until the path is closed.
                client.close()
                self._client = None
                self._client = _create_client(self._options)
            self._collection = self._open_collection()

    def count(self) -> int:
        """See `Store.count`."""
        with self._lock.read():
            return self._call_collection(lambda collection: collection.count())

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """See `Store.scan`. The ids are read at the first step; documents deleted later are skipped."""
        with self._lock.read():
            names = sorted(self._call_collection(lambda collection: collection.get(include=[])["ids"]))
        for batch in batches(names, _READ_BATCH):
            with self._lock.read():
                documents = self._call_collection(partial(_fetch_documents, names=batch))
            for name in batch:
                if name in documents:
                    document, row = documents[name]
                    yield document.id, document, row

    def close(self) -> None:
        """See `Store.close`."""
        with self._lock.write():
            client, self._client = self._client, None
            if isinstance(client, Client):
                client.close()
                for user in (client, client._admin_client):
                    session = getattr(getattr(user, "_server", None), "_session", None)
                    if isinstance(session, httpx.Client):  # Chroma leaves the connections to a server open
                        session.close()
        if self._directory_lock is not None:
            self._directory_lock.close()

    def _require_client(self) -> ClientAPI:
        if self._client is None:
            raise StoreError(f"the store at {self._location} is closed: open it again")
        return self._client

    def _open_collection(self) -> Collection:
        graph: CreateHNSWConfiguration = {
            "space": "ip",
            "max_neighbors": self._options.m,
            "ef_construction": self._options.ef_construction,
            "ef_search": self._options.ef_search,
        }
        self._known_dimension, self._is_known_large = 0, False
        collection = self._require_client().get_or_create_collection(
            self._collection_name,
            embedding_function=None,
            metadata={"ragkit": LAYOUT_VERSION},
            configuration={"hnsw": graph},
        )
        if (collection.metadata or {}).get("ragkit") != LAYOUT_VERSION:
            raise StoreError(
                f"the collection {self._collection_name!r} of {self._location} was not created by ragkit: "
                "choose another `collection`"
            )
        return collection

    def _call_collection(self, call: Callable[[Collection], ResultT]) -> ResultT:
        """Call a function with the collection, which is opened again if another client has cleared it."""
        self._require_client()
        with _translate_errors(self._location):
            try:
                return call(self._collection)
            except NotFoundError:
                self._collection = self._open_collection()
                return call(self._collection)

    def _search_unfiltered(self, query: Rows, top_k: int) -> list[SearchResult]:
        limit = _UNFILTERED_FACTOR * top_k
        return self._call_collection(lambda collection: _search(collection, query, None, limit, is_small=False))

    def _dimension(self) -> int:
        """The dimension of the stored vectors; 0 if there are none."""
        if not self._known_dimension:
            self._known_dimension = self._call_collection(_read_dimension)
        return self._known_dimension

    def _is_small(self) -> bool:
        if not self._is_known_large:
            self._is_known_large = self._call_collection(lambda collection: collection.count()) > SMALL_COLLECTION
        return not self._is_known_large


def _create_client(options: ChromaOptions) -> ClientAPI:
    # a `.env` file in the working directory is ignored: it could export traces or name code to run
    overrides: dict[str, Any] = {"_env_file": None, "chroma_otel_collection_endpoint": ""}
    settings = Settings(anonymized_telemetry=False, **overrides)
    if not options.host:
        try:
            return chromadb.PersistentClient(str(Path(options.path).resolve()), settings=settings)
        except (AttributeError, ValueError) as error:  # raised for damaged files
            reason = "cannot be opened by the store 'chroma': run `ragkit verify --repair`"
            raise StoreError(f"{options.path} {reason}") from error
    headers = {"X-Chroma-Token": options.token} if options.token else None
    return chromadb.HttpClient(options.host, options.port, ssl=options.ssl, headers=headers, settings=settings)


def _read_dimension(collection: Collection) -> int:
    """The dimension of the stored vectors; 0 if there are none."""
    rows = collection.get(limit=1, include=["embeddings"])["embeddings"]
    return len(rows[0]) if rows is not None and len(rows) else 0


def _upsert(collection: Collection, items: Sequence[tuple[Document, str, Rows]]) -> None:
    """Upsert documents with their texts and vectors."""
    names = [escape_text(document.id) for document, _, _ in items]
    metadatas: list[dict[str, str | float | bool | None]] = [
        {**to_chroma_metadata(document.metadata)} for document, _, _ in items
    ]
    existing = collection.get(ids=names, include=["metadatas"])
    before = dict(zip(existing["ids"], existing["metadatas"] or [], strict=True))
    for name, metadata in zip(names, metadatas, strict=True):
        # an upsert keeps the old keys unless they are set to None
        metadata.update(dict.fromkeys((before.get(name) or {}).keys() - metadata.keys()))
    rows, texts = np.array([row for _, _, row in items]), [text for _, text, _ in items]
    collection.upsert(ids=names, embeddings=rows, metadatas=[*metadatas], documents=texts)


def _delete_existing(collection: Collection, names: Sequence[str]) -> int:
    existing = collection.get(ids=list(names), include=[])["ids"]  # `delete` counts missing ids too
    if existing:
        collection.delete(ids=existing)
    return len(existing)


def _fetch_documents(collection: Collection, names: Sequence[str]) -> dict[str, tuple[Document, Rows]]:
    """Document and vector by Chroma's id; missing ids are skipped."""
    documents: dict[str, tuple[Document, Rows]] = {}
    for batch in batches(names, _READ_BATCH):
        response = collection.get(ids=list(batch), include=["documents", "embeddings"])
        rows = np.asarray(response["embeddings"], np.float32)
        for name, text, row in zip(response["ids"], response["documents"] or [], rows, strict=True):
            documents[name] = document_from_json(text), row
    return documents


def _search(
    collection: Collection, query: Rows, where: Where | None, limit: int, *, is_small: bool
) -> list[SearchResult]:
    """The nearest documents that match the condition; fewer than `limit` only if there are no more."""
    if is_small:
        return _fetch_hits(collection, query, _rank_all(collection, query, where)[:limit])
    answer = collection.query(
        query_embeddings=query[None], n_results=limit, where=where, include=["documents", "distances"]
    )
    [names], [texts], [distances] = answer["ids"], answer["documents"] or [[]], answer["distances"] or [[]]
    if len(names) < limit and len(names) < _count_matching(collection, where):
        return _fetch_hits(collection, query, _scan_nearest(collection, query, where, limit))
    pairs = zip(texts, distances, strict=True)
    return [SearchResult(document_from_json(text), 1 - distance) for text, distance in pairs]


def _fetch_hits(collection: Collection, query: Rows, names: Sequence[str]) -> list[SearchResult]:
    """The documents with these ids, with exact scores; missing ids are skipped."""
    query64 = query.astype(np.float64)
    documents = _fetch_documents(collection, names)
    return [SearchResult(document, float((row * query64).sum())) for document, row in documents.values()]


def _exact_scores(collection: Collection, query: Rows, documents: Sequence[Document]) -> list[float]:
    """Exact scores; -1 for documents that another client has deleted."""
    results = _fetch_hits(collection, query, [escape_text(document.id) for document in documents])
    scores = {result.document.id: result.score for result in results}
    return [scores.get(document.id, -1.0) for document in documents]


def _rank_all(collection: Collection, query: Rows, where: Where | None) -> list[str]:
    """The ids of all matching documents of a small collection, nearest first.

    The graph is asked for all rows, because many equal rows can disconnect parts of it.
    """
    answer = collection.query(query_embeddings=query[None], n_results=SMALL_COLLECTION, where=where, include=[])
    names = answer["ids"][0]
    if len(names) == _count_matching(collection, where):
        return names
    return _scan_nearest(collection, query, where, SMALL_COLLECTION)


def _count_matching(collection: Collection, where: Where | None) -> int:
    return collection.count() if where is None else len(collection.get(where=where, include=[])["ids"])


def _scan_nearest(collection: Collection, query: Rows, where: Where | None, limit: int) -> list[str]:
    """The ids of the nearest documents, without the graph: reads all matching vectors."""
    names = collection.get(where=where, include=[])["ids"]
    scores: dict[str, float] = {}
    for batch in batches(names, _READ_BATCH):
        response = collection.get(ids=list(batch), include=["embeddings"])
        scores.update(
            zip(response["ids"], (np.asarray(response["embeddings"], np.float32) @ query).tolist(), strict=True)
        )
    return sorted(names, key=lambda name: -scores.get(name, -2.0))[:limit]


@contextmanager
def _translate_errors(location: str) -> Iterator[None]:
    """Translate the errors of Chroma and of its client."""
    try:
        yield
    except (ChromaError, httpx.HTTPError, ValueError, OSError, RuntimeError) as error:
        message = " ".join(str(error).split())[:300]
        # an empty collection keeps its dimension
        dimensions = re.search(r"dimension of (\d+), got (\d+)", message)
        if dimensions:
            raise DimensionMismatch(int(dimensions[2]), int(dimensions[1])) from error
        raise StoreError(f"Chroma at {location} failed: {message}") from error
