"""The store in a LanceDB table: exact search by LanceDB's scan, or an index of it where the options ask for one.

Filters are pushed down as conditions over hashes of facts (`lancedb_tables`); ranges over the elements of a list and
numbers beyond 2**53 are let through and sorted out by the reference evaluator, with more candidates fetched until
nothing is missing. What an index finds is scored again from its rows.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

import numpy as np

os.environ.setdefault("LANCEDB_LOG", "error")  # it tells of tables that it makes, on stderr

import lancedb
import pyarrow as pa
from lancedb.index import HnswSq, IvfPq
from lancedb.query import LanceVectorQueryBuilder
from lancedb.table import Table

from ragkit.errors import DimensionMismatch, StoreError
from ragkit.records import Document, SearchResult
from ragkit.store.backends.adapter_utils import (
    EngineHit,
    collect_top_k,
    deduplicate_by_id,
    document_from_json,
    document_to_json,
)
from ragkit.store.backends.lancedb_records import encode_metadata, id_to_hex, keys_condition, to_datafusion_sql
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
from ragkit.store.filters.pushdown import Condition, to_condition
from ragkit.store.options import LancedbOptions
from ragkit.store.vector_store import VectorStore

_READ_BATCH = 1_000
"""Documents that are read at a time."""
_DELETE_BATCH = 10_000
"""Ids in one condition."""
_INDEX_NAME = "ragkit"
_DIMENSIONS_PER_SUBVECTOR = 8
"""Columns that one byte of a product-quantised row stands for."""
_OPTIMIZE_WRITES, _MAX_WRITES = 32, 512
"""Writes after which small files are put together and old versions removed: when a fifth of the rows was written by
them, or when there were very many. It copies all of a table of up to a million rows."""
_OPTIMIZE_SHARE = 0.2


class LancedbStore(VectorStore):
    """Documents and rows in a LanceDB table. Safe for several threads and processes."""

    persistent = True
    shared = True

    def __init__(self, options: LancedbOptions) -> None:
        """Open the table; it is made when the first rows come.

        Raises:
            DimensionMismatch: it holds rows of another width than the options say.
            StoreError: the directory cannot be used.
        """
        self._options = options
        self._path = Path(options.path)
        self._table_name = options.table
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", self._table_name):
            self._table_name = (
                f"t-{blake2b(self._table_name.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
            )
        self._write_lock = threading.Lock()
        self._idle_lock = threading.Lock()
        self._idle_tables: list[Table] | None = []
        self._writes = 0
        self._written_rows = math.inf  # nobody knows how much was written since others have tidied up
        with _translate_errors(self._path):
            self._database = lancedb.connect(self._path)
            with self._latest_table() as table:
                here = _read_dimension(table)
        if here and options.dimension not in {None, here}:
            raise DimensionMismatch(options.dimension or 0, here)

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """As `Store.add_documents` says; all of it is committed at once."""
        if not documents:
            return []
        kept = validate_documents(documents)
        with self._write_lock, _translate_errors(self._path), self._latest_table() as here:
            dimension = _read_dimension(here)
            rows = validate_rows(embeddings, len(kept), dimension or self._options.dimension)
            kept, rows = deduplicate_by_id(kept, rows)
            schema = _table_schema(rows.shape[1])
            table = here if here is not None and dimension else self._create_table(schema, is_there=here is not None)
            merge = table.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
            merge.execute(_to_arrow(kept, rows, schema))
            self._record_write(table, len(kept))
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """As `Store.search` says, on what was committed when it began, by whichever process."""
        node = parse_filter(filter)
        top_k = validate_top_k(top_k)
        with _translate_errors(self._path), self._latest_table() as table:
            dimension = _read_dimension(table, np.shape(query_embedding))
            query = validate_query(query_embedding, dimension or self._options.dimension)
            if table is None or not dimension:
                return []
            condition = to_condition(node)
            return collect_top_k(lambda limit: self._search(table, query, condition, limit), node, top_k)

    def delete(self, ids: Sequence[str]) -> int:
        """As `Store.delete` says; 10,000 at a time are committed at once."""
        keys = [id_to_hex(name) for name in validate_ids(ids)]
        removed = 0
        with self._write_lock, _translate_errors(self._path), self._latest_table() as table:
            if table is None:
                return 0
            for start in range(0, len(keys), _DELETE_BATCH):
                removed += _delete_where(table, keys_condition(keys[start : start + _DELETE_BATCH]))
            if removed:
                self._record_write(table, removed)
        return removed

    def clear(self) -> None:
        """As `Store.clear` says."""
        with self._write_lock, _translate_errors(self._path), self._latest_table() as table:
            if table is not None:
                self._record_write(table, _delete_where(table, "true"))

    def count(self) -> int:
        """As `Store.count` says."""
        with _translate_errors(self._path), self._latest_table() as table:
            return table.count_rows() if table is not None else 0

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """As `Store.scan` says; a snapshot of the first step is gone through.

        It must be done within `keep_seconds` where another process is writing.
        """
        with _translate_errors(self._path), self._latest_table() as table:
            if table is None:
                return
            keys = table.search().select(["key"]).with_row_id(True).to_arrow()
            order = np.argsort(np.array(keys["key"].to_pylist(), object), kind="stable")
            numbers = keys["_rowid"].to_numpy()[order].tolist()
            for start in range(0, len(numbers), _READ_BATCH):
                taken = table.take_row_ids(numbers[start : start + _READ_BATCH]).select(["key", "document", "vector"])
                held = {document.id: (document, row) for document, row in _iter_documents(taken.to_arrow())}
                for name in sorted(held):
                    yield name, *held[name]

    def close(self) -> None:
        """As `Store.close` says."""
        with self._idle_lock:
            self._idle_tables = None

    def _search(self, table: Table, query: Rows, condition: Condition, limit: int) -> list[EngineHit]:
        """The nearest of what passes the condition; fewer than `limit` only when there are no more."""
        search = cast("LanceVectorQueryBuilder", table.search(query, vector_column_name="vector"))
        builder = search.distance_type("dot").limit(limit).select(["document", "vector", "_distance"])
        if condition is not True:
            builder = builder.where(to_datafusion_sql(condition), prefilter=True)
        found = None
        if self._options.method != "exact":
            builder = builder.nprobes(self._options.nprobes).refine_factor(self._options.refine)
            if self._options.method == "hnsw":  # Lance refuses to keep fewer candidates than it is asked for
                builder = builder.ef(max(self._options.ef, limit * self._options.refine))
            found = builder.to_arrow()
        if found is None or len(found) < limit:  # an index that runs dry may have missed some
            found = builder.bypass_vector_index().to_arrow()
        wide = query.astype(np.float64)
        return [EngineHit(document, float((row * wide).sum())) for document, row in _iter_documents(found)]

    @contextmanager
    def _latest_table(self) -> Iterator[Table | None]:
        """The newest version of the table, for this thread alone; None when there is no table yet."""
        with self._idle_lock:
            if self._idle_tables is None:
                raise StoreError(f"{self._path} is closed: open the store again")
            table = self._idle_tables.pop() if self._idle_tables else None
        if table is None:
            table = self._open_table()
        else:
            refresh: Callable[[], None] = table.checkout_latest  # which has no type hints
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

    def _create_table(self, schema: pa.Schema, *, is_there: bool) -> Table:
        # an empty table of another width is written over: others who have it open see the new one
        if is_there:
            return self._database.create_table(self._table_name, schema=schema, mode="overwrite")
        # another process may have been faster
        return self._database.create_table(self._table_name, schema=schema, mode="create", exist_ok=True)

    def _record_write(self, table: Table, rows: int) -> None:
        """Tidy up now and then: every write leaves files and a version behind."""
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
        """Make the index when it is time; whether a fifth of the rows, or more, is missing in it."""
        rows = table.count_rows()
        if rows < self._options.index_rows:
            return False
        statistics = table.index_stats(_INDEX_NAME)
        if statistics is None:
            width = _read_dimension(table)
            # Lance's own choice, a part for each 16 columns, finds two thirds of the nearest among rows of 384 columns
            parts = width // _DIMENSIONS_PER_SUBVECTOR if width % _DIMENSIONS_PER_SUBVECTOR == 0 else None
            is_hnsw = self._options.method == "hnsw"
            kind = HnswSq("dot") if is_hnsw else IvfPq("dot", num_sub_vectors=parts)
            table.create_index("vector", config=kind, name=_INDEX_NAME)
            return False
        return 5 * statistics.num_unindexed_rows > rows


def _table_schema(dimension: int) -> pa.Schema:
    fields = {"key": pa.string(), "document": pa.large_string(), "tokens": pa.list_(pa.string()), "scalars": pa.json_()}
    return pa.schema([*fields.items(), ("vector", pa.list_(pa.float32(), dimension))])


def _read_dimension(table: Table | None, shape: tuple[int, ...] = ()) -> int:
    """The width of the rows; 0 when there are none. Nobody counts them where `shape` has the table's width anyway."""
    if table is None:
        return 0
    width = int(table.schema.field("vector").type.list_size)
    return width if width in shape[-1:] or table.count_rows() else 0


