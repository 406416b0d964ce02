"""The store `pinecone`: a namespace of a Pinecone index, through the official client.

Filters are pushed down as tokens and number ranges. What those cannot express (the order of strings, numbers in lists)
is decided by the reference evaluator. The service is eventually consistent: each write waits until it is visible.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import cast
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from pinecone import Index, IndexModel, Pinecone, RetryConfig, ScoredVector, ServerlessSpec, Vector
from pinecone.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    PineconeConnectionError,
    PineconeError,
    RateLimitError,
    UnauthorizedError,
)

from ragkit.batches import batches_by_size
from ragkit.errors import StoreError
from ragkit.records import Document, SearchResult
from ragkit.store.backends.adapter_utils import (
    batches,
    collect_top_k,
    deduplicate_by_id,
    document_from_json,
    expected_dimension,
)
from ragkit.store.backends.pinecone_records import (
    DOCUMENT_KEY,
    WRITE_KEY,
    PineconeFilter,
    PineconeRecord,
    PineconeValue,
    from_record_id,
    part_keys,
    to_pinecone_filter,
    to_record_id,
    to_records,
)
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
from ragkit.store.options import PARTS_NAMESPACE_SUFFIX, PineconeOptions
from ragkit.store.vector_store import VectorStore

MAX_UPSERT_RECORDS = 1_000
MAX_UPSERT_BYTES = 1_800_000
"""Pinecone's limit is 2 MB."""
MAX_ANSWER_BYTES = 3_500_000
"""Pinecone's limit is 4 MB."""
MAX_TOP_K = 10_000
MAX_DELETE_IDS = 1_000
MAX_FETCH_IDS = 100
MAX_FETCH_CHARACTERS = 6_000
"""Ids are part of the URL of a request, whose length is limited."""
MAX_EXACT_COUNT = 10_000
"""Up to this many records are counted by listing them; above it, the count of the service is used, which lags."""
_VALUE_BYTES = 22
"""Size of a number as JSON."""
_MAX_RECORD_BYTES = 41_000
_MAX_ATTEMPTS = 5
_SCAN_BATCH = 100


