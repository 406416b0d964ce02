"""The store in a Chroma collection: in this process under a path, or on a Chroma server.

Chroma's HNSW graph is approximate. Where it finds fewer documents than there are, the rows that pass the filter are all
read and scored. Filters are sent as far as Chroma can express them (`to_chroma_metadata`); the reference evaluator has the
last word.

A call of more documents than Chroma takes at once (5,461 here) is put in bit by bit: if the process is killed
meanwhile, the first bits are there. Rows are unit rows, so that Chroma's inner product is the cosine, and rows come
back as they went in (its cosine space would scale them).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
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

from ragkit.errors import DimensionMismatch, InvalidOption, StoreError
from ragkit.records import Document, SearchResult
from ragkit.store.backends.adapter_utils import (
    EngineHit,
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
    validate_top_k,
)
from ragkit.store.filters.language import evaluate, parse_filter
from ragkit.store.filters.pushdown import to_condition
from ragkit.store.options import ChromaOptions
from ragkit.store.read_write_lock import ReadWriteLock
from ragkit.store.vector_store import VectorStore

LAYOUT_VERSION = 1
"""The version of the layout."""
SMALL_COLLECTION = 500
"""Up to so many documents, searches are exact."""
_UNFILTERED_FACTOR = 8
"""Before Chroma is given a filter, it is asked for this many times as many documents without one: it takes ten times as
long where many rows pass, as it gathers all of their ids first. A filter that a quarter passes seldom gets that far."""
_READ_BATCH = 1_000
"""Documents that are read at a time."""
_MAX_BATCH_BYTES = 16 * 2**20
"""A server takes requests of at most 40 MB."""
_JSON_FLOAT_BYTES = 22
"""A number of a row as JSON."""

Collection: TypeAlias = chromadb.Collection
ResultT = TypeVar("ResultT")


class ChromaStore(VectorStore):
    """Documents and rows in a Chroma collection. Safe for several threads; a path, for one process at a time."""

    persistent = True

    def __init__(self, options: ChromaOptions) -> None:
        """Open the collection, or make it.

        Raises:
            DimensionMismatch: it holds rows of another width than the options say.
            InvalidOption: there is neither a path nor a host.
            KnowledgeBaseLocked: another process has the path open.
            StoreError: the server cannot be reached, the path cannot be used, or the collection is somebody else's.
        """
        if not str(options.path) and not options.host:
            raise InvalidOption("path", "", "a directory, or the `host` of a server,")
        self._options = options
        self._location = f"{options.host}:{options.port}" if options.host else str(options.path)
        self._collection_name = options.collection
        if not re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9_-]{1,98}[a-zA-Z0-9]", self._collection_name):
            self._collection_name = (
                f"h-{blake2b(self._collection_name.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
            )
        self._directory_lock = None if options.host else DirectoryLock(Path(options.path))
        self._lock = self._directory_lock.lock if self._directory_lock else ReadWriteLock()
        self._client: ClientAPI | None = None
        self._known_dimension, self._is_known_large = 0, False
        try:
            with self._lock.write(), _translate_errors(self._location):  # two handles may be opened at once
                self._client = _create_client(options)
                self._max_batch = self._client.get_max_batch_size()
                self._collection = self._open_collection()
                here = self._dimension()
            if here and options.dimension not in {None, here}:
                raise DimensionMismatch(options.dimension or 0, here)
        except BaseException:
            self.close()
            raise

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """As `Store.add_documents` says."""
        if not documents:
            return []
        kept = validate_documents(documents)
        with self._lock.write():
            dimension = self._dimension()
            rows = validate_rows(embeddings, len(kept), dimension or self._options.dimension)
            kept, rows = deduplicate_by_id(kept, rows)
            texts = [document_to_json(document) for document in kept]
            for start, end in self._batches(texts, rows.shape[1]):
                part = slice(start, end)
                self._call_collection(partial(_upsert, documents=kept[part], texts=texts[part], rows=rows[part]))
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """As `Store.search` says."""
        node = parse_filter(filter)
        top_k = validate_top_k(top_k)
        with self._lock.read():
            dimension = self._dimension()
            query = validate_query(query_embedding, dimension or self._options.dimension)
            where = cast("Where | None", to_chroma_where(to_condition(node)))
            if not dimension:
                return []
            is_small = self._is_small()

            seen = [] if where is None or is_small else self._search_unfiltered(query, top_k)
            if sum(evaluate(node, each.document.metadata) for each in seen) <= top_k:
                seen = []

            def fetch(limit: int) -> list[EngineHit]:
                if limit <= len(seen):
                    return seen
                return self._call_collection(lambda held: _search(held, query, where, limit, is_small=is_small))

            def exact(documents: Sequence[Document]) -> list[float]:
                return self._call_collection(lambda held: _exact_scores(held, query, documents))

            return collect_top_k(fetch, node, top_k, None if is_small else exact)

    def delete(self, ids: Sequence[str]) -> int:
        """As `Store.delete` says; 1,000 at a time are deleted at once."""
        names = [escape_text(name) for name in validate_ids(ids)]
        removed = 0
        with self._lock.write():
            for start in range(0, len(names), _READ_BATCH):
                removed += self._call_collection(partial(_delete_existing, names=names[start : start + _READ_BATCH]))
        return removed

    def clear(self) -> None:
        """As `Store.clear` says: the collection is made anew."""
        with self._lock.write(), _translate_errors(self._location):
            client = self._require_client()
            with suppress(NotFoundError):  # another client was faster
                client.delete_collection(self._collection_name)
            self._collection = self._open_collection()

    def count(self) -> int:
        """As `Store.count` says."""
        with self._lock.read():
            return self._call_collection(lambda held: held.count())

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """As `Store.scan` says. The ids are those of the first step; what is deleted meanwhile is left out."""
        with self._lock.read():
            names = sorted(self._call_collection(_all_ids))
        for start in range(0, len(names), _READ_BATCH):
            some = names[start : start + _READ_BATCH]
            with self._lock.read():
                held = self._call_collection(partial(_fetch_documents, names=some))
            for name in some:
                if name in held:
                    document, row = held[name]
                    yield document.id, document, row

    def close(self) -> None:
        """As `Store.close` says."""
        with self._lock.write():
            client, self._client = self._client, None
            if isinstance(client, Client):
                client.close()
                for user in (client, client._admin_client):
                    session = getattr(getattr(user, "_import_server", None), "_session", None)
                    if isinstance(session, httpx.Client):  # to a server: Chroma keeps its connections open
                        session.close()
        if self._directory_lock is not None:
            self._directory_lock.close()

    def _require_client(self) -> ClientAPI:
        if self._client is None:
            raise StoreError(f"{self._location} is closed: open the store again")
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
                f"the collection {self._collection_name!r} of {self._location} was not made by ragkit: choose another"
            )
        return collection

    def _call_collection(self, call: Callable[[Collection], ResultT]) -> ResultT:
        """What the call answers; the collection is looked up anew if another client has cleared it."""
        self._require_client()
        with _translate_errors(self._location):
            try:
                return call(self._collection)
            except NotFoundError:
                self._collection = self._open_collection()
                return call(self._collection)

    def _search_unfiltered(self, query: Rows, top_k: int) -> list[EngineHit]:
        """More of the nearest than are wanted, whatever the filter."""
        return self._call_collection(
            lambda held: _search(held, query, None, _UNFILTERED_FACTOR * top_k, is_small=False)
        )

    def _dimension(self) -> int:
        """The width of the rows; 0 when there are none."""
        if not self._known_dimension:
            self._known_dimension = self._call_collection(_read_dimension)
        return self._known_dimension

    def _is_small(self) -> bool:
        if not self._is_known_large:
            self._is_known_large = self._call_collection(lambda held: held.count()) > SMALL_COLLECTION
        return not self._is_known_large

    def _batches(self, texts: Sequence[str], dimension: int) -> Iterator[tuple[int, int]]:
        """Runs of documents that are small enough to be sent at once."""
        start = size = 0
        for place, text in enumerate(texts):
            # metadata are in the text, and are sent a second time as Chroma's own
            weight = 3 * len(text) + dimension * _JSON_FLOAT_BYTES
            if place > start and (place - start >= self._max_batch or size + weight > _MAX_BATCH_BYTES):
                yield start, place
                start, size = place, 0
            size += weight
        yield start, len(texts)


def _create_client(options: ChromaOptions) -> ClientAPI:
    # a `.env` in the working directory is nobody's word on this store: it could send traces away, or name code to run
    chosen: dict[str, Any] = {"_env_file": None, "chroma_otel_collection_endpoint": ""}
    settings = Settings(anonymized_telemetry=False, **chosen)
    if not options.host:
        try:
            return chromadb.PersistentClient(str(Path(options.path).resolve()), settings=settings)
        except (AttributeError, ValueError) as error:  # how it fails over a damaged file of its own
            hint = "run `ragkit verify --repair`"
            raise StoreError(f"{options.path} cannot be opened as a store 'chroma': {hint}") from error
    headers = {"X-Chroma-Token": options.token} if options.token else None
    return chromadb.HttpClient(options.host, options.port, ssl=options.ssl, headers=headers, settings=settings)


def _read_dimension(collection: Collection) -> int:
    """The width of the rows; 0 when there are none."""
    held = collection.get(limit=1, include=["embeddings"])["embeddings"]
    return len(held[0]) if held is not None and len(held) else 0


def _upsert(collection: Collection, documents: Sequence[Document], texts: Sequence[str], rows: Rows) -> None:
    names = [escape_text(document.id) for document in documents]
    kept: list[dict[str, str | float | bool | None]] = [
        {**to_chroma_metadata(document.metadata)} for document in documents
    ]
    there = collection.get(ids=names, include=["metadatas"])
    before = dict(zip(there["ids"], there["metadatas"] or [], strict=True))
    for name, each in zip(names, kept, strict=True):
        # Chroma keeps what was under other keys, unless it is taken away
        each.update(dict.fromkeys((before.get(name) or {}).keys() - each.keys()))
    collection.upsert(ids=names, embeddings=rows, metadatas=[*kept], documents=list(texts))


def _delete_existing(collection: Collection, names: Sequence[str]) -> int:
    there = collection.get(ids=list(names), include=[])["ids"]  # it says that it deleted what was never there
    if there:
        collection.delete(ids=there)
    return len(there)


def _all_ids(collection: Collection) -> list[str]:
    return collection.get(include=[])["ids"]


def _fetch_documents(collection: Collection, names: Sequence[str]) -> dict[str, tuple[Document, Rows]]:
    """Document and row by Chroma's id, of those that are there."""
    held: dict[str, tuple[Document, Rows]] = {}
    for start in range(0, len(names), _READ_BATCH):
        found = collection.get(ids=list(names[start : start + _READ_BATCH]), include=["documents", "embeddings"])
        rows = np.asarray(found["embeddings"], np.float32)
        texts = found["documents"] or []
        held.update(
            (name, (document_from_json(text), row)) for name, text, row in zip(found["ids"], texts, rows, strict=True)
        )
    return held


