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
from ragkit.store.base import Filter, Rows, checked_documents, checked_ids, checked_query, checked_rows, checked_top_k
from ragkit.store.embedded_options import LancedbOptions
from ragkit.store.facade import VectorStore
from ragkit.store.filters import parse_filter
from ragkit.store.lancedb_tables import key_of, keys_in, sql_of, tokens_and_scalars
from ragkit.store.portable import Found, complete, document_of, document_text, last_of_each
from ragkit.store.pushdown import Condition, condition_of

_BATCH = 1_000
"""Documents that are read at a time."""
_DELETE_BATCH = 10_000
"""Ids in one condition."""
_INDEX = "ragkit"
_COLUMNS_OF_PART = 8
"""Columns that one byte of a product-quantised row stands for."""
_TIDY_WRITES, _MANY_WRITES = 32, 512
"""Writes after which small files are put together and old versions removed: when a fifth of the rows was written by
them, or when there were very many. It copies all of a table of up to a million rows."""
_LARGE_SHARE = 0.2


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
        self._name = options.table
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", self._name):
            self._name = f"t-{blake2b(self._name.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"
        self._write_lock = threading.Lock()
        self._handles_lock = threading.Lock()
        self._handles: list[Table] | None = []
        self._writes = 0
        self._written_rows = math.inf  # nobody knows how much was written since others have tidied up
        with _translated(self._path):
            self._database = lancedb.connect(self._path)
            with self._latest() as table:
                here = _dimension(table)
        if here and options.dimension not in {None, here}:
            raise DimensionMismatch(options.dimension or 0, here)

    def add_documents(self, documents: Sequence[Document], embeddings: Rows) -> list[str]:
        """As `Store.add_documents` says; all of it is committed at once."""
        if not documents:
            return []
        kept = checked_documents(documents)
        with self._write_lock, _translated(self._path), self._latest() as here:
            dimension = _dimension(here)
            rows = checked_rows(embeddings, len(kept), dimension or self._options.dimension)
            kept, rows = last_of_each(kept, rows)
            schema = _schema(rows.shape[1])
            table = here if here is not None and dimension else self._made(schema, is_there=here is not None)
            merge = table.merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
            merge.execute(_arrow(kept, rows, schema))
            self._written(table, len(kept))
        return [document.id for document in documents]

    def search(self, query_embedding: Rows, top_k: int = 5, filter: Filter | None = None) -> list[SearchResult]:
        """As `Store.search` says, on what was committed when it began, by whichever process."""
        node = parse_filter(filter)
        top_k = checked_top_k(top_k)
        with _translated(self._path), self._latest() as table:
            dimension = _dimension(table, np.shape(query_embedding))
            query = checked_query(query_embedding, dimension or self._options.dimension)
            if table is None or not dimension:
                return []
            condition = condition_of(node)
            return complete(lambda limit: self._best(table, query, condition, limit), node, top_k)

    def delete(self, ids: Sequence[str]) -> int:
        """As `Store.delete` says; 10,000 at a time are committed at once."""
        keys = [key_of(name) for name in checked_ids(ids)]
        removed = 0
        with self._write_lock, _translated(self._path), self._latest() as table:
            if table is None:
                return 0
            for start in range(0, len(keys), _DELETE_BATCH):
                removed += _deleted(table, keys_in(keys[start : start + _DELETE_BATCH]))
            if removed:
                self._written(table, removed)
        return removed

    def clear(self) -> None:
        """As `Store.clear` says."""
        with self._write_lock, _translated(self._path), self._latest() as table:
            if table is not None:
                self._written(table, _deleted(table, "true"))

    def count(self) -> int:
        """As `Store.count` says."""
        with _translated(self._path), self._latest() as table:
            return table.count_rows() if table is not None else 0

    def scan(self) -> Iterator[tuple[str, Document, Rows]]:
        """As `Store.scan` says; a snapshot of the first step is gone through.

        It must be done within `keep_seconds` where another process is writing.
        """
        with _translated(self._path), self._latest() as table:
            if table is None:
                return
            keys = table.search().select(["key"]).with_row_id(True).to_arrow()
            order = np.argsort(np.array(keys["key"].to_pylist(), object), kind="stable")
            numbers = keys["_rowid"].to_numpy()[order].tolist()
            for start in range(0, len(numbers), _BATCH):
                taken = table.take_row_ids(numbers[start : start + _BATCH]).select(["key", "document", "vector"])
                held = {document.id: (document, row) for document, row in _documents(taken.to_arrow())}
                for name in sorted(held):
                    yield name, *held[name]

    def close(self) -> None:
        """As `Store.close` says."""
        with self._handles_lock:
            self._handles = None

    def _best(self, table: Table, query: Rows, condition: Condition, limit: int) -> list[Found]:
        """The nearest of what passes the condition; fewer than `limit` only when there are no more."""
        search = cast("LanceVectorQueryBuilder", table.search(query, vector_column_name="vector"))
        builder = search.distance_type("dot").limit(limit).select(["document", "vector", "_distance"])
        if condition is not True:
            builder = builder.where(sql_of(condition), prefilter=True)
        found = None
        if self._options.method != "exact":
            builder = builder.nprobes(self._options.nprobes).refine_factor(self._options.refine)
            if self._options.method == "hnsw":  # Lance refuses to keep fewer candidates than it is asked for
                builder = builder.ef(max(self._options.ef, limit * self._options.refine))
            found = builder.to_arrow()
        if found is None or len(found) < limit:  # an index that runs dry may have missed some
            found = builder.bypass_vector_index().to_arrow()
        wide = query.astype(np.float64)
        return [Found(document, float((row * wide).sum())) for document, row in _documents(found)]

    @contextmanager
    def _latest(self) -> Iterator[Table | None]:
        """The newest version of the table, for this thread alone; None when there is no table yet."""
        with self._handles_lock:
            if self._handles is None:
                raise StoreError(f"{self._path} is closed: open the store again")
            table = self._handles.pop() if self._handles else None
        if table is None:
            table = self._opened()
        else:
            refresh: Callable[[], None] = table.checkout_latest  # which has no type hints
            refresh()
        try:
            yield table
        finally:
            with self._handles_lock:
                if table is not None and self._handles is not None:
                    self._handles.append(table)

    def _opened(self) -> Table | None:
        try:
            return self._database.open_table(self._name)
        except ValueError as error:
            if "not found" in str(error):
                return None
            raise

    def _made(self, schema: pa.Schema, *, is_there: bool) -> Table:
        # an empty table of another width is written over: others who have it open see the new one
        if is_there:
            return self._database.create_table(self._name, schema=schema, mode="overwrite")
        # another process may have been faster
        return self._database.create_table(self._name, schema=schema, mode="create", exist_ok=True)

    def _written(self, table: Table, rows: int) -> None:
        """Tidy up now and then: every write leaves files and a version behind."""
        self._writes += 1
        self._written_rows += rows
        is_due = self._writes >= _MANY_WRITES
        if self._writes >= _TIDY_WRITES:
            is_due |= self._written_rows >= _LARGE_SHARE * table.count_rows()
        if self._options.method != "exact":
            is_due |= self._indexed(table)
        if is_due:
            table.optimize(cleanup_older_than=timedelta(seconds=self._options.keep_seconds))
            self._writes = self._written_rows = 0

    def _indexed(self, table: Table) -> bool:
        """Make the index when it is time; whether a fifth of the rows, or more, is missing in it."""
        rows = table.count_rows()
        if rows < self._options.index_rows:
            return False
        statistics = table.index_stats(_INDEX)
        if statistics is None:
            width = _dimension(table)
            # Lance's own choice, a part for each 16 columns, finds two thirds of the nearest among rows of 384 columns
            parts = width // _COLUMNS_OF_PART if width % _COLUMNS_OF_PART == 0 else None
            is_hnsw = self._options.method == "hnsw"
            kind = HnswSq("dot") if is_hnsw else IvfPq("dot", num_sub_vectors=parts)
            table.create_index("vector", config=kind, name=_INDEX)
            return False
        return 5 * statistics.num_unindexed_rows > rows


