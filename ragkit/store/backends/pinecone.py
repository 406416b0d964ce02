"""The store in Pinecone: a namespace of an index, through the official client.

Filters are pushed down as tokens and ranges of numbers; what those cannot say (the order of strings, numbers in lists)
is fetched over and looked at again. Reads of the service lag behind writes: each write waits until readers see it.
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

from ragkit.errors import DimensionMismatch, StoreError
from ragkit.records import Document, SearchResult
from ragkit.store.backends.adapter_utils import (
    EngineHit,
    batches,
    batches_by_size,
    collect_top_k,
    deduplicate_by_id,
    document_from_json,
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
    validate_top_k,
)
from ragkit.store.filters.language import parse_filter
from ragkit.store.filters.pushdown import to_condition
from ragkit.store.options import PARTS_NAMESPACE_SUFFIX, PineconeOptions
from ragkit.store.vector_store import VectorStore

MAX_UPSERT_RECORDS = 1_000
MAX_UPSERT_BYTES = 1_800_000
"""Pinecone takes 2 MB."""
MAX_ANSWER_BYTES = 3_500_000
"""Pinecone gives 4 MB."""
MAX_TOP_K = 10_000
MAX_DELETE_IDS = 1_000
MAX_FETCH_IDS = 100
MAX_FETCH_CHARACTERS = 6_000
"""Ids are asked for in the address of a request, which must not be too long."""
MAX_EXACT_COUNT = 10_000
"""Up to so many records are counted one by one; above it the service's own count is given, which lags."""
_VALUE_BYTES = 22
"""What a number takes as JSON."""
_MAX_RECORD_BYTES = 41_000
_MAX_ATTEMPTS = 5
_SCAN_BATCH = 100


