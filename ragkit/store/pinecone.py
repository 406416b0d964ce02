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
from ragkit.store.base import Filter, Rows, checked_documents, checked_ids, checked_query, checked_rows, checked_top_k
from ragkit.store.facade import VectorStore
from ragkit.store.filters import parse_filter
from ragkit.store.pinecone_records import (
    DOCUMENT,
    WRITE,
    Clause,
    Record,
    Value,
    clause_of,
    key_of,
    name_of,
    part_keys,
    records_of,
)
from ragkit.store.portable import Found, complete, document_of, last_of_each, runs, runs_by_size
from ragkit.store.pushdown import condition_of
from ragkit.store.server_options import PARTS, PineconeOptions

MAX_UPSERT_RECORDS = 1_000
MAX_UPSERT_BYTES = 1_800_000
"""Pinecone takes 2 MB."""
MAX_ANSWER_BYTES = 3_500_000
"""Pinecone gives 4 MB."""
MAX_TOP_K = 10_000
MAX_DELETE = 1_000
MAX_FETCH = 100
MAX_FETCH_CHARACTERS = 6_000
"""Ids are asked for in the address of a request, which must not be too long."""
EXACT_COUNT = 10_000
"""Up to so many records are counted one by one; above it the service's own count is given, which lags."""
_VALUE_BYTES = 22
"""What a number takes as JSON."""
_RECORD_BYTES = 41_000
_PATIENCE = 5
_SCAN = 100


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
        self._space, self._parts_space = options.namespace, (options.namespace or "default") + PARTS
        self._where = f"Pinecone's index {options.index_name!r}"
        self._writing, self._finding = threading.Lock(), threading.Lock()
        self._index: Index | None = None
        self._dimension = 0
        self._has_parts = False
        with self._translated():
            retries = RetryConfig(max_retries=options.retries, max_wait=options.wait_seconds)
            self._client = Pinecone(options.api_key, host=options.host or None, retry_config=retries)
            try:
                if self._find() and options.dimension not in {None, self._dimension} and self._first():
                    raise DimensionMismatch(options.dimension or 0, self._dimension)
            except BaseException:
                self.close()
                raise

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """As `Store.add_documents` says; returns when readers see the documents.

        Raises also:
            StoreError: they are not seen within `wait_seconds`.
        """
        if not documents:
            return []
        with self._translated(), self._writing:
            rows = checked_rows(embeddings, len(documents), self._wanted(np.shape(embeddings)))
            kept, kept_rows = last_of_each(checked_documents(documents), rows)
            write = secrets.token_hex(4)
            made = [records_of(document, row, write) for document, row in zip(kept, kept_rows, strict=True)]
            index = self._lay_out(rows.shape[1])
            old = self._old_parts([each.main["id"] for each in made])
            parts = [part for each in made for part in each.parts]
            self._upsert(index, parts, self._parts_space)
            last = self._upsert(index, [each.main for each in made], self._space)
            self._until(lambda: self._shows(write, last))
            self._delete(index, old, self._parts_space)
            self._has_parts = self._has_parts or bool(parts)
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """As `Store.search` says, as near as Pinecone finds them."""
        node = parse_filter(filter)
        condition = condition_of(node)
        top_k = checked_top_k(top_k)
        with self._translated():
            query = checked_query(query_embedding, self._wanted(np.shape(query_embedding)))
            index = self._find()
            if index is None or condition is False or self._dimension != len(query):
                return []
            clause, wide = clause_of(condition), query.astype(np.float64)
            return complete(lambda limit: self._nearest(index, wide, limit, clause), node, top_k)

    def delete(self, ids: Sequence[str]) -> int:
        """As `Store.delete` says."""
        keys = [key_of(name) for name in checked_ids(ids)]
        with self._translated(), self._writing:
            index = self._find()
            if index is None:
                return 0
            there = self._fetch(keys)
            if there:
                self._delete(index, list(there), self._space)
                self._until(lambda: not self._fetch(list(there)))
                parts = [part for key, record in there.items() for part in part_keys(key, record["metadata"])]
                self._delete(index, parts, self._parts_space)
            return len(there)

    def clear(self) -> None:
        """As `Store.clear` says. The index stays; one without any records takes rows of another width."""
        with self._translated(), self._writing:
            index = self._find()
            if index is None:
                return
            for space in (self._space, self._parts_space):
                with suppress(NotFoundError):  # there is no such namespace
                    index.delete(delete_all=True, namespace=space)
            self._until(lambda: not self._first())

    def count(self) -> int:
        """As `Store.count` says; of more than 10,000 the service's own count, which lags behind."""
        with self._translated():
            index = self._find()
            if index is None:
                return 0
            here = index.describe_index_stats().namespaces.get(self._space or "__default__")
            if here is not None and here.vector_count > EXACT_COUNT:
                return int(here.vector_count)
            return sum(1 for _ in self._keys(index))

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """As `Store.scan` says. The ids are gathered first; what is deleted meanwhile is left out."""
        with self._translated():
            index = self._find()
            keys = list(self._keys(index)) if index is not None else []
            named = {key: name for key in keys if (name := name_of(key)) is not None}
            for some in runs([key for key in keys if key not in named], _SCAN):
                named.update((key, self._document(record).id) for key, record in self._fetch(some).items())
            for some in runs(sorted(named, key=named.__getitem__), _SCAN):
                there = self._fetch(some)
                for key in some:
                    if key in there:
                        document = self._document(there[key])
                        yield document.id, document, np.array(there[key]["values"], np.float32)

    def close(self) -> None:
        """As `Store.close` says."""
        if self._index is not None:
            self._index.close()
        self._client.close()

    def _find(self) -> Index | None:
        """The index; None where there is none. Another process may have made it meanwhile."""
        with self._finding:
            if self._index is None:
                with suppress(NotFoundError):
                    self._open(self._client.indexes.describe(self._options.index_name))
            return self._index

    def _open(self, found: IndexModel) -> None:
        if found.metric not in {"dotproduct", "cosine"}:
            raise StoreError(f"{self._where} compares rows by {found.metric}: dotproduct or cosine is wanted")
        index = self._client.index(host=found.host or "")
        self._has_parts = self._parts_space in index.describe_index_stats().namespaces
        self._index, self._dimension = index, found.dimension or 0

    def _wanted(self, shape: tuple[int, ...]) -> int | None:
        """The columns that rows must have; None for any. An empty namespace holds nobody to its width."""
        here = self._dimension if self._find() is not None else 0
        if here and here not in shape[-1:] and not self._first():
            here = 0
        return here or self._options.dimension

    def _lay_out(self, dimension: int) -> Index:
        """The index, made or made anew for rows of this width; `_wanted` has seen that it may be."""
        index = self._find()
        if index is not None and self._dimension == dimension:
            return index
        if index is not None:
            counts = index.describe_index_stats().namespaces.items()
            others = [name for name, each in counts if each.vector_count and name not in self._own_spaces()]
            if others:
                raise StoreError(
                    f"{self._where} holds rows of {self._dimension} columns in {others[0]!r} and more namespaces, "
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
        made = self._find()
        if made is None or self._dimension != dimension:
            raise StoreError(f"{self._where} was made, and is not there: try again")
        return made

    def _own_spaces(self) -> set[str]:
        return {self._space or "__default__", self._parts_space}

    def _nearest(self, index: Index, query: NDArray[np.float64], limit: int, clause: Clause | None) -> list[Found]:
        if limit > MAX_TOP_K:
            return [self._found(record, query) for some in runs(list(self._keys(index)), _SCAN)
                    for record in self._fetch(some).values()]  # fmt: skip
        whole = limit * (_RECORD_BYTES + _VALUE_BYTES * len(query)) <= MAX_ANSWER_BYTES
        for _ in range(_PATIENCE):
            answer = index.query(
                vector=query.tolist(),
                top_k=limit,
                filter=clause,
                namespace=self._space,
                include_values=whole,
                include_metadata=whole,
            )
            matches = list(answer.matches)
            if whole:
                records = [_record(match) for match in matches]
            else:
                records = list(self._fetch([match.id for match in matches]).values())
            if len(records) == len(matches):
                break
            # some were deleted between the two requests: look again, so that none is missed in their place
        return [self._found(record, query) for record in records]

    def _found(self, record: Record, query: NDArray[np.float64]) -> Found:
        row = np.array(record["values"], np.float32)
        return Found(self._document(record), float((row * query).sum()))

    def _document(self, record: Record) -> Document:
        metadata = record["metadata"]
        if DOCUMENT in metadata:
            return document_of(str(metadata[DOCUMENT]))
        keys = part_keys(record["id"], metadata) if WRITE in metadata else []
        if not keys:
            raise StoreError(
                f"{self._where} holds records of somebody else: choose another `namespace` or `index_name`"
            )
        there: dict[str, Record] = {}

        def is_whole() -> bool:
            there.update(self._fetch(keys, self._parts_space))
            return len(there) == len(keys)

        self._until(is_whole)
        return document_of("".join(str(there[key]["metadata"][DOCUMENT]) for key in keys))

    def _first(self) -> bool:
        """Whether there is any record."""
        index = self._find()
        return index is not None and bool(list(index.list_paginated(limit=1, namespace=self._space).vectors))

    def _keys(self, index: Index) -> Iterator[str]:
        for page in index.list(namespace=self._space, limit=_SCAN):
            for item in page.vectors:
                yield cast("str", item.id)

    def _fetch(self, keys: Sequence[str], space: str | None = None) -> dict[str, Record]:
        """Those of the records that are there, in the order of the keys."""
        index = self._find()
        found: dict[str, Record] = {}
        for some in runs_by_size(keys, [len(quote(key)) for key in keys], MAX_FETCH, MAX_FETCH_CHARACTERS):
            if index is None:
                break
            answer = index.fetch(ids=some, namespace=self._space if space is None else space)
            found.update((key, _record(answer.vectors[key])) for key in some if key in answer.vectors)
        return found

    def _upsert(self, index: Index, records: Sequence[Record], space: str) -> list[str]:
        """Put records in; returns the last id of each request."""
        sizes = [_VALUE_BYTES * len(each["values"]) + 2 * len(str(each["metadata"])) for each in records]
        last = []
        for some in runs_by_size(records, sizes, MAX_UPSERT_RECORDS, MAX_UPSERT_BYTES):
            index.upsert(vectors=some, namespace=space)
            last.append(some[-1]["id"])
        return last

    def _delete(self, index: Index, keys: Sequence[str], space: str) -> None:
        for some in runs(keys, MAX_DELETE):
            with suppress(NotFoundError):  # there is no such namespace
                index.delete(ids=list(some), namespace=space)

    def _old_parts(self, keys: Sequence[str]) -> list[str]:
        """The parts of documents that are about to be replaced."""
        if not self._has_parts:
            return []
        there = self._fetch(keys)
        return [part for key, record in there.items() for part in part_keys(key, record["metadata"])]

    def _shows(self, write: str, keys: Sequence[str]) -> bool:
        there = self._fetch(keys)
        return len(there) == len(keys) and all(each["metadata"].get(WRITE) == write for each in there.values())

    def _until(self, is_seen: Callable[[], bool]) -> None:
        """Wait until readers see what was written."""
        deadline = time.monotonic() + self._options.wait_seconds
        pause = 0.005
        while not is_seen():
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{self._where} does not show what was written within {self._options.wait_seconds:g} seconds: "
                    "look again later, or raise the option `wait_seconds`"
                )
            time.sleep(pause)
            pause = min(1.0, 1.5 * pause)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """The client's errors as ours."""
        try:
            yield
        except UnauthorizedError as error:
            raise StoreError("Pinecone does not take the key: correct the option `api_key`") from error
        except RateLimitError as error:
            raise StoreError(
                f"{self._where} is too busy: try again later, or raise the option `retries` ({self._options.retries})"
            ) from error
        except PineconeConnectionError as error:
            raise StoreError(f"{self._where} cannot be reached ({error}): check the network and `host`") from error
        except ApiError as error:
            raise StoreError(f"{self._where} refused a request: {error.status_code} {error.message}") from error
        except PineconeError as error:
            raise StoreError(f"{self._where} cannot be used: {error}") from error


def _record(vector: Vector | ScoredVector) -> Record:
    return Record(id=vector.id, values=list(vector.values), metadata=cast("dict[str, Value]", vector.metadata or {}))