def _schema(dimension: int) -> pa.Schema:
    fields = {"key": pa.string(), "document": pa.large_string(), "tokens": pa.list_(pa.string()), "scalars": pa.json_()}
    return pa.schema([*fields.items(), ("vector", pa.list_(pa.float32(), dimension))])


def _dimension(table: Table | None, shape: tuple[int, ...] = ()) -> int:
    """The width of the rows; 0 when there are none. Nobody counts them where `shape` has the table's width anyway."""
    if table is None:
        return 0
    width = int(table.schema.field("vector").type.list_size)
    return width if width in shape[-1:] or table.count_rows() else 0


def _deleted(table: Table, condition: str) -> int:
    """Delete what the condition picks out; returns how many there were."""
    result: Any = table.delete(condition)
    return int(result.num_deleted_rows)  # which its type hints do not know yet


def _arrow(documents: Sequence[Document], rows: Rows, schema: pa.Schema) -> pa.Table:
    facts = [tokens_and_scalars(document.metadata) for document in documents]
    columns = [
        pa.array([key_of(document.id) for document in documents], pa.string()),
        pa.array([document_text(document) for document in documents], pa.large_string()),
        pa.array([tokens for tokens, _ in facts], pa.list_(pa.string())),
        pa.array([scalars for _, scalars in facts], pa.json_()),
        pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1]),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _documents(found: pa.Table) -> Iterator[tuple[Document, Rows]]:
    for batch in found.to_batches():
        matrix = batch["vector"].flatten().to_numpy().reshape(len(batch), -1)
        for text, row in zip(batch["document"].to_pylist(), matrix, strict=True):
            yield document_of(text), row.copy()


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """LanceDB's errors, which are Python's own kinds, as ours."""
    try:
        yield
    except (RuntimeError, ValueError, OSError) as error:
        said = " ".join(str(error).split())[:300]
        raise StoreError(f"{path} cannot be used: {said}") from error