class PineconeStore(VectorStore):
    """Documents and vectors in a namespace of a Pinecone index. Safe for several threads.

    A write is visible to this process when the call returns, and to others shortly before or after. A call of
    `add_documents` with more than one request (1,000 documents or 2 MB) is not atomic for readers. Scores are computed
    from the returned vectors. Documents over 40 KB are split into parts in a second namespace. A search that needs more
    than 10,000 candidates reads the whole namespace.
    """

    persistent = True

    def __init__(self, options: PineconeOptions) -> None:
        """Open the index if it exists.

        Raises:
            DimensionMismatch: the stored vectors have another dimension.
            StoreError: the service cannot be reached, or rejects the API key.
        """
        self._options = options
        self._namespace = options.namespace
        self._parts_namespace = (options.namespace or "default") + PARTS_NAMESPACE_SUFFIX
        self._location = f"Pinecone's index {options.index_name!r}"
        self._write_lock, self._index_lock = threading.Lock(), threading.Lock()
        self._index: Index | None = None
        self._dimension = 0
        self._has_parts = False
        with self._translate_errors():
            retries = RetryConfig(max_retries=options.retries, max_wait=options.wait_seconds)
            self._client = Pinecone(options.api_key, host=options.host or None, retry_config=retries)
            try:
                if self._get_index() and options.dimension not in {None, self._dimension} and self._has_records():
                    validate_stored_dimension(self._dimension, options.dimension)
            except BaseException:
                self.close()
                raise

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """See `Store.add_documents`; returns when the documents are visible to readers.

        Raises also:
            StoreError: the documents are not visible after `wait_seconds`.
        """
        if not documents:
            return []
        with self._translate_errors(), self._write_lock:
            rows = validate_rows(embeddings, len(documents), self._expected_dimension(np.shape(embeddings)))
            unique, unique_rows = deduplicate_by_id(validate_documents(documents), rows)
            write = secrets.token_hex(4)
            records = [to_records(document, row, write) for document, row in zip(unique, unique_rows, strict=True)]
            index = self._ensure_index(rows.shape[1])
            replaced = self._replaced_parts([record.main["id"] for record in records])
            parts = [part for record in records for part in record.parts]
            self._upsert(index, parts, self._parts_namespace)
            last_ids = self._upsert(index, [record.main for record in records], self._namespace)
            self._wait_until(lambda: self._is_visible(write, last_ids))
            self._delete(index, replaced, self._parts_namespace)
            self._has_parts = self._has_parts or bool(parts)
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """See `Store.search`; approximate, as Pinecone's index is."""
        node = parse_filter(filter)
        condition = to_condition(node)
        top_k = validate_top_k(top_k)
        with self._translate_errors():
            query = validate_query(query_embedding, self._expected_dimension(np.shape(query_embedding)))
            index = self._get_index()
            if index is None or condition is False or self._dimension != len(query):
                return []
            clause, query64 = to_pinecone_filter(condition), query.astype(np.float64)
            return collect_top_k(lambda limit: self._search(index, query64, limit, clause), node, top_k)

    def delete(self, ids: Sequence[str]) -> int:
        """See `Store.delete`."""
        keys = [to_record_id(name) for name in validate_ids(ids)]
        with self._translate_errors(), self._write_lock:
            index = self._get_index()
            if index is None:
                return 0
            existing = self._fetch(keys)
            if existing:
                self._delete(index, list(existing), self._namespace)
                self._wait_until(lambda: not self._fetch(list(existing)))
                parts = [part for key, record in existing.items() for part in part_keys(key, record["metadata"])]
                self._delete(index, parts, self._parts_namespace)
            return len(existing)

    def clear(self) -> None:
        """See `Store.clear`. The index remains; an empty one is recreated for another dimension."""
        with self._translate_errors(), self._write_lock:
            index = self._get_index()
            if index is None:
                return
            for space in (self._namespace, self._parts_namespace):
                with suppress(NotFoundError):  # there is no such namespace
                    index.delete(delete_all=True, namespace=space)
            self._wait_until(lambda: not self._has_records())

    def count(self) -> int:
        """See `Store.count`; above 10,000 it is the count of the service, which lags behind writes."""
        with self._translate_errors():
            index = self._get_index()
            if index is None:
                return 0
            statistics = index.describe_index_stats().namespaces.get(self._namespace or "__default__")
            if statistics is not None and statistics.vector_count > MAX_EXACT_COUNT:
                return int(statistics.vector_count)
            return sum(1 for _ in self._iter_keys(index))

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """See `Store.scan`. The ids are read at the first step; documents deleted later are skipped."""
        with self._translate_errors():
            index = self._get_index()
            keys = list(self._iter_keys(index)) if index is not None else []
            names = {key: name for key in keys if (name := from_record_id(key)) is not None}
            for batch in batches([key for key in keys if key not in names], _SCAN_BATCH):
                names.update((key, self._read_document(record).id) for key, record in self._fetch(batch).items())
            for batch in batches(sorted(names, key=names.__getitem__), _SCAN_BATCH):
                records = self._fetch(batch)
                for key in batch:
                    if key in records:
                        document = self._read_document(records[key])
                        yield document.id, document, np.array(records[key]["values"], np.float32)

    def close(self) -> None:
        """See `Store.close`."""
        if self._index is not None:
            self._index.close()
        self._client.close()

    def _get_index(self) -> Index | None:
        """The index; None if it does not exist. Another process may create it at any time."""
        with self._index_lock:
            if self._index is None:
                with suppress(NotFoundError):
                    self._open_index(self._client.indexes.describe(self._options.index_name))
            return self._index

    def _open_index(self, description: IndexModel) -> None:
        if description.metric not in {"dotproduct", "cosine"}:
            raise StoreError(f"the metric of {self._location} must be dotproduct or cosine (got {description.metric})")
        index = self._client.index(host=description.host or "")
        self._has_parts = self._parts_namespace in index.describe_index_stats().namespaces
        self._index, self._dimension = index, description.dimension or 0

    def _expected_dimension(self, shape: tuple[int, ...]) -> int | None:
        stored = self._dimension if self._get_index() is not None else 0
        return expected_dimension(stored, shape, lambda: not self._has_records(), self._options.dimension)

    def _ensure_index(self, dimension: int) -> Index:
        """Create the index, or replace an empty one of another dimension. Raises StoreError."""
        index = self._get_index()
        if index is not None and self._dimension == dimension:
            return index
        if index is not None:
            counts = index.describe_index_stats().namespaces.items()
            own = {self._namespace or "__default__", self._parts_namespace}
            other_namespaces = [name for name, statistics in counts if statistics.vector_count and name not in own]
            if other_namespaces:
                raise StoreError(
                    f"embedding dimension mismatch: {self._location} has {self._dimension} in other namespaces "
                    f"({other_namespaces[0]!r}), got {dimension}: choose another index with the option `index_name`"
                )
            index.close()
            self._index = None
            self._client.indexes.delete(self._options.index_name)
        spec = ServerlessSpec(cloud=self._options.cloud, region=self._options.region)
        with suppress(ConflictError):  # another process created it
            name = self._options.index_name
            self._client.indexes.create(name=name, dimension=dimension, metric="dotproduct", spec=spec)
        created = self._get_index()
        if created is None or self._dimension != dimension:
            raise StoreError(f"{self._location} was created but is not available: retry")
        return created

    def _search(
        self, index: Index, query: NDArray[np.float64], limit: int, clause: PineconeFilter | None
    ) -> list[SearchResult]:
        if limit > MAX_TOP_K:
            key_batches = batches(list(self._iter_keys(index)), _SCAN_BATCH)
            return [self._to_result(record, query) for keys in key_batches for record in self._fetch(keys).values()]
        is_complete = limit * (_MAX_RECORD_BYTES + _VALUE_BYTES * len(query)) <= MAX_ANSWER_BYTES
        for _ in range(_MAX_ATTEMPTS):
            answer = index.query(
                vector=query.tolist(),
                top_k=limit,
                filter=clause,
                namespace=self._namespace,
                include_values=is_complete,
                include_metadata=is_complete,
            )
            matches = list(answer.matches)
            if is_complete:
                records = [_to_record(match) for match in matches]
            else:
                records = list(self._fetch([match.id for match in matches]).values())
            if len(records) == len(matches):
                break
            # records were deleted between the two requests: retry, so that the next best take their place
        return [self._to_result(record, query) for record in records]

    def _to_result(self, record: PineconeRecord, query: NDArray[np.float64]) -> SearchResult:
        row = np.array(record["values"], np.float32)
        return SearchResult(self._read_document(record), float((row * query).sum()))

    def _read_document(self, record: PineconeRecord) -> Document:
        metadata = record["metadata"]
        if DOCUMENT_KEY in metadata:
            return document_from_json(str(metadata[DOCUMENT_KEY]))
        keys = part_keys(record["id"], metadata) if WRITE_KEY in metadata else []
        if not keys:
            raise StoreError(
                f"{self._location} has records that this store did not write: "
                "choose another `namespace` or `index_name`"
            )
        parts: dict[str, PineconeRecord] = {}

        def has_all_parts() -> bool:
            parts.update(self._fetch(keys, self._parts_namespace))
            return len(parts) == len(keys)

        self._wait_until(has_all_parts)
        return document_from_json("".join(str(parts[key]["metadata"][DOCUMENT_KEY]) for key in keys))

    def _has_records(self) -> bool:
        index = self._get_index()
        return index is not None and bool(list(index.list_paginated(limit=1, namespace=self._namespace).vectors))

    def _iter_keys(self, index: Index) -> Iterator[str]:
        for page in index.list(namespace=self._namespace, limit=_SCAN_BATCH):
            for item in page.vectors:
                yield cast("str", item.id)

    def _fetch(self, keys: Sequence[str], namespace: str | None = None) -> dict[str, PineconeRecord]:
        """The records with these keys, in their order; missing ones are skipped."""
        index = self._get_index()
        records: dict[str, PineconeRecord] = {}
        for batch in batches_by_size(keys, lambda key: len(quote(key)), MAX_FETCH_IDS, MAX_FETCH_CHARACTERS):
            if index is None:
                break
            answer = index.fetch(ids=batch, namespace=self._namespace if namespace is None else namespace)
            records.update((key, _to_record(answer.vectors[key])) for key in batch if key in answer.vectors)
        return records

    def _upsert(self, index: Index, records: Sequence[PineconeRecord], namespace: str) -> list[str]:
        """Upsert records; returns the last id of each request."""
        last_ids = []
        for batch in batches_by_size(records, _upsert_bytes, MAX_UPSERT_RECORDS, MAX_UPSERT_BYTES):
            index.upsert(vectors=batch, namespace=namespace)
            last_ids.append(batch[-1]["id"])
        return last_ids

    def _delete(self, index: Index, keys: Sequence[str], namespace: str) -> None:
        for batch in batches(keys, MAX_DELETE_IDS):
            with suppress(NotFoundError):  # the namespace does not exist
                index.delete(ids=list(batch), namespace=namespace)

    def _replaced_parts(self, keys: Sequence[str]) -> list[str]:
        """The keys of the parts of existing documents with these keys."""
        if not self._has_parts:
            return []
        return [part for key, record in self._fetch(keys).items() for part in part_keys(key, record["metadata"])]

    def _is_visible(self, write: str, keys: Sequence[str]) -> bool:
        records = self._fetch(keys)
        writes = [record["metadata"].get(WRITE_KEY) for record in records.values()]
        return len(records) == len(keys) == writes.count(write)

    def _wait_until(self, is_visible: Callable[[], bool]) -> None:
        """Wait until a write is visible to readers. Raises StoreError after `wait_seconds`."""
        deadline = time.monotonic() + self._options.wait_seconds
        pause = 0.005
        while not is_visible():
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{self._location} does not show a write after {self._options.wait_seconds:g} seconds: "
                    "retry later, or raise the option `wait_seconds`"
                )
            time.sleep(pause)
            pause = min(1.0, 1.5 * pause)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate the errors of the client."""
        try:
            yield
        except UnauthorizedError as error:
            raise StoreError("Pinecone rejected the API key: correct the option `api_key`") from error
        except RateLimitError as error:
            raise StoreError(
                f"{self._location} is rate limited: "
                f"retry later, or raise the option `retries` ({self._options.retries})"
            ) from error
        except PineconeConnectionError as error:
            raise StoreError(f"{self._location} cannot be reached ({error}): check the network and `host`") from error
        except ApiError as error:
            raise StoreError(f"{self._location} rejected a request: {error.status_code} {error.message}") from error
        except PineconeError as error:
            raise StoreError(f"{self._location} failed: {error}") from error


def _upsert_bytes(record: PineconeRecord) -> int:
    """Bytes of a record in a request, at most."""
    return _VALUE_BYTES * len(record["values"]) + 2 * len(str(record["metadata"]))


def _to_record(vector: Vector | ScoredVector) -> PineconeRecord:
    metadata = cast("dict[str, PineconeValue]", vector.metadata or {})
    return PineconeRecord(id=vector.id, values=list(vector.values), metadata=metadata)