def _delete_where(table: Table, condition: str) -> int:
    """Delete what the condition picks out; returns how many there were."""
    result: Any = table.delete(condition)
    return int(result.num_deleted_rows)  # which its type hints do not know yet


def _to_arrow(documents: Sequence[Document], rows: Rows, schema: pa.Schema) -> pa.Table:
    facts = [encode_metadata(document.metadata) for document in documents]
    columns = [
        pa.array([id_to_hex(document.id) for document in documents], pa.string()),
        pa.array([document_to_json(document) for document in documents], pa.large_string()),
        pa.array([tokens for tokens, _ in facts], pa.list_(pa.string())),
        pa.array([scalars for _, scalars in facts], pa.json_()),
        pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1]),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _iter_documents(found: pa.Table) -> Iterator[tuple[Document, Rows]]:
    for batch in found.to_batches():
        matrix = batch["vector"].flatten().to_numpy().reshape(len(batch), -1)
        for text, row in zip(batch["document"].to_pylist(), matrix, strict=True):
            yield document_from_json(text), row.copy()


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """LanceDB's errors, which are Python's own kinds, as ours."""
    try:
        yield
    except (RuntimeError, ValueError, OSError) as error:
        said = " ".join(str(error).split())[:300]
        raise StoreError(f"{path} cannot be used: {said}") from error