def _search(collection: Collection, query: Rows, where: Where | None, limit: int, *, is_small: bool) -> list[EngineHit]:
    """The nearest of what passes the condition; fewer than `limit` only when there are no more."""
    if is_small:
        return _fetch_hits(collection, query, _rank_all(collection, query, where)[:limit])
    answer = collection.query(
        query_embeddings=query[None], n_results=limit, where=where, include=["documents", "distances"]
    )
    [names], [texts], [distances] = answer["ids"], answer["documents"] or [[]], answer["distances"] or [[]]
    if len(names) < limit and len(names) < _count_matching(collection, where):
        return _fetch_hits(collection, query, _scan_nearest(collection, query, where, limit))
    return [EngineHit(document_from_json(text), 1 - distance) for text, distance in zip(texts, distances, strict=True)]


def _fetch_hits(collection: Collection, query: Rows, names: Sequence[str]) -> list[EngineHit]:
    """Those of the names that are there, with exact scores."""
    wide = query.astype(np.float64)
    held = _fetch_documents(collection, names)
    return [EngineHit(document, float((row * wide).sum())) for document, row in held.values()]


def _exact_scores(collection: Collection, query: Rows, documents: Sequence[Document]) -> list[float]:
    """Exact scores; -1 for what another client has deleted meanwhile."""
    found = _fetch_hits(collection, query, [escape_text(document.id) for document in documents])
    scores = {each.document.id: each.score for each in found}
    return [scores.get(document.id, -1.0) for document in documents]


