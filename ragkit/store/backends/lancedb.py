"""The store `lancedb`: a LanceDB table, searched exactly by a scan, or with an index if the options set one.

Filters are pushed down as conditions on hashes of field values (`lancedb_records`). Ranges over the elements of a list
and numbers beyond 2**53 are decided by the reference evaluator, with more candidates fetched until the results are
complete. Results of an index are scored again from their vectors.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np

os.environ.setdefault("LANCEDB_LOG", "error")  # it logs new tables to stderr

import lancedb
import pyarrow as pa
from lancedb.index import HnswSq, IvfPq
from lancedb.query import LanceVectorQueryBuilder
from lancedb.table import Table

from ragkit.errors import StoreError
from ragkit.records import Document, SearchResult
from ragkit.store.backends.adapter_utils import (
    batches,
    collect_top_k,
    deduplicate_by_id,
    document_from_json,
    document_to_json,
)
from ragkit.store.backends.interrupts import delay_interrupts
from ragkit.store.backends.lancedb_records import encode_metadata, id_to_hex, keys_condition, to_datafusion_sql
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
from ragkit.store.filters.pushdown import Condition, hash_name, to_condition
from ragkit.store.options import LancedbOptions
from ragkit.store.vector_store import VectorStore

_READ_BATCH = 1_000
"""Documents that are read at a time."""
_DELETE_BATCH = 10_000
"""Ids in one condition."""
_INDEX_NAME = "ragkit"
_DIMENSIONS_PER_SUBVECTOR = 8
"""Dimensions per byte of a product-quantized vector."""
_OPTIMIZE_WRITES, _MAX_WRITES = 32, 512
"""Writes after which small files are merged and old versions removed: after the first number if the writes changed a
fifth of the rows, after the second in any case. This copies a table of up to a million rows."""
_OPTIMIZE_SHARE = 0.2


class LancedbStore(VectorStore):
    """Documents and vectors in a LanceDB table. Safe for several threads and processes."""

    persistent = True
    shared = True

    def __init__(self, options: LancedbOptions) -> None:
        """Open the table; it is created by the first write.

        Raises:
            DimensionMismatch: the stored vectors have another dimension.
            StoreError: the directory cannot be opened.
        """
        self._options = options
        self._path = Path(options.path)
        self._table_name = options.table
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", self._table_name):
            self._table_name = f"t-{hash_name(self._table_name)}"
        self._write_lock = threading.Lock()
        self._idle_lock = threading.Lock()
        self._idle_tables: list[Table] | None = []
        self._writes = 0
        self._written_rows = math.inf  # unknown: other processes may have written
        with delay_interrupts(), _translate_errors(self._path):
            self._database = lancedb.connect(self._path)
            with self._latest_table() as table:
                stored = _read_dimension(table)
        validate_stored_dimension(stored, options.dimension)

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """See `Store.add_documents`; one call is one commit."""
        if not documents:
            return []
        validated = validate_documents(documents)
        with self._write_lock, delay_interrupts(), _translate_errors(self._path), self._latest_table() as latest:
            dimension = _read_dimension(latest)
            rows = validate_rows(embeddings, len(validated), dimension or self._options.dimension)
            unique, rows = deduplicate_by_id(validated, rows)
            schema = _table_schema(rows.shape[1])
            table = latest
            if table is None or not dimension:
                table = self._create_table(schema, exists=table is not None)
            merge = table.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
            merge.execute(_to_arrow(unique, rows, schema))
            self._record_write(table, len(unique))
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """See `Store.search`; reads the state committed by any process when it starts."""
        node = parse_filter(filter)
        top_k = validate_top_k(top_k)
        with delay_interrupts(), _translate_errors(self._path), self._latest_table() as table:
            dimension = _read_dimension(table, np.shape(query_embedding))
            query = validate_query(query_embedding, dimension or self._options.dimension)
            if table is None or not dimension:
                return []
            condition = to_condition(node)
            return collect_top_k(lambda limit: self._search(table, query, condition, limit), node, top_k)

    def delete(self, ids: Sequence[str]) -> int:
        """See `Store.delete`; commits in batches of 10,000."""
        keys = [id_to_hex(name) for name in validate_ids(ids)]
        with self._write_lock, delay_interrupts(), _translate_errors(self._path), self._latest_table() as table:
            if table is None:
                return 0
            removed = sum(_delete_where(table, keys_condition(batch)) for batch in batches(keys, _DELETE_BATCH))
            if removed:
                self._record_write(table, removed)
        return removed

    def clear(self) -> None:
        """See `Store.clear`."""
        with self._write_lock, delay_interrupts(), _translate_errors(self._path), self._latest_table() as table:
            if table is not None:
                self._record_write(table, _delete_where(table, "true"))

    def count(self) -> int:
        """See `Store.count`."""
        with delay_interrupts(), _translate_errors(self._path), self._latest_table() as table:
            return table.count_rows() if table is not None else 0

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """See `Store.scan`; iterates over a snapshot taken at the first step.

        While another process is writing, it must finish within `keep_seconds`.
        """
        with _translate_errors(self._path), ExitStack() as stack:
            with delay_interrupts():  # not around `yield`: the handler of the caller must be back then
                table = stack.enter_context(self._latest_table())
                if table is None:
                    return
                keys = table.search().select(["key"]).with_row_id(True).to_arrow()
            order = np.argsort(np.array(keys["key"].to_pylist(), object), kind="stable")
            for batch in batches(keys["_rowid"].to_numpy()[order].tolist(), _READ_BATCH):
                with delay_interrupts():
                    table_rows = table.take_row_ids(list(batch)).select(["key", "document", "vector"]).to_arrow()
                documents = {document.id: (document, row) for document, row in _iter_documents(table_rows)}
                for name in sorted(documents):
                    yield name, *documents[name]

    def close(self) -> None:
        """See `Store.close`."""
        with self._idle_lock:
            self._idle_tables = None

    def _search(self, table: Table, query: Rows, condition: Condition, limit: int) -> list[SearchResult]:
        """The nearest documents that match the condition; fewer than `limit` only if there are no more."""
        search = cast("LanceVectorQueryBuilder", table.search(query, vector_column_name="vector"))
        builder = search.distance_type("dot").limit(limit).select(["document", "vector", "_distance"])
        if condition is not True:
            builder = builder.where(to_datafusion_sql(condition), prefilter=True)
        results = None
        if self._options.method != "exact":
            builder = builder.nprobes(self._options.nprobes).refine_factor(self._options.refine)
            if self._options.method == "hnsw":  # Lance rejects fewer candidates than results
                builder = builder.ef(max(self._options.ef, limit * self._options.refine))
            results = builder.to_arrow()
        if results is None or len(results) < limit:  # an index that returns too few may have missed some
            results = builder.bypass_vector_index().to_arrow()
        query64 = query.astype(np.float64)
        return [SearchResult(document, float((row * query64).sum())) for document, row in _iter_documents(results)]

    @contextmanager
    def _latest_table(self) -> Iterator[Table | None]:
        """The latest version of the table, for this thread only; None if there is no table yet."""
        with self._idle_lock:
            if self._idle_tables is None:
                raise StoreError(f"the store at {self._path} is closed: open it again")
            table = self._idle_tables.pop() if self._idle_tables else None
        if table is None:
            table = self._open_table()
        else:
            refresh: Callable[[], None] = table.checkout_latest  # without type hints
            refresh()
        try:
            yield table
        finally:
            with self._idle_lock:
                if table is not None and self._idle_tables is not None:
                    self._idle_tables.append(table)

    def _open_table(self) -> Table | None:
        try:
            return self._database.open_table(self._table_name)
        except ValueError as error:
            if "not found" in str(error):
                return None
            raise

    def _create_table(self, schema: pa.Schema, *, exists: bool) -> Table:
        # an empty table of another dimension is overwritten: other handles see the new one
        if exists:
            return self._database.create_table(self._table_name, schema=schema, mode="overwrite")
        # another process may have created it
        return self._database.create_table(self._table_name, schema=schema, mode="create", exist_ok=True)

    def _record_write(self, table: Table, rows: int) -> None:
        """Count a write, and optimize the table when due: every write creates files and a version."""
        self._writes += 1
        self._written_rows += rows
        is_due = self._writes >= _MAX_WRITES
        if self._writes >= _OPTIMIZE_WRITES:
            is_due |= self._written_rows >= _OPTIMIZE_SHARE * table.count_rows()
        if self._options.method != "exact":
            is_due |= self._ensure_index(table)
        if is_due:
            table.optimize(cleanup_older_than=timedelta(seconds=self._options.keep_seconds))
            self._writes = self._written_rows = 0

    def _ensure_index(self, table: Table) -> bool:
        """Create the index if the table is large enough; returns whether it lacks a fifth of the rows or more."""
        rows = table.count_rows()
        if rows < self._options.index_rows:
            return False
        statistics = table.index_stats(_INDEX_NAME)
        if statistics is None:
            dimension = _read_dimension(table)
            # Lance's default, 16 dimensions per byte, has a recall of two thirds with 384 dimensions
            subvectors = dimension // _DIMENSIONS_PER_SUBVECTOR if dimension % _DIMENSIONS_PER_SUBVECTOR == 0 else None
            is_hnsw = self._options.method == "hnsw"
            config = HnswSq("dot") if is_hnsw else IvfPq("dot", num_sub_vectors=subvectors)
            table.create_index("vector", config=config, name=_INDEX_NAME)
            return False
        return 5 * statistics.num_unindexed_rows > rows


def _table_schema(dimension: int) -> pa.Schema:
    fields = {"key": pa.string(), "document": pa.large_string(), "tokens": pa.list_(pa.string()), "scalars": pa.json_()}
    return pa.schema([*fields.items(), ("vector", pa.list_(pa.float32(), dimension))])


def _read_dimension(table: Table | None, shape: tuple[int, ...] = ()) -> int:
    """The dimension of the stored vectors; 0 if there are none. They are not counted if `shape` matches the table.

    Raises:
        ValueError: the table has another schema.
    """
    if table is None:
        return 0
    column = table.schema.field("vector").type if "vector" in table.schema.names else None
    if not isinstance(column, pa.FixedSizeListType):
        raise ValueError("the table has no column of vectors: it is damaged, or was not created by this store")
    dimension = int(column.list_size)
    return dimension if dimension in shape[-1:] or table.count_rows() else 0


def _delete_where(table: Table, condition: str) -> int:
    """Delete the matching rows; returns their number."""
    result: Any = table.delete(condition)
    return int(result.num_deleted_rows)  # missing in the type hints


def _to_arrow(documents: Sequence[Document], rows: Rows, schema: pa.Schema) -> pa.Table:
    metadata = [encode_metadata(document.metadata) for document in documents]
    columns = [
        pa.array([id_to_hex(document.id) for document in documents], pa.string()),
        pa.array([document_to_json(document) for document in documents], pa.large_string()),
        pa.array([tokens for tokens, _ in metadata], pa.list_(pa.string())),
        pa.array([scalars for _, scalars in metadata], pa.json_()),
        pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1]),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _iter_documents(results: pa.Table) -> Iterator[tuple[Document, Rows]]:
    for batch in results.to_batches():
        matrix = batch["vector"].flatten().to_numpy().reshape(len(batch), -1)
        for text, row in zip(batch["document"].to_pylist(), matrix, strict=True):
            yield document_from_json(text), row.copy()


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Translate the errors of LanceDB, which are built-in exceptions."""
    try:
        yield
    except (RuntimeError, ValueError, LookupError, OSError) as error:
        message = " ".join(str(error).split())[:300]
        raise StoreError(f"LanceDB error in {path}: {message}") from error
