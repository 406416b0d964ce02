"""The store `milvus`: a collection of a Milvus server, or of Milvus Lite in this process.

Filters are pushed down as tokens and number ranges. What those cannot express (the order of strings, numbers in lists)
is decided by the reference evaluator.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray
from pymilvus import DataType, MilvusClient, MilvusException

from ragkit.batches import batches_by_size
from ragkit.errors import InvalidOption, KnowledgeBaseLocked, StoreError
from ragkit.records import Document, SearchResult
from ragkit.store.backends.adapter_utils import batches, collect_top_k, deduplicate_by_id, expected_dimension
from ragkit.store.backends.interrupts import delay_interrupts
from ragkit.store.backends.milvus_records import (
    MAX_PIECES,
    MilvusRow,
    join_document,
    primary_key,
    to_expression,
    to_row,
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
from ragkit.store.options import MilvusOptions
from ragkit.store.read_write_lock import ReadWriteLock
from ragkit.store.vector_store import VectorStore

MAX_TOP_K = 16_384
"""Milvus's limit for the results of a search."""
_FIELD_NAMES = {"key", "name", "document", "tokens", "over", "row"}
_DOCUMENT_FIELDS = ["document", "row"]
_UPSERT_ROWS = 5_000
_UPSERT_BYTES = 16 * 2**20
"""By default, a server rejects messages over 64 MiB."""
_READ_BATCH = 200
_FLUSH_ROWS = 5_000
_STOP_SECONDS = 1
"""How long Milvus Lite waits for running calls. If it does not, gRPC may write a line about it to standard error."""
_PAGE_ROWS = 2_000
_VALUE_BYTES = 4
_MAX_TEXT_BYTES = 65_535
_ITERATOR_LOGGER = "pymilvus.client.iterator.query_iterator"
_CALLS_LOGGER = "pymilvus.decorators"
_LITE_LOGGER = "milvus_lite"
_NULL_HANDLER = logging.NullHandler()