def _rank_all(collection: Collection, query: Rows, where: Where | None) -> list[str]:
    """Ids of all that passes the condition, nearest first, in a small collection.

    A graph of few rows is asked for all of them, as many equal rows can cut parts of it off from the rest.
    """
    names = collection.query(query_embeddings=query[None], n_results=SMALL_COLLECTION, where=where, include=[])["ids"][
        0
    ]
    if len(names) == _count_matching(collection, where):
        return names
    return _scan_nearest(collection, query, where, SMALL_COLLECTION)


def _count_matching(collection: Collection, where: Where | None) -> int:
    return collection.count() if where is None else len(collection.get(where=where, include=[])["ids"])


def _scan_nearest(collection: Collection, query: Rows, where: Where | None, limit: int) -> list[str]:
    """Ids of the nearest, without the graph: every row that passes the condition is read."""
    names = collection.get(where=where, include=[])["ids"]
    scores = np.empty(len(names), np.float32)
    for start in range(0, len(names), _READ_BATCH):
        found = collection.get(ids=names[start : start + _READ_BATCH], include=["embeddings"])
        by_name = dict(zip(found["ids"], np.asarray(found["embeddings"], np.float32) @ query, strict=True))
        part = names[start : start + _READ_BATCH]
        scores[start : start + len(part)] = [by_name.get(name, -2.0) for name in part]
    return [names[place] for place in np.argsort(-scores, kind="stable")[:limit]]


@contextmanager
def _translate_errors(where: str) -> Iterator[None]:
    """The errors of Chroma and of its client as ours."""
    try:
        yield
    except (ChromaError, httpx.HTTPError, ValueError, OSError, RuntimeError) as error:
        said = " ".join(str(error).split())[:300]
        # a collection keeps its width when its last row goes
        widths = re.search(r"dimension of (\d+), got (\d+)", said)
        if widths:
            raise DimensionMismatch(int(widths[2]), int(widths[1])) from error
        raise StoreError(f"Chroma at {where} cannot be used: {said}") from error