class PineconeStore(VectorStore):
    """Documents and rows in a namespace of an index of Pinecone. Safe for several threads.

    What this process wrote is seen by it when the call returns; other processes see it a little earlier or later. A
    call of `add_documents` is seen piece by piece where it takes more than one request (1,000 documents or 2 MB).
    Scores are computed from the rows that come back. Documents of over 40 KB are kept in parts, in a second
    namespace. A search that Pinecone cannot answer with 10,000 candidates reads the whole namespace.
    """

    persistent = True

    def __init__(self, options: PineconeOptions) -> None:
        """Look for the index.

        Raises:
            DimensionMismatch: the index holds rows of another width than the options say.
            StoreError: the service cannot be reached, or does not take the key.
        """
        self._options = options
        self._namespace, self._parts_namespace = (
            options.namespace,
            (options.namespace or "default") + PARTS_NAMESPACE_SUFFIX,
        )
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
                    raise DimensionMismatch(options.dimension or 0, self._dimension)
            except BaseException:
                self.close()
                raise

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """As `Store.add_documents` says; returns when readers see the documents.

        Raises also:
            StoreError: the documents are not visible after `wait_seconds`.
        """
        if not documents:
            return []
        with self._translate_errors(), self._write_lock:
            rows = validate_rows(embeddings, len(documents), self._expected_dimension(np.shape(embeddings)))
            kept, kept_rows = deduplicate_by_id(validate_documents(documents), rows)
            write = secrets.token_hex(4)
            made = [to_records(document, row, write) for document, row in zip(kept, kept_rows, strict=True)]
            index = self._ensure_index(rows.shape[1])
            old = self._replaced_parts([each.main["id"] for each in made])
            parts = [part for each in made for part in each.parts]
            self._upsert(index, parts, self._parts_namespace)
            last = self._upsert(index, [each.main for each in made], self._namespace)
            self._wait_until(lambda: self._is_visible(write, last))
            self._delete(index, old, self._parts_namespace)
            self._has_parts = self._has_parts or bool(parts)
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """As `Store.search` says, as near as Pinecone finds them."""
        node = parse_filter(filter)
        condition = to_condition(node)
        top_k = validate_top_k(top_k)
        with self._translate_errors():
            query = validate_query(query_embedding, self._expected_dimension(np.shape(query_embedding)))
            index = self._get_index()
            if index is None or condition is False or self._dimension != len(query):
                return []
            clause, wide = to_pinecone_filter(condition), query.astype(np.float64)
            return collect_top_k(lambda limit: self._search(index, wide, limit, clause), node, top_k)

    def delete(self, ids: Sequence[str]) -> int:
        """As `Store.delete` says."""
        keys = [to_record_id(name) for name in validate_ids(ids)]
        with self._translate_errors(), self._write_lock:
            index = self._get_index()
            if index is None:
                return 0
            there = self._fetch(keys)
            if there:
                self._delete(index, list(there), self._namespace)
                self._wait_until(lambda: not self._fetch(list(there)))
                parts = [part for key, record in there.items() for part in part_keys(key, record["metadata"])]
                self._delete(index, parts, self._parts_namespace)
            return len(there)

    def clear(self) -> None:
        """As `Store.clear` says. The index stays; one without any records takes rows of another width."""
        with self._translate_errors(), self._write_lock:
            index = self._get_index()
            if index is None:
                return
            for space in (self._namespace, self._parts_namespace):
                with suppress(NotFoundError):  # there is no such namespace
                    index.delete(delete_all=True, namespace=space)
            self._wait_until(lambda: not self._has_records())

    def count(self) -> int:
        """As `Store.count` says; of more than 10,000 the service's own count, which lags behind."""
        with self._translate_errors():
            index = self._get_index()
            if index is None:
                return 0
            here = index.describe_index_stats().namespaces.get(self._namespace or "__default__")
            if here is not None and here.vector_count > MAX_EXACT_COUNT:
                return int(here.vector_count)
            return sum(1 for _ in self._iter_keys(index))

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """As `Store.scan` says. The ids are gathered first; what is deleted meanwhile is left out."""
        with self._translate_errors():
            index = self._get_index()
            keys = list(self._iter_keys(index)) if index is not None else []
            named = {key: name for key in keys if (name := from_record_id(key)) is not None}
            for some in batches([key for key in keys if key not in named], _SCAN_BATCH):
                named.update((key, self._read_document(record).id) for key, record in self._fetch(some).items())
            for some in batches(sorted(named, key=named.__getitem__), _SCAN_BATCH):
                there = self._fetch(some)
                for key in some:
                    if key in there:
                        document = self._read_document(there[key])
                        yield document.id, document, np.array(there[key]["values"], np.float32)

    def close(self) -> None:
        """As `Store.close` says."""
        if self._index is not None:
            self._index.close()
        self._client.close()

    def _get_index(self) -> Index | None:
        """The index; None where there is none. Another process may have made it meanwhile."""
        with self._index_lock:
            if self._index is None:
                with suppress(NotFoundError):
                    self._open_index(self._client.indexes.describe(self._options.index_name))
            return self._index

    def _open_index(self, found: IndexModel) -> None:
        if found.metric not in {"dotproduct", "cosine"}:
            raise StoreError(f"{self._location} compares rows by {found.metric}: dotproduct or cosine is wanted")
        index = self._client.index(host=found.host or "")
        self._has_parts = self._parts_namespace in index.describe_index_stats().namespaces
        self._index, self._dimension = index, found.dimension or 0

    def _expected_dimension(self, shape: tuple[int, ...]) -> int | None:
        """The columns that rows must have; None for any. An empty namespace holds nobody to its width."""
        here = self._dimension if self._get_index() is not None else 0
        if here and here not in shape[-1:] and not self._has_records():
            here = 0
        return here or self._options.dimension

    def _ensure_index(self, dimension: int) -> Index:
        """The index, made or made anew for rows of this width; `_wanted` has seen that it may be."""
        index = self._get_index()
        if index is not None and self._dimension == dimension:
            return index
        if index is not None:
            counts = index.describe_index_stats().namespaces.items()
            others = [name for name, each in counts if each.vector_count and name not in self._own_namespaces()]
            if others:
                raise StoreError(
                    f"{self._location} holds rows of {self._dimension} columns in {others[0]!r} and more namespaces, "
                    f"{dimension} are wanted: choose another index with the option `index_name`"
                )
            index.close()
            self._index = None
            self._client.indexes.delete(self._options.index_name)
        spec = ServerlessSpec(cloud=self._options.cloud, region=self._options.region)
        with suppress(ConflictError):  # another process was faster
            self._client.indexes.create(
                name=self._options.index_name, dimension=dimension, metric="dotproduct", spec=spec
            )
        made = self._get_index()
        if made is None or self._dimension != dimension:
            raise StoreError(f"{self._location} was made, and is not there: try again")
        return made

    def _own_namespaces(self) -> set[str]:
        return {self._namespace or "__default__", self._parts_namespace}

    def _search(
        self, index: Index, query: NDArray[np.float64], limit: int, clause: PineconeFilter | None
    ) -> list[EngineHit]:
        if limit > MAX_TOP_K:
            return [self._to_hit(record, query) for some in batches(list(self._iter_keys(index)), _SCAN_BATCH)
                    for record in self._fetch(some).values()]  # fmt: skip
        whole = limit * (_MAX_RECORD_BYTES + _VALUE_BYTES * len(query)) <= MAX_ANSWER_BYTES
        for _ in range(_MAX_ATTEMPTS):
            answer = index.query(
                vector=query.tolist(),
                top_k=limit,
                filter=clause,
                namespace=self._namespace,
                include_values=whole,
                include_metadata=whole,
            )
            matches = list(answer.matches)
            if whole:
                records = [_to_record(match) for match in matches]
            else:
                records = list(self._fetch([match.id for match in matches]).values())
            if len(records) == len(matches):
                break
            # some were deleted between the two requests: look again, so that none is missed in their place
        return [self._to_hit(record, query) for record in records]

    def _to_hit(self, record: PineconeRecord, query: NDArray[np.float64]) -> EngineHit:
        row = np.array(record["values"], np.float32)
        return EngineHit(self._read_document(record), float((row * query).sum()))

    def _read_document(self, record: PineconeRecord) -> Document:
        metadata = record["metadata"]
        if DOCUMENT_KEY in metadata:
            return document_from_json(str(metadata[DOCUMENT_KEY]))
        keys = part_keys(record["id"], metadata) if WRITE_KEY in metadata else []
        if not keys:
            raise StoreError(
                f"{self._location} holds records of somebody else: choose another `namespace` or `index_name`"
            )
        there: dict[str, PineconeRecord] = {}

        def is_whole() -> bool:
            there.update(self._fetch(keys, self._parts_namespace))
            return len(there) == len(keys)

        self._wait_until(is_whole)
        return document_from_json("".join(str(there[key]["metadata"][DOCUMENT_KEY]) for key in keys))

    def _has_records(self) -> bool:
        """Whether there is any record."""
        index = self._get_index()
        return index is not None and bool(list(index.list_paginated(limit=1, namespace=self._namespace).vectors))

    def _iter_keys(self, index: Index) -> Iterator[str]:
        for page in index.list(namespace=self._namespace, limit=_SCAN_BATCH):
            for item in page.vectors:
                yield cast("str", item.id)

    def _fetch(self, keys: Sequence[str], space: str | None = None) -> dict[str, PineconeRecord]:
        """Those of the records that are there, in the order of the keys."""
        index = self._get_index()
        found: dict[str, PineconeRecord] = {}
        for some in batches_by_size(keys, [len(quote(key)) for key in keys], MAX_FETCH_IDS, MAX_FETCH_CHARACTERS):
            if index is None:
                break
            answer = index.fetch(ids=some, namespace=self._namespace if space is None else space)
            found.update((key, _to_record(answer.vectors[key])) for key in some if key in answer.vectors)
        return found

    def _upsert(self, index: Index, records: Sequence[PineconeRecord], space: str) -> list[str]:
        """Put records in; returns the last id of each request."""
        sizes = [_VALUE_BYTES * len(each["values"]) + 2 * len(str(each["metadata"])) for each in records]
        last = []
        for some in batches_by_size(records, sizes, MAX_UPSERT_RECORDS, MAX_UPSERT_BYTES):
            index.upsert(vectors=some, namespace=space)
            last.append(some[-1]["id"])
        return last

    def _delete(self, index: Index, keys: Sequence[str], space: str) -> None:
        for some in batches(keys, MAX_DELETE_IDS):
            with suppress(NotFoundError):  # there is no such namespace
                index.delete(ids=list(some), namespace=space)

    def _replaced_parts(self, keys: Sequence[str]) -> list[str]:
        """The parts of documents that are about to be replaced."""
        if not self._has_parts:
            return []
        there = self._fetch(keys)
        return [part for key, record in there.items() for part in part_keys(key, record["metadata"])]

    def _is_visible(self, write: str, keys: Sequence[str]) -> bool:
        there = self._fetch(keys)
        return len(there) == len(keys) and all(each["metadata"].get(WRITE_KEY) == write for each in there.values())

    def _wait_until(self, is_seen: Callable[[], bool]) -> None:
        """Wait until readers see what was written."""
        deadline = time.monotonic() + self._options.wait_seconds
        pause = 0.005
        while not is_seen():
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{self._location} does not show a write after {self._options.wait_seconds:g} seconds: "
                    "retry later, or raise the option `wait_seconds`"
                )
            time.sleep(pause)
            pause = min(1.0, 1.5 * pause)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """The client's errors as ours."""
        try:
            yield
        except UnauthorizedError as error:
            raise StoreError("Pinecone does not take the key: correct the option `api_key`") from error
        except RateLimitError as error:
            raise StoreError(
                f"{self._location} is too busy: try again later, or raise the option `retries` ({self._options.retries})"
            ) from error
        except PineconeConnectionError as error:
            raise StoreError(f"{self._location} cannot be reached ({error}): check the network and `host`") from error
        except ApiError as error:
            raise StoreError(f"{self._location} refused a request: {error.status_code} {error.message}") from error
        except PineconeError as error:
            raise StoreError(f"{self._location} cannot be used: {error}") from error


def _to_record(vector: Vector | ScoredVector) -> PineconeRecord:
    return PineconeRecord(
        id=vector.id, values=list(vector.values), metadata=cast("dict[str, PineconeValue]", vector.metadata or {})
    )