class MilvusStore(VectorStore):
    """Documents and vectors in a Milvus collection. Safe for several threads.

    A directory of Milvus Lite can be open in one store of one process at a time. A server may be shared, and is read
    with the consistency level `Strong`. A call of `add_documents` is atomic for readers in this process, but not in
    others. If a filter needs more candidates than Milvus returns (16,384), the whole collection is read. Ctrl-C takes
    effect after the call in progress, a second Ctrl-C at once.
    """

    persistent = True

    def __init__(self, options: MilvusOptions) -> None:
        """Open the directory, or connect to the server.

        Raises:
            DimensionMismatch: the stored vectors have another dimension.
            InvalidOption: neither `path` nor `uri` is set.
            KnowledgeBaseLocked: another store of this or another process has the directory open.
            StoreError: the server cannot be reached, or the collection was not created by this store.
        """
        if not str(options.path) and not options.uri:
            raise InvalidOption("path", "", "set, or the option `uri`")
        self._options = options
        self._collection_name = options.collection
        self._location = f"Milvus at {options.uri or options.path}"
        self._lock = ReadWriteLock()
        self._client: MilvusClient | None = None
        self._lite: ExitStack | None = None
        self._dimension = 0
        self._unflushed_rows = 0
        # the client warns at every iteration that Milvus Lite has no timestamps
        logging.getLogger(_ITERATOR_LOGGER).addFilter(_is_not_timestamp_notice)
        # the client logs errors that it also raises
        logging.getLogger(_CALLS_LOGGER).addFilter(_is_below_error)
        logging.getLogger(_LITE_LOGGER).addHandler(_NULL_HANDLER)
        try:
            with delay_interrupts(), self._translate_errors():
                uri = options.uri or self._start_lite()
                self._client = MilvusClient(uri, token=options.token, timeout=options.timeout_seconds, dedicated=True)
                stored = self._load_dimension()
                if stored and self._count(""):
                    validate_stored_dimension(stored, options.dimension)
        except BaseException:
            self.close()
            raise

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """See `Store.add_documents`."""
        if not documents:
            return []
        with self._writing():
            rows = validate_rows(embeddings, len(documents), self._expected_dimension(np.shape(embeddings)))
            unique, unique_rows = deduplicate_by_id(validate_documents(documents), rows)
            records = [to_row(document, row) for document, row in zip(unique, unique_rows, strict=True)]
            self._ensure_collection(rows.shape[1])
            for batch in batches_by_size(records, _upsert_bytes, _UPSERT_ROWS, _UPSERT_BYTES):
                values = [{**record, **numbers} for record, numbers in batch]
                self._require_client().upsert(self._collection_name, values)
            self._flush_if_due(len(records))
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """See `Store.search`; approximate with the method `hnsw`."""
        node = parse_filter(filter)
        condition = to_condition(node)
        top_k = validate_top_k(top_k)
        with self._reading():
            query = validate_query(query_embedding, self._expected_dimension(np.shape(query_embedding)))
            if condition is False or self._dimension != len(query):
                return []
            expression, query64 = to_expression(condition), query.astype(np.float64)
            exact = partial(self._exact_scores, query64)
            return collect_top_k(lambda limit: self._search(query, limit, expression), node, top_k, exact)

    def delete(self, ids: Sequence[str]) -> int:
        """See `Store.delete`."""
        keys = [primary_key(name) for name in validate_ids(ids)]
        removed = 0
        with self._writing():
            for batch in batches(keys, _PAGE_ROWS):
                existing = [row["key"] for row in self._get(batch, ["key"])]
                if existing:
                    self._require_client().delete(self._collection_name, ids=existing)
                    self._flush_if_due(len(existing))
                removed += len(existing)
        return removed

    def clear(self) -> None:
        """See `Store.clear`. The collection remains; an empty one is recreated for another dimension."""
        with self._writing():
            if self._load_dimension():
                self._require_client().delete(self._collection_name, filter='key != ""')
                self._flush_if_due(_FLUSH_ROWS)

    def count(self) -> int:
        """See `Store.count`."""
        with self._reading():
            return self._count("") if self._load_dimension() else 0

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """See `Store.scan`. The ids are read at the first step; documents deleted later are skipped."""
        with self._reading():
            pairs = self._iter_rows("", ["key", "name"]) if self._load_dimension() else iter(())
            keys = [key for _, key in sorted((json.loads(row["name"]), row["key"]) for row in pairs)]
        for batch in batches(keys, _READ_BATCH):
            with self._reading():
                documents = [(join_document(row["document"]), row["row"]) for row in self._get(batch, _DOCUMENT_FIELDS)]
            for document, row in sorted(documents, key=lambda pair: pair[0].id):
                yield document.id, document, np.array(row, np.float32)

    def close(self) -> None:
        """See `Store.close`."""
        with self._writing(), ExitStack() as stack:
            lite, self._lite = self._lite, None
            if lite is not None:
                stack.callback(lite.close)
            client, self._client = self._client, None
            if client is not None:
                stack.callback(client.close)
            if lite is not None and client is not None and self._unflushed_rows:
                # Milvus Lite flushes when it is closed too, but ignores disk errors
                client.flush(self._collection_name)
                self._unflushed_rows = 0

    def _start_lite(self) -> str:
        """Run Milvus Lite on the directory; returns its URI on the loopback interface."""
        # imported here: not needed for a server
        from milvus_lite.adapter.grpc.server import start_server_in_thread  # noqa: PLC0415
        from milvus_lite.exceptions import DataDirLockedError, MilvusLiteError  # noqa: PLC0415

        path = Path(self._options.path)
        if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not (path / "collections").is_dir())):
            raise StoreError(f"{path} is not a directory of the store 'milvus': choose another `path`")
        try:
            server, db, port = start_server_in_thread(data_dir=str(path), host="127.0.0.1", port=0)
        except DataDirLockedError as error:
            raise KnowledgeBaseLocked(str(path), "another process, or another store of this one") from error
        except (MilvusLiteError, OSError) as error:
            raise StoreError(f"Milvus Lite cannot open {path}: {error}") from error
        self._lite = ExitStack()  # the server is stopped before its database is closed
        self._lite.callback(db.close)
        self._lite.callback(lambda: server.stop(_STOP_SECONDS).wait())
        return f"http://127.0.0.1:{port}"

    def _require_client(self) -> MilvusClient:
        if self._client is None:
            raise StoreError(f"the store in {self._location} is closed: open it again")
        return self._client

    def _load_dimension(self) -> int:
        """The dimension of the collection; 0 if there is none. Another process may create it at any time."""
        if not self._dimension and self._require_client().has_collection(self._collection_name):
            layout = self._require_client().describe_collection(self._collection_name)
            fields = {field["name"]: field for field in layout["fields"]}
            if set(fields) != _FIELD_NAMES:
                raise StoreError(
                    f"the collection {self._collection_name!r} of {self._location} was not created by this store: "
                    "choose another name with its option `collection`"
                )
            self._require_client().load_collection(self._collection_name)
            self._dimension = int(fields["row"]["params"]["dim"])
        return self._dimension

    def _flush_if_due(self, rows: int) -> None:
        """Flush Milvus Lite after many writes: it searches unflushed rows many times more slowly."""
        self._unflushed_rows += rows
        if self._lite is not None and self._unflushed_rows >= _FLUSH_ROWS:
            self._require_client().flush(self._collection_name)
            self._unflushed_rows = 0

    def _expected_dimension(self, shape: tuple[int, ...]) -> int | None:
        return expected_dimension(self._load_dimension(), shape, lambda: not self._count(""), self._options.dimension)

    def _ensure_collection(self, dimension: int) -> None:
        """Create the collection, or replace an empty one of another dimension."""
        if self._dimension == dimension:
            return
        client, options = self._require_client(), self._options
        if self._dimension:
            client.drop_collection(self._collection_name)
        schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
        schema.add_field("key", DataType.VARCHAR, is_primary=True, max_length=64)
        schema.add_field("name", DataType.VARCHAR, max_length=_MAX_TEXT_BYTES)
        pieces = {"element_type": DataType.VARCHAR, "max_length": _MAX_TEXT_BYTES, "max_capacity": MAX_PIECES}
        schema.add_field("document", DataType.ARRAY, **pieces)
        schema.add_field("tokens", DataType.VARCHAR, max_length=_MAX_TEXT_BYTES)
        schema.add_field("over", DataType.BOOL)
        schema.add_field("row", DataType.FLOAT_VECTOR, dim=dimension)
        index = client.prepare_index_params()
        settings = {"M": options.m, "efConstruction": options.ef_construction} if options.method == "hnsw" else {}
        kind = "HNSW" if options.method == "hnsw" else "FLAT"
        index.add_index("row", index_type=kind, metric_type="IP", params=settings)
        client.create_collection(self._collection_name, schema=schema, index_params=index, consistency_level="Strong")
        self._dimension = dimension

    def _search(self, query: Rows, limit: int, expression: str) -> list[SearchResult]:
        if limit <= MAX_TOP_K:
            settings = {"ef": max(self._options.ef, limit)} if self._options.method == "hnsw" else {}
            [hits] = self._require_client().search(
                self._collection_name,
                data=[query.tolist()],
                anns_field="row",
                limit=limit,
                filter=expression,
                output_fields=["document"],
                search_params={"metric_type": "IP", "params": settings},
            )
            results = [SearchResult(join_document(hit["entity"]["document"]), hit["distance"]) for hit in hits]
            # a graph search may return too few
            if len(results) == limit or self._options.method == "exact" or self._count(expression) == len(results):
                return results
        query64 = query.astype(np.float64)
        return [
            SearchResult(join_document(row["document"]), _score(row, query64))
            for row in self._iter_rows(expression, _DOCUMENT_FIELDS)
        ]

    def _exact_scores(self, query: NDArray[np.float64], documents: Sequence[Document]) -> list[float]:
        """Exact scores; -1 for documents that another client has deleted."""
        keys = [primary_key(document.id) for document in documents]
        fetched = (row for batch in batches(keys, _READ_BATCH) for row in self._get(batch, ["key", "row"]))
        scores = {row["key"]: _score(row, query) for row in fetched}
        return [scores.get(key, -1.0) for key in keys]

    def _count(self, expression: str) -> int:
        [row] = self._require_client().query(self._collection_name, filter=expression, output_fields=["count(*)"])
        return int(row["count(*)"])

    def _get(self, keys: Sequence[str], fields: Sequence[str]) -> list[Mapping[str, Any]]:
        if not keys or not self._load_dimension():
            return []
        return list(self._require_client().get(self._collection_name, ids=list(keys), output_fields=list(fields)))

    def _iter_rows(self, expression: str, fields: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        pages = self._require_client().query_iterator(
            self._collection_name, batch_size=_PAGE_ROWS, filter=expression, output_fields=list(fields)
        )
        try:
            while rows := pages.next():
                yield from rows
        finally:
            pages.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """For calls of the client that only read."""
        with delay_interrupts(), self._translate_errors(), self._lock.read():
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """For calls of the client that write."""
        with delay_interrupts(), self._translate_errors(), self._lock.write():
            yield

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate the errors of the client."""
        try:
            yield
        except MilvusException as error:
            raise StoreError(f"{self._location} failed: {' '.join(str(error.message).split())}") from error
        except grpc.RpcError as error:
            raise StoreError(f"{self._location} cannot be reached: start it, or correct the option `uri`") from error


def _is_below_error(record: logging.LogRecord) -> bool:
    return record.levelno < logging.ERROR


def _is_not_timestamp_notice(record: logging.LogRecord) -> bool:
    return "mvccTs" not in record.getMessage()


def _upsert_bytes(row: tuple[MilvusRow, Mapping[str, float]]) -> int:
    """Bytes of a row in a request, approximately."""
    record, _ = row
    return _VALUE_BYTES * len(record["row"]) + sum(map(len, record["document"])) + len(record["tokens"])


def _score(row: Mapping[str, Any], query: NDArray[np.float64]) -> float:
    return float((np.array(row["row"], np.float32) * query).sum())
